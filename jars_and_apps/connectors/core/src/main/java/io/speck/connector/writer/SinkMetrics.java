package io.speck.connector.writer;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * Counts of all writers of one job in this process, for stamped messages.
 *
 * @param retained messages that their broker has acknowledged and may not have saved
 * @param resent messages sent again to a broker that may have lost them
 * @param retainedDropped messages dropped before their broker had had them for long enough: for want of memory, or
 *     since the broker refused them when they were sent again
 * @param throttledMillis time that writers waited for readers to catch up
 */
public record SinkMetrics(long retained, long resent, long retainedDropped, long throttledMillis) {
    public static final SinkMetrics NONE = new SinkMetrics(0, 0, 0, 0);
    private static final Map<String, Counters> JOBS = new ConcurrentHashMap<>();
    private static final Map<String, Object> REPORTERS = new ConcurrentHashMap<>();

    public static final class Counters {
        public final LongAdder retained = new LongAdder();
        public final LongAdder resent = new LongAdder();
        public final LongAdder retainedDropped = new LongAdder();
        public final LongAdder throttledNanos = new LongAdder();
    }

    /** Returns the present counts of a job. */
    public static SinkMetrics of(String job) {
        Counters counters = JOBS.computeIfAbsent(job, each -> new Counters());
        return new SinkMetrics(counters.retained.sum(), counters.resent.sum(), counters.retainedDropped.sum(),
                counters.throttledNanos.sum() / 1_000_000);
    }

    /**
     * Returns the present counts of a job to one of the writers that report them, and zeros to the others: engines add
     * up what writers report.
     */
    public static SinkMetrics of(String job, Object reporter) {
        Object first = REPORTERS.putIfAbsent(job, reporter);
        return first == null || first == reporter ? of(job) : NONE;
    }

    /** Ends the reports of a writer. */
    public static void release(String job, Object reporter) {
        REPORTERS.remove(job, reporter);
    }

    /** Returns the counters of the job that writes a message; null for one without a stamp. */
    public static Counters counters(byte[] writer) {
        String job = writer == null ? "" : new String(writer, StandardCharsets.UTF_8);
        return JOBS.computeIfAbsent(job, each -> new Counters());
    }
}
