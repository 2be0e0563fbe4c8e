package io.speck.mqtt.writer;

import io.speck.mqtt.net.ResendRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/**
 * The messages that a broker acknowledged lately. A broker that is killed loses what it had not saved; these messages
 * are then sent again.
 *
 * <p>Holds only messages with a stamp, since readers cannot tell another message from its repetition. Bounded in time
 * and memory by two properties of the Java process, {@code speck.sink.keepSeconds} (30) and {@code
 * speck.sink.keepMegabytes} (8, for each broker); the oldest messages are dropped first. Not thread-safe; guarded by
 * the publisher's lock.
 */
final class RetransmissionBuffer {
    private static final long MAXIMUM_BYTES = Long.getLong("speck.sink.keepMegabytes", 8) << 20;
    private static final int OVERHEAD_BYTES = 200;

    private final Deque<OutgoingMessage> messages = new ArrayDeque<>();
    private final long maximumNanos;
    private final long maximumBytes;
    private long bytes;
    private long lastNumber;

    RetransmissionBuffer() {
        this(TimeUnit.SECONDS.toNanos(ResendRequest.RETENTION_SECONDS), MAXIMUM_BYTES);
    }

    RetransmissionBuffer(long maximumNanos, long maximumBytes) {
        this.maximumNanos = maximumNanos;
        this.maximumBytes = maximumBytes;
    }

    /** Adds a message that the broker has acknowledged, if it has a stamp. */
    void add(OutgoingMessage message, long nowNanos) {
        message.acknowledged = true;
        if (message.stamped()) {
            message.deliveryNumber = ++lastNumber;
            message.acknowledgedNanos = nowNanos;
            messages.add(message);
            bytes += cost(message);
            trim(nowNanos);
        }
    }

    private static long cost(OutgoingMessage message) {
        return OVERHEAD_BYTES + message.bytes();
    }

    void trim(long nowNanos) {
        while (!messages.isEmpty()
                && (bytes > maximumBytes || nowNanos - messages.peek().acknowledgedNanos > maximumNanos)) {
            bytes -= cost(messages.remove());
        }
    }

    boolean isEmpty() {
        return messages.isEmpty();
    }

    /** The number of the message added last; numbers count from 1. */
    long lastNumber() {
        return lastNumber;
    }

    /** Removes and returns the messages that fulfil a condition, in their order. */
    List<OutgoingMessage> remove(Predicate<OutgoingMessage> condition) {
        List<OutgoingMessage> removed = new ArrayList<>();
        for (Iterator<OutgoingMessage> each = messages.iterator(); each.hasNext();) {
            OutgoingMessage message = each.next();
            if (condition.test(message)) {
                each.remove();
                bytes -= cost(message);
                removed.add(message);
            }
        }
        return removed;
    }
}
