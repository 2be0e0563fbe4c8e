package io.speck.flink.mqtt;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.MapFunction;

/** Fails a given number of times, each after a given number of messages; its count survives restarts of the job. */
final class Failing implements MapFunction<String, String> {
    private static final long serialVersionUID = 1L;
    private static final AtomicInteger LEFT = new AtomicInteger();
    private static final AtomicInteger SEEN = new AtomicInteger();
    private static volatile int every;

    /** @return the number of remaining failures */
    static AtomicInteger times(int failures, int messages) {
        every = messages;
        SEEN.set(0);
        LEFT.set(failures);
        return LEFT;
    }

    @Override
    public String map(String text) {
        if (SEEN.incrementAndGet() >= every && LEFT.get() > 0) {
            SEEN.set(0);
            LEFT.decrementAndGet();
            throw new IllegalStateException("failing as asked, at " + text);
        }
        return text;
    }
}
