package io.speck.mqtt.net;

import java.util.concurrent.TimeUnit;

/**
 * The time during which a broker has proved that it runs: it passes from one answer of the broker to the next on the
 * same connection, and stands still while the broker is away, stalled or out of reach. Not thread-safe.
 */
public final class LiveTime {
    /** A longer silence between two answers says little about what the broker did meanwhile. */
    private static final long LONGEST_STEP_NANOS = TimeUnit.SECONDS.toNanos(2);

    private long lastNanos;
    private long nanos;

    /** Records that a connection was opened. */
    public void connected(long nowNanos) {
        lastNanos = nowNanos;
    }

    /** Records an answer of the broker on the connection opened last. */
    public void answered(long nowNanos) {
        nanos += Math.min(nowNanos - lastNanos, LONGEST_STEP_NANOS);
        lastNanos = nowNanos;
    }

    /** The sum of the time that has passed, in nanoseconds. */
    public long nanos() {
        return nanos;
    }
}
