package io.speck.mqtt.net;

import java.util.concurrent.ThreadLocalRandom;

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

    public void reset() {
        failures = 0;
    }
}
