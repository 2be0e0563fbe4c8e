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
    private static final Map<String, Reporter> REPORTERS = new ConcurrentHashMap<>();
    /** The counts of each job that were reported last: its next reporter continues there. */
    private static final Map<String, SinkMetrics> REPORTED = new ConcurrentHashMap<>();

    private record Reporter(Object writer, SinkMetrics before) {
        private static Reporter of(String job, Object writer) {
            return new Reporter(writer, REPORTED.getOrDefault(job, NONE));
        }
    }

    public static final class Counters {
        public final LongAdder retained = new LongAdder();
        public final LongAdder resent = new LongAdder();
        public final LongAdder retainedDropped = new LongAdder();
        public final LongAdder throttledNanos = new LongAdder();
    }

    /** Returns the counts of a job since this process began. */
    public static SinkMetrics of(String job) {
        Counters counters = JOBS.computeIfAbsent(job, each -> new Counters());
        return new SinkMetrics(counters.retained.sum(), counters.resent.sum(), counters.retainedDropped.sum(),
                counters.throttledNanos.sum() / 1_000_000);
    }

    /**
     * Returns the counts of a job to one of the writers that report them, and zeros to the others: engines add up what
     * writers report. What was reported before this one is left out: SpecK adds up the reports of all copies of a job.
     */
    public static SinkMetrics of(String job, Object writer) {
        Reporter present = REPORTERS.computeIfAbsent(job, each -> Reporter.of(each, writer));
        if (present.writer() != writer) {
            return NONE;
        }
        SinkMetrics all = of(job);
        REPORTED.put(job, all);
        return all.since(present.before());
    }

    private SinkMetrics since(SinkMetrics before) {
        return new SinkMetrics(retained, resent - before.resent, retainedDropped - before.retainedDropped,
                throttledMillis - before.throttledMillis);
    }

    /** Has a writer report the counts of a job from now on, in the place of one whose end the engine does not tell. */
    public static void begin(String job, Object writer) {
        REPORTERS.put(job, Reporter.of(job, writer));
    }

    /** Ends the reports of a writer. */
    public static void release(String job, Object writer) {
        REPORTERS.computeIfPresent(job, (each, present) -> present.writer() == writer ? null : present);
    }

    /** Returns the counters of the job that writes a message; null for one without a stamp. */
    public static Counters counters(byte[] writer) {
        String job = writer == null ? "" : new String(writer, StandardCharsets.UTF_8);
        return JOBS.computeIfAbsent(job, each -> new Counters());
    }
}
