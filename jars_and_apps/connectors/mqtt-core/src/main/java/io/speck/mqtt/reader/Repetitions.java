package io.speck.mqtt.reader;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.time.Duration;

/**
 * Detects messages that repeat an earlier one: by their stamps, of the writers that the coordinator named.
 *
 * <p>Guarded by the reader's lock, but for {@link #writers} and {@link #lookUp}.
 */
final class Repetitions {
    private final SourceSettings settings;
    private final StampCounts counts;
    private volatile KnownWriters writers = KnownWriters.all();
    private boolean lookedUp;

    Repetitions(SourceSettings settings) {
        this.settings = settings;
        this.counts = new StampCounts(settings);
    }

    StampCounts counts() {
        return counts;
    }

    KnownWriters writers() {
        return writers;
    }

    void restore(KnownWriters recorded) {
        writers = recorded;
    }

    /** Reads the list of the writers from the broker, with the first connection. */
    void lookUp(Fence fence, Duration timeout) throws InterruptedException {
        if (!lookedUp) {
            writers = writers.lookedUp(fence, settings, timeout);
            lookedUp = true;
        }
    }

    /** Takes the writers from a message of the coordinator, if it is their list. */
    void update(Message message) {
        if (message.marker != null && message.topic.equals(KnownWriters.topic(settings))) {
            writers = writers.updated(message.marker, settings);
        }
    }

    /** True if the message is to be dropped; counts it, and takes a stamp from it that is not believed. */
    boolean drops(Message message, ReceiveBuffer buffer) {
        if (message.stamp != null && !writers.believes(message.stamp)) {
            message.disbelieve();
        }
        if (message.badStamp || !message.believed) {
            counts.addBad();
        }
        if (message.stamp == null) {
            return false;
        }
        SeenStamps.Verdict verdict = buffer.see(message);
        boolean dropped = counts.drops(message.stamp, verdict);
        message.collides = !dropped && verdict == SeenStamps.Verdict.COLLISION;
        return dropped;
    }
}
