package io.speck.mqtt.writer;

import io.speck.mqtt.net.LiveTime;
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
 * speck.sink.keepMegabytes} (for each broker; 16, or 8 with a heap below 256 MB); the oldest messages are dropped first. A message ages only by the
 * {@link LiveTime} of its broker, since a broker that does not run saves nothing. Not thread-safe; guarded by the
 * publisher's lock.
 */
final class RetransmissionBuffer {
    private static final long MAXIMUM_BYTES =
            Long.getLong("speck.sink.keepMegabytes", defaultMegabytes(Runtime.getRuntime().maxMemory())) << 20;
    private static final int OVERHEAD_BYTES = 200;

    private final Deque<OutgoingMessage> messages = new ArrayDeque<>();
    private final LiveTime live = new LiveTime();
    private final long maximumNanos;
    private final long maximumBytes;
    private long bytes;
    private long lastNumber;

    RetransmissionBuffer() {
        this(TimeUnit.SECONDS.toNanos(ResendRequest.retentionSeconds()), MAXIMUM_BYTES);
    }

    RetransmissionBuffer(long maximumNanos, long maximumBytes) {
        this.maximumNanos = maximumNanos;
        this.maximumBytes = maximumBytes;
    }

    /** The default bound, MB, in a process with a heap of so many bytes. */
    static long defaultMegabytes(long heapBytes) {
        return heapBytes < 256L << 20 ? 8 : 16; // readers remember some 57,000 messages at least, docs/guarantees.md
    }

    /** Records that a connection to the broker was opened. */
    void connected(long nowNanos) {
        live.connected(nowNanos);
    }

    /** Records an answer of the broker, and drops the messages that it has had for long enough. */
    void answered(long nowNanos) {
        live.answered(nowNanos);
        while (!messages.isEmpty() && live.nanos() - messages.peek().acknowledgedNanos > maximumNanos) {
            bytes -= cost(messages.remove());
        }
    }

    /** Adds a message that the broker has just acknowledged, if it has a stamp. */
    void add(OutgoingMessage message) {
        message.acknowledged = true;
        if (message.stamped() && maximumNanos > 0) {
            message.deliveryNumber = ++lastNumber;
            message.acknowledgedNanos = live.nanos();
            messages.add(message);
            bytes += cost(message);
            while (bytes > maximumBytes) {
                SinkMetrics.counters(messages.peek()).retainedDropped.increment();
                bytes -= cost(messages.remove());
            }
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
