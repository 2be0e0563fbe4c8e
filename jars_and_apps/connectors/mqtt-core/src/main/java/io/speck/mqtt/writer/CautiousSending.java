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
 * cause. A broker that is killed again and again soon after its start ends connections in the same way: so from the second
 * time on, the message is sent only once the connection has lasted for {@link #PROOF_MILLIS} without it, and the broker
 * answers. Not thread-safe; guarded by the publisher's lock.
 */
final class CautiousSending {
    static final long PROOF_MILLIS = 1_000;
    private static final long PROOF_NANOS = TimeUnit.MILLISECONDS.toNanos(PROOF_MILLIS);
    private static final int CLOSINGS = 3;
    /** A connection that lasted longer, or for so long after its proof, did not end at the first messages on it. */
    private static final long SHORT_NANOS = TimeUnit.SECONDS.toNanos(5);

    private long openedNanos;
    /** True once the present connection has lasted without the suspect. */
    private boolean proven;
    /** The messages that were in flight then, and are not answered yet. */
    private final Set<OutgoingMessage> unclear = Collections.newSetFromMap(new IdentityHashMap<>());
    private OutgoingMessage suspect;
    private int closings;

    /** Returns true if a ping is to be sent after {@link #PROOF_MILLIS}. */
    boolean opened(long nowNanos) {
        openedNanos = nowNanos;
        proven = false;
        return suspect != null;
    }

    /** Records that the broker has answered a ping; returns true if that is the proof. */
    boolean pinged(long nowNanos) {
        if (suspect == null || proven || nowNanos - openedNanos < PROOF_NANOS) {
            return false;
        }
        proven = true;
        openedNanos = nowNanos;
        return true;
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
        if (message == suspect) {
            suspect = null;
            closings = 0;
        }
    }

    /** Forgets the messages of a writer, which are dropped unless they were acknowledged before. */
    void drop(Delivery writer) {
        unclear.removeIf(message -> message.delivery == writer && !message.acknowledged);
    }

    /** The number of messages that may be in flight with the next one; 0 while that has to wait for the proof. */
    int window(int most, OutgoingMessage next) {
        return next == suspect && !proven ? 0 : unclear.isEmpty() ? most : 1;
    }
}
