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
 * What a broker has taken, for a while: one that is killed forgets what it had not saved, and is sent it again.
 *
 * <p>Only messages with a stamp are kept, since nobody could tell another one from its repetition. Bounded in time and
 * memory by two settings of the Java process, {@code speck.sink.keepSeconds} (30) and {@code speck.sink.keepMegabytes}
 * (8, for each broker); the oldest go first. Not thread-safe; guarded by the publisher's lock.
 */
final class RetransmissionBuffer {
    private static final long KEEP_BYTES = Long.getLong("speck.sink.keepMegabytes", 8) << 20;
    private static final int OVERHEAD_BYTES = 200;

    private final Deque<OutgoingMessage> messages = new ArrayDeque<>();
    private final long keepNanos;
    private final long keepBytes;
    private long bytes;
    private long last;

    RetransmissionBuffer() {
        this(TimeUnit.SECONDS.toNanos(ResendRequest.RETENTION_SECONDS), KEEP_BYTES);
    }

    RetransmissionBuffer(long keepNanos, long keepBytes) {
        this.keepNanos = keepNanos;
        this.keepBytes = keepBytes;
    }

    /** The broker has taken it. */
    void add(OutgoingMessage message, long nowNanos) {
        message.taken = true;
        if (message.stamped()) {
            message.keptNumber = ++last;
            message.keptNanos = nowNanos;
            messages.add(message);
            bytes += cost(message);
            trim(nowNanos);
        }
    }

    private static long cost(OutgoingMessage message) {
        return OVERHEAD_BYTES + message.bytes();
    }

    void trim(long nowNanos) {
        while (!messages.isEmpty() && (bytes > keepBytes || nowNanos - messages.peek().keptNanos > keepNanos)) {
            bytes -= cost(messages.remove());
        }
    }

    boolean isEmpty() {
        return messages.isEmpty();
    }

    /** The number of the last message that was added; they count from 1. */
    long last() {
        return last;
    }

    /** Gives away those for which {@code wanted} holds, in their order. */
    List<OutgoingMessage> remove(Predicate<OutgoingMessage> wanted) {
        List<OutgoingMessage> removed = new ArrayList<>();
        for (Iterator<OutgoingMessage> each = messages.iterator(); each.hasNext();) {
            OutgoingMessage message = each.next();
            if (wanted.test(message)) {
                each.remove();
                bytes -= cost(message);
                removed.add(message);
            }
        }
        return removed;
    }
}
