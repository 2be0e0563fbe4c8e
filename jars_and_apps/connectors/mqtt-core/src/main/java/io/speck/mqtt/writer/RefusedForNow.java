package io.speck.mqtt.writer;

import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Runtime;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The messages that were sent again, and that the broker refuses for a reason which may pass: a quota, as many come at once
 * then, or a right that is missing for a while. Their input is acknowledged, so that no job would write them again: they are
 * sent after growing pauses, for as long as messages are retained. Guarded by the publisher's lock.
 */
final class RefusedForNow {
    private static final long SHORTEST_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long LONGEST_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final ReentrantLock lock;
    private final Outbox outbox;
    private final Runnable queued;
    private final long mostNanos = TimeUnit.SECONDS.toNanos(ResendRequest.retentionSeconds());
    private final List<OutgoingMessage> messages = new ArrayList<>();

    /** @param queued called with the lock once messages wait in the outbox */
    RefusedForNow(ReentrantLock lock, Outbox outbox, Runnable queued) {
        this.lock = lock;
        this.outbox = outbox;
        this.queued = queued;
    }

    /** Takes a message, to be sent again after a pause; false if it was refused for too long. */
    boolean add(OutgoingMessage message) {
        long now = System.nanoTime();
        message.refusedNanos = message.refusedNanos == 0 ? now : message.refusedNanos;
        long sinceNanos = now - message.refusedNanos;
        if (sinceNanos >= mostNanos) {
            return false;
        }
        messages.add(message);
        if (messages.size() == 1) {
            long pauseNanos = Math.max(SHORTEST_PAUSE_NANOS, Math.min(sinceNanos, LONGEST_PAUSE_NANOS));
            Runtime.LOOPS.schedule(this::send, pauseNanos, TimeUnit.NANOSECONDS);
        }
        return true;
    }

    private void send() {
        lock.lock();
        try {
            outbox.addFirst(messages);
            messages.clear();
            queued.run();
        } finally {
            lock.unlock();
        }
    }
}
