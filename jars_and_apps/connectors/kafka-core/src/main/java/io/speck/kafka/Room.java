package io.speck.kafka;

import io.speck.connector.reader.ReceiveBuffer;
import java.util.concurrent.locks.Condition;

/**
 * The room that a reader has for further messages. Guarded by the reader's lock, and so are the calls.
 *
 * <p>What an engine is not ready for stays at the broker: later it comes in fewer and larger fetches, and until then the
 * garbage collector has no messages to carry along.
 */
final class Room {
    /** The messages that may wait for an engine that takes each one once. */
    static final int MOST_WAITING = 2000;

    private final Condition changed;
    private final ReceiveBuffer buffer;
    private final Uncommitted uncommitted;
    private final long mostBytes;
    private boolean awaited;

    /** @param changed a condition of the reader's lock */
    Room(Condition changed, ReceiveBuffer buffer, Uncommitted uncommitted, long mostBytes) {
        this.changed = changed;
        this.buffer = buffer;
        this.uncommitted = uncommitted;
        this.mostBytes = mostBytes;
    }

    private boolean isThere(int mostWaiting) {
        return buffer.waiting() <= mostWaiting && uncommitted.bytes() <= mostBytes;
    }

    /** Waits for room; false if there is none after this time. */
    boolean await(long nanos) throws InterruptedException {
        long remainingNanos = nanos;
        while (!isThere(MOST_WAITING) && remainingNanos > 0) {
            awaited = true;
            remainingNanos = changed.awaitNanos(remainingNanos);
        }
        awaited = false;
        return isThere(MOST_WAITING);
    }

    /** Ends the wait when messages were taken or committed, and half of the room is free: it is to end seldom. */
    void changed() {
        if (awaited && isThere(MOST_WAITING / 2)) {
            changed.signal();
        }
    }
}
