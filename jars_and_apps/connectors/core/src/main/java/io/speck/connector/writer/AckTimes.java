package io.speck.connector.writer;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * The times from messages to their acknowledgements, and the time in which the in-flight window was full, within the
 * last minute.
 *
 * <p>Six slices of ten seconds, each a histogram with eight buckets to each power of two, so that a median is accurate
 * to about 6 percent. It takes 10 kB for each broker, and allocates nothing for a message: its cost is two readings of
 * the clock (some 25 ns each) and one increment. Not thread-safe; guarded by the publisher's lock.
 */
public final class AckTimes {
    private static final int SLICES = 6;
    private static final long SLICE_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final double NANOS_PER_MILLI = 1e6;
    /** Buckets of each power of two, and the least time told apart: 1,024 ns. */
    private static final int STEPS = 8;
    private static final int STEP_BITS = 3;
    private static final int UNIT_BITS = 10;
    private static final int BUCKETS = STEPS * (Long.SIZE - UNIT_BITS - STEP_BITS);

    private final int[][] counts = new int[SLICES][BUCKETS];
    private final long[] least = new long[SLICES];
    private final long[] fullNanos = new long[SLICES];
    private final long begunNanos;
    private long sliceStart;
    private int slice;
    private long lastNanos;
    private boolean full;

    public AckTimes(long nowNanos) {
        begunNanos = nowNanos;
        sliceStart = nowNanos;
        lastNanos = nowNanos;
        Arrays.fill(least, Long.MAX_VALUE);
    }

    /** Adds the time of an acknowledgement that has come now. */
    public void add(long nowNanos, long ackNanos) {
        advance(nowNanos);
        counts[slice][bucket(ackNanos)]++;
        least[slice] = Math.min(least[slice], ackNanos);
    }

    /** Records if the window is full from now on. */
    public void full(boolean now, long nowNanos) {
        if (now != full) {
            advance(nowNanos);
            full = now;
        }
    }

    public AckMetrics metrics(String broker, long nowNanos) {
        advance(nowNanos);
        long spanNanos = Math.min(nowNanos - begunNanos, (SLICES - 1) * SLICE_NANOS + nowNanos - sliceStart);
        double windowFull = spanNanos <= 0 ? 0 : Math.min(1, (double) Arrays.stream(fullNanos).sum() / spanNanos);
        long shortest = Arrays.stream(least).min().orElseThrow();
        if (shortest == Long.MAX_VALUE) {
            return new AckMetrics(broker, -1, -1, windowFull);
        }
        double median = Math.max(shortest, medianNanos());
        return new AckMetrics(broker, shortest / NANOS_PER_MILLI, median / NANOS_PER_MILLI, windowFull);
    }

    private double medianNanos() {
        long all = Arrays.stream(counts).flatMapToInt(Arrays::stream).asLongStream().sum();
        long before = 0;
        int bucket = -1;
        while (2 * before < all) {
            bucket++;
            for (int[] each : counts) {
                before += each[bucket];
            }
        }
        return (start(bucket) + start(bucket + 1)) / 2.0;
    }

    /** Counts the time since the last call, and begins a slice in place of the oldest one where the present one ends. */
    private void advance(long nowNanos) {
        while (nowNanos - sliceStart >= SLICE_NANOS) {
            count(sliceStart + SLICE_NANOS);
            sliceStart += SLICE_NANOS;
            slice = (slice + 1) % SLICES;
            Arrays.fill(counts[slice], 0);
            least[slice] = Long.MAX_VALUE;
            fullNanos[slice] = 0;
        }
        count(nowNanos);
    }

    private void count(long untilNanos) {
        fullNanos[slice] += full ? untilNanos - lastNanos : 0;
        lastNanos = untilNanos;
    }

    /** The bucket of a time: up to the first 8 units one each, then 8 of equal width to each power of two. */
    public static int bucket(long nanos) {
        long units = Math.max(0, nanos) >>> UNIT_BITS;
        if (units < STEPS) {
            return (int) units;
        }
        int power = Long.SIZE - 1 - Long.numberOfLeadingZeros(units) - STEP_BITS;
        return power * STEPS + (int) (units >>> power);
    }

    /** The least time of a bucket, in ns. */
    public static long start(int bucket) {
        int power = Math.max(0, bucket / STEPS - 1);
        return (long) (bucket - power * STEPS) << power + UNIT_BITS;
    }
}
