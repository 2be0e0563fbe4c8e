package io.speck.mqtt.writer;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.List;

/** The messages that wait to be sent, in order. Not thread-safe; guarded by the publisher's lock. */
final class Outbox {
    private static final int MESSAGES = 4000;
    private static final long BYTES = 8L << 20;

    private final Deque<OutgoingMessage> queue = new ArrayDeque<>();
    private long bytes;

    boolean isEmpty() {
        return queue.isEmpty();
    }

    /** True if writers must wait. */
    boolean full() {
        return queue.size() >= MESSAGES || bytes > BYTES;
    }

    long bytes() {
        return bytes;
    }

    void add(OutgoingMessage message) {
        queue.add(message);
        bytes += message.bytes();
    }

    /** Inserts messages before all others, in their order. */
    void addFirst(List<OutgoingMessage> messages) {
        for (int i = messages.size() - 1; i >= 0; i--) {
            queue.addFirst(messages.get(i));
            bytes += messages.get(i).bytes();
        }
    }

    OutgoingMessage peek() {
        return queue.peek();
    }

    OutgoingMessage remove() {
        OutgoingMessage message = queue.remove();
        bytes -= message.bytes();
        return message;
    }

    /** Drops, and returns, the messages of a writer that the broker has never acknowledged. */
    List<OutgoingMessage> drop(Delivery writer) {
        List<OutgoingMessage> dropped =
                queue.stream().filter(message -> message.delivery == writer && !message.acknowledged).toList();
        queue.removeIf(message -> message.delivery == writer && !message.acknowledged);
        bytes = queue.stream().mapToLong(OutgoingMessage::bytes).sum();
        return dropped;
    }

    Collection<OutgoingMessage> messages() {
        return queue;
    }
}
