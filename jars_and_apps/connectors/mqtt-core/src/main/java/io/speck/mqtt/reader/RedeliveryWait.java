package io.speck.mqtt.reader;

import io.speck.mqtt.net.LiveTime;
import java.time.Duration;

/**
 * The time since a message of the uncommitted batch came last, by the broker's {@link LiveTime}: a broker that is away
 * or stalls may have the next one yet. Not thread-safe; guarded by the reader's lock.
 */
final class RedeliveryWait {
    private final LiveTime live = new LiveTime();
    private long lastNanos;

    void connected(long nowNanos) {
        live.connected(nowNanos);
        restart();
    }

    void answered(long nowNanos) {
        live.answered(nowNanos);
    }

    void restart() {
        lastNanos = live.nanos();
    }

    boolean longerThan(Duration patience) {
        return live.nanos() - lastNanos > patience.toNanos();
    }
}
