package io.speck.spark.mqtt;

import java.io.Serializable;
import java.time.Duration;

/**
 * Determines the time to gather rows before a batch closes.
 *
 * <p>A batch has a fixed cost, independent of its size. A wait in proportion to the duration of the last one keeps the
 * latency of an idle machine low, and gives a loaded one few large batches: with a ratio of 0.5 a query spends at most
 * two thirds of its time on batches.
 */
final class Pacing {
    /**
     * @param idleWait time to wait for a first row before Spark gets an empty batch
     * @param maxDelay upper bound of the time that a row waits for others
     * @param ratio time between two batches divided by the duration of the last one
     * @param quietTime time without arrivals after which all available messages have arrived
     */
    record Settings(Duration idleWait, Duration maxDelay, double ratio, Duration quietTime) implements Serializable {}

    private final Settings settings;
    private long begunNanos;
    private long endedNanos;
    private boolean running;

    Pacing(Settings settings) {
        this.settings = settings;
    }

    /** Records that a batch with rows goes to the engine. */
    void begins(long nowNanos) {
        begunNanos = nowNanos;
        running = true;
    }

    /** Records that the engine requests the next batch. */
    void ends(long nowNanos) {
        if (running) {
            endedNanos = nowNanos;
            running = false;
        }
    }

    /** Returns the remaining time to gather rows after the first one, in nanoseconds. */
    long lingerNanos(long nowNanos) {
        if (begunNanos == 0) {
            return 0;
        }
        double gatherNanos = Math.min(settings.maxDelay().toNanos(), settings.ratio() * (endedNanos - begunNanos));
        return Math.max(0, (long) gatherNanos - (nowNanos - endedNanos));
    }
}
