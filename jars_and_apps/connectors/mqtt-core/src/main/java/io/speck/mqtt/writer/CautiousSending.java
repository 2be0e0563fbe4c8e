package io.speck.mqtt.writer;

import java.util.Collection;
import java.util.concurrent.TimeUnit;

/**
 * Finds a message at which a broker closes the connection, and gives no other answer: some do so at a packet that is too
 * large, and the answers to all messages in flight are lost with the connection.
 *
 * <p>After a connection that ended soon, the messages that were in flight are sent one at a time, so that the answer to
 * each is seen. A message at which the connection ends {@link #CLOSINGS} times while nothing else is in flight is the
 * cause. Not thread-safe; guarded by the publisher's lock.
 */
final class CautiousSending {
    private static final int CLOSINGS = 3;
    /** A connection that lasted longer did not end at the first messages on it. */
    private static final long SHORT_NANOS = TimeUnit.SECONDS.toNanos(5);

    private long openedNanos;
    /** The number of messages that are still sent one at a time. */
    private int remaining;
    private OutgoingMessage suspect;
    private int closings;

    void opened(long nowNanos) {
        openedNanos = nowNanos;
    }

    /**
     * Records the end of a connection by the broker.
     *
     * @param unanswered the messages in flight
     * @return the message that is the cause; null if none is known to be
     */
    OutgoingMessage closed(Collection<OutgoingMessage> unanswered, long nowNanos) {
        boolean alone = remaining > 0 && unanswered.size() == 1;
        if (unanswered.isEmpty() || nowNanos - openedNanos > SHORT_NANOS) {
            forget();
            return null;
        }
        OutgoingMessage first = unanswered.iterator().next();
        closings = alone && first == suspect ? closings + 1 : alone ? 1 : 0;
        suspect = alone ? first : null;
        remaining = Math.max(remaining, unanswered.size());
        if (closings < CLOSINGS) {
            return null;
        }
        forget();
        return first;
    }

    private void forget() {
        remaining = 0;
        suspect = null;
        closings = 0;
    }

    /** Records the answer to a message. */
    void answered() {
        remaining = Math.max(0, remaining - 1);
    }

    /** The number of messages that may be in flight. */
    int window(int most) {
        return remaining > 0 ? 1 : most;
    }
}
