package io.speck.spark.mqtt;

import java.io.Serializable;
import java.time.Duration;

/**
 * How long to gather rows before a batch closes.
 *
 * <p>A batch has a fixed cost, whatever its size. Waiting in proportion to what the last one took keeps a machine with
 * little to do quick, and gives a loaded one few large batches: with a ratio of 0.5 a query spends at most two
 * thirds of its time on batches.
 */
final class Pacing {
    /**
     * @param idleWait how long to wait for a first row before Spark hears that there is none
     * @param maxDelay bound of the time that a row waits for others
     * @param ratio time between two batches over the time that the last one took
     * @param quietTime how long nothing must arrive for "all that is available now" to have arrived
     */
    record Settings(Duration idleWait, Duration maxDelay, double ratio, Duration quietTime) implements Serializable {}

    private final Settings settings;
    private long begunNanos;
    private long endedNanos;
    private boolean running;

    Pacing(Settings settings) {
        this.settings = settings;
    }

    /** A batch with rows goes to the engine. */
    void begins(long nowNanos) {
        begunNanos = nowNanos;
        running = true;
    }

    /** The engine asks for the next batch. */
    void ends(long nowNanos) {
        if (running) {
            endedNanos = nowNanos;
            running = false;
        }
    }

    /** How much longer to gather rows, in nanoseconds, when there is one already. */
    long lingerNanos(long nowNanos) {
        if (begunNanos == 0) {
            return 0;
        }
        double wanted = Math.min(settings.maxDelay().toNanos(), settings.ratio() * (endedNanos - begunNanos));
        return Math.max(0, (long) wanted - (nowNanos - endedNanos));
    }
}
