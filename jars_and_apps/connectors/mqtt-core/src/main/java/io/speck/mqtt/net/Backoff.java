package io.speck.mqtt.net;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;

/** Exponential back-off with equal jitter, so that many clients of one broker do not reconnect at the same moment. */
public final class Backoff {
    private final long firstMillis;
    private final long capMillis;
    private int failures;

    public Backoff(long firstMillis, long capMillis) {
        this.firstMillis = firstMillis;
        this.capMillis = capMillis;
    }

    /** Returns the wait before the next attempt in milliseconds, at least half of the current bound. */
    public long nextMillis() {
        long bound = Math.min(capMillis, firstMillis << Math.min(failures, 20));
        failures++;
        return bound / 2 + ThreadLocalRandom.current().nextLong(bound / 2 + 1);
    }

    /**
     * Waits before the next attempt.
     *
     * @param lock not held; guards the condition and {@code ended}
     * @param changed signalled when {@code ended} becomes true
     * @return false if it has ended meanwhile
     */
    public boolean pause(ReentrantLock lock, Condition changed, BooleanSupplier ended) throws InterruptedException {
        lock.lock();
        try {
            long remainingNanos = TimeUnit.MILLISECONDS.toNanos(nextMillis());
            while (!ended.getAsBoolean() && remainingNanos > 0) {
                remainingNanos = changed.awaitNanos(remainingNanos);
            }
            return !ended.getAsBoolean();
        } finally {
            lock.unlock();
        }
    }

    public void reset() {
        failures = 0;
    }
}
