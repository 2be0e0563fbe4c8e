package io.speck.mqtt.writer;

import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.net.LiveTime;
import io.speck.mqtt.net.ResendRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/**
 * The messages that a broker acknowledged lately. A broker that is killed loses what it had not saved; these messages
 * are then sent again.
 *
 * <p>Holds messages with a stamp, by which readers recognise a repetition, and those that may be repeated. Bounded in time
 * and memory by two properties of the Java process, {@code speck.sink.keepSeconds} (300) and {@code
 * speck.sink.keepMegabytes} (for each broker; 16, or 8 with a heap below 256 MB); the oldest messages are dropped first.
 * A message ages only by the {@link LiveTime} of its broker, since a broker that does not run saves nothing. Not
 * thread-safe; guarded by the publisher's lock.
 *
 * <p>A message that is sent again stays, unconfirmed until the broker acknowledges it once more. With a {@link Spool}, the
 * messages are on disk as well.
 */
final class RetransmissionBuffer {
    private static final long MAXIMUM_BYTES =
            Long.getLong("speck.sink.keepMegabytes", defaultMegabytes(Runtime.getRuntime().maxMemory())) << 20;
    private static final int OVERHEAD_BYTES = 200;
    /** The bound of the messages that were taken over and acknowledged, as a multiple of that of the others. */
    private static final int TAKEN_OVER_BOUNDS = 4;

    private final Deque<OutgoingMessage> messages = new ArrayDeque<>();
    private final LiveTime live = new LiveTime();
    private final long maximumNanos;
    private final long maximumBytes;
    private long bytes;
    /**
     * Of the messages that were taken over: they are held beyond the bound, until newer ones alone reach it. They begin to
     * age anew, so that processes which end soon would hand on more and more of them: they have a bound of their own.
     */
    private long takenOverBytes;
    private long lastNumber;
    private int unconfirmed;
    private byte[] countedJob;
    private SinkMetrics.Counters counters;
    /** Null without one. */
    private Spool spool;

    RetransmissionBuffer() {
        this(TimeUnit.SECONDS.toNanos(ResendRequest.retentionSeconds()), MAXIMUM_BYTES);
    }

    RetransmissionBuffer(long maximumNanos, long maximumBytes) {
        this.maximumNanos = maximumNanos;
        this.maximumBytes = maximumBytes;
    }

    /** The default bound, MB, in a process with a heap of so many bytes. */
    static long defaultMegabytes(long heapBytes) {
        return heapBytes < 256L << 20 ? 8 : 16; // readers remember some 57,000 messages at least, docs/faults.md
    }

    /** Writes the messages to disk as well, from now on; null to hold them in memory alone. */
    void spool(Spool to) {
        spool = to;
        if (to != null) {
            messages.forEach(message -> to.append(message, message.deliveryNumber));
        }
    }

    /** Records that a connection to the broker was opened. */
    void connected(long nowNanos) {
        live.connected(nowNanos);
    }

    /** Records an answer of the broker, and drops the messages that it has had for long enough. */
    void answered(long nowNanos) {
        live.answered(nowNanos);
        while (!messages.isEmpty() && !messages.peek().unconfirmed
                && live.nanos() - messages.peek().acknowledgedNanos > maximumNanos) {
            dropOldest();
        }
    }

    private void dropOldest() {
        OutgoingMessage oldest = messages.remove();
        release(oldest);
        if (spool != null) {
            spool.keepFrom(messages.isEmpty() ? lastNumber + 1 : messages.peek().deliveryNumber);
        }
    }

    private void release(OutgoingMessage message) {
        counters(message).retained.decrement();
        bytes -= cost(message);
        if (message.takenOver) {
            takenOverBytes -= cost(message);
            message.takenOver = false;
        }
        confirm(message);
        message.deliveryNumber = 0;
    }

    /** Returns the counters of a message's job, without a look-up for the next message of one writer. */
    private SinkMetrics.Counters counters(OutgoingMessage message) {
        if (counters == null || message.job != countedJob) {
            countedJob = message.job;
            counters = SinkMetrics.counters(message.job);
        }
        return counters;
    }

    /** Ends the count of the messages that stay, of which another process takes those on disk over. */
    void end() {
        messages.forEach(each -> counters(each).retained.decrement());
    }

    private void confirm(OutgoingMessage message) {
        if (message.unconfirmed) {
            message.unconfirmed = false;
            unconfirmed--;
        }
    }

    /** Adds a message that the broker has just acknowledged, if it can be sent again; confirms one that is held already. */
    void add(OutgoingMessage message) {
        message.acknowledged = true;
        message.refusedNanos = 0;
        message.acknowledgedNanos = live.nanos();
        if (message.deliveryNumber > 0) {
            confirmed(message);
        } else if ((message.stamped() || message.mayRepeat) && maximumNanos > 0) {
            hold(message);
        }
    }

    /** Adds a message of an earlier process: the broker acknowledged it, and may have lost it since. */
    void takeOver(OutgoingMessage message) {
        message.acknowledged = true;
        message.acknowledgedNanos = live.nanos();
        message.takenOver = true;
        takenOverBytes += cost(message);
        hold(message);
        unconfirm(message);
    }

    private void hold(OutgoingMessage message) {
        message.deliveryNumber = ++lastNumber;
        messages.add(message);
        counters(message).retained.increment();
        bytes += cost(message);
        if (spool != null) {
            spool.append(message, lastNumber);
        }
        while (bytes - takenOverBytes > maximumBytes) {
            SinkMetrics.counters(messages.peek().job).retainedDropped.increment();
            dropOldest();
        }
    }

    private void unconfirm(OutgoingMessage message) {
        if (message.deliveryNumber > 0 && !message.unconfirmed) {
            message.unconfirmed = true;
            unconfirmed++;
        }
    }

    private static long cost(OutgoingMessage message) {
        return OVERHEAD_BYTES + message.bytes();
    }

    boolean isEmpty() {
        return messages.isEmpty();
    }

    /** The number of the message added last; numbers count from 1. */
    long lastNumber() {
        return lastNumber;
    }

    /** The number up to which the broker has acknowledged all messages, those that were sent again included. */
    long confirmedNumber() {
        if (unconfirmed > 0) {
            for (OutgoingMessage message : messages) {
                if (message.unconfirmed) {
                    return message.deliveryNumber - 1;
                }
            }
        }
        return lastNumber;
    }

    /**
     * Returns the messages that fulfil a condition, in their order, to be sent again; without those that are being sent
     * again already. They stay in the buffer.
     */
    List<OutgoingMessage> again(Predicate<OutgoingMessage> condition) {
        List<OutgoingMessage> found = new ArrayList<>();
        for (OutgoingMessage message : messages) {
            if (!message.unconfirmed && condition.test(message)) {
                unconfirm(message);
                found.add(message);
            }
        }
        return found;
    }

    /**
     * Returns the messages above a number, as {@link #again}: the broker itself may have lost them, also those that were
     * requested for a session before this was clear.
     */
    List<OutgoingMessage> lost(long number) {
        messages.stream().filter(message -> message.deliveryNumber > number).forEach(message -> message.forSession = false);
        return again(message -> message.deliveryNumber > number);
    }

    /** Confirms a message that the broker stores. */
    void confirmed(OutgoingMessage message) {
        confirm(message);
        while (takenOverBytes > TAKEN_OVER_BOUNDS * maximumBytes && messages.peek().takenOver
                && !messages.peek().unconfirmed) {
            SinkMetrics.counters(messages.peek().job).retainedDropped.increment();
            dropOldest();
        }
    }

    /** Drops, and counts, a message that the broker refuses when it is sent again: the broker may have lost it. */
    void drop(OutgoingMessage message) {
        if (message.deliveryNumber > 0 && messages.remove(message)) {
            SinkMetrics.counters(message.job).retainedDropped.increment();
            release(message);
        }
    }
}
