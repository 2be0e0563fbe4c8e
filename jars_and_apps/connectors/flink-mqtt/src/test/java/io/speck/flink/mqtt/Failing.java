package io.speck.flink.mqtt;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.MapFunction;

/** Fails so many times, each when so many more messages have passed; the count outlives the job's restarts. */
final class Failing implements MapFunction<String, String> {
    private static final long serialVersionUID = 1L;
    private static final AtomicInteger LEFT = new AtomicInteger();
    private static final AtomicInteger SEEN = new AtomicInteger();
    private static volatile int every;

    /** @return how many failures are left */
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
