package io.speck.mqtt.writer;

import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
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
    /** The messages that were in flight then, and are not answered yet. */
    private final Set<OutgoingMessage> unclear = Collections.newSetFromMap(new IdentityHashMap<>());
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
        boolean alone = !unclear.isEmpty() && unanswered.size() == 1;
        if (unanswered.isEmpty() || nowNanos - openedNanos > SHORT_NANOS) {
            forget();
            return null;
        }
        OutgoingMessage first = unanswered.iterator().next();
        closings = alone && first == suspect ? closings + 1 : alone ? 1 : 0;
        suspect = alone ? first : null;
        unclear.addAll(unanswered);
        if (closings < CLOSINGS) {
            return null;
        }
        forget();
        return first;
    }

    private void forget() {
        unclear.clear();
        suspect = null;
        closings = 0;
    }

    /** Records the answer to a message. */
    void answered(OutgoingMessage message) {
        unclear.remove(message);
    }

    /** Forgets the messages of a writer, which are dropped unless they were acknowledged before. */
    void drop(Delivery writer) {
        unclear.removeIf(message -> message.delivery == writer && !message.acknowledged);
    }

    /** The number of messages that may be in flight. */
    int window(int most) {
        return unclear.isEmpty() ? most : 1;
    }
}
