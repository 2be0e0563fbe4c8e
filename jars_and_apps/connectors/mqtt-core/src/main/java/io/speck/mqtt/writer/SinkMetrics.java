package io.speck.mqtt.writer;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * Counts of all writers of one job in this process, for stamped messages.
 *
 * @param resent messages sent again to a broker that may have lost them
 * @param retainedDropped messages dropped for want of memory before their broker had had them for long enough
 * @param throttledMillis time that writers waited for readers to catch up
 */
public record SinkMetrics(long resent, long retainedDropped, long throttledMillis) {
    private static final Map<String, Counters> JOBS = new ConcurrentHashMap<>();

    static final class Counters {
        final LongAdder resent = new LongAdder();
        final LongAdder retainedDropped = new LongAdder();
        final LongAdder throttledNanos = new LongAdder();
    }

    /** Returns the present counts of a job. */
    public static SinkMetrics of(String job) {
        Counters counters = JOBS.computeIfAbsent(job, each -> new Counters());
        return new SinkMetrics(counters.resent.sum(), counters.retainedDropped.sum(),
                counters.throttledNanos.sum() / 1_000_000);
    }

    /** Returns the counters of the job that writes a message. */
    static Counters counters(OutgoingMessage message) {
        String job = message.job == null ? "" : new String(message.job, StandardCharsets.UTF_8);
        return JOBS.computeIfAbsent(job, each -> new Counters());
    }
}
