package io.speck.mqtt.reader;

import io.speck.connector.reader.Message;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The messages that the broker redelivers at the beginning of the present connection, up to those that are new. Not
 * thread-safe; guarded by the reader's lock.
 */
final class Redelivery {
    private static final long QUIET_NANOS = TimeUnit.SECONDS.toNanos(2);

    private final Acknowledgements acknowledgements;
    private final RedeliveryMatcher.Outcome outcome;
    /** Null before the first connection. */
    private RedeliveryMatcher matcher;
    private long lastArrivalNanos;

    Redelivery(Acknowledgements acknowledgements, RedeliveryMatcher.Outcome outcome) {
        this.acknowledgements = acknowledgements;
        this.outcome = outcome;
    }

    /**
     * Begins with a new connection.
     *
     * @param unacknowledged messages that are not acknowledged yet
     */
    void begin(Collection<Message> unacknowledged) {
        lastArrivalNanos = System.nanoTime();
        matcher = new RedeliveryMatcher(acknowledgements.unconfirmed(), unacknowledged);
    }

    /** Begins with a session that the broker did not have: it redelivers nothing. */
    void beginEmpty() {
        lastArrivalNanos = System.nanoTime();
        matcher = new RedeliveryMatcher(List.of(), List.of());
    }

    /** Takes a message that has just arrived, which may be held back. */
    void offer(Message message, boolean dup) {
        boolean wasAmongAcknowledged = matcher.amongAcknowledged();
        matcher.offer(message, dup, outcome);
        if (wasAmongAcknowledged && !matcher.amongAcknowledged()) {
            acknowledgements.confirmNotRedelivered();
        }
        if (matcher.over()) {
            acknowledgements.endRedelivery();
        }
    }

    /** Records the arrival of any message. */
    void arrived() {
        lastArrivalNanos = System.nanoTime();
    }

    /** Decides on messages held back once the broker sends no more; returns the longest time to wait. */
    long resolveHeldBack(long nanos) {
        if (matcher == null || !matcher.holdsBack()) {
            return nanos;
        }
        long quietNanos = System.nanoTime() - lastArrivalNanos;
        if (quietNanos >= QUIET_NANOS) {
            matcher.resolve(outcome);
            acknowledgements.confirmNotRedelivered();
            return nanos;
        }
        return Math.min(nanos, QUIET_NANOS - quietNanos + 1);
    }
}
