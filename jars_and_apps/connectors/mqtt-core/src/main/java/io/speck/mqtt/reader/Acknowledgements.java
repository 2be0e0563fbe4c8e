package io.speck.mqtt.reader;

import io.netty.buffer.ByteBuf;
import io.speck.mqtt.net.Connection;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Queue;

/**
 * What was acknowledged, until it is certain that the broker knows.
 *
 * <p>The protocol has no answer to an acknowledgement, but a broker handles packets in order: its answer to a ping says
 * that all acknowledgements written before the ping arrived. Not thread-safe; guarded by the reader's lock.
 */
final class Acknowledgements {
    private static final int PACKET_BYTES = 4;
    private static final int PUBACK = 0x40;

    private final Deque<Message> unconfirmed = new ArrayDeque<>();
    private final Queue<Long> pings = new ArrayDeque<>();
    private long confirmed;
    /** How many, from the first, are of before the present connection. */
    private int earlier;
    /** Whether the broker may still send again what it holds of before the present connection. */
    private boolean repeating;

    /** Those of an earlier process, whose acknowledgements may not have arrived. */
    void restore(Collection<Message> earlier) {
        earlier.forEach(this::add);
    }

    private void add(Message message) {
        if (message.packetId != 0) {
            unconfirmed.add(message);
        }
    }

    /**
     * Notes messages as done with, in order, and tells the broker of those that it sent on this connection.
     *
     * @param connection the present one, or null
     */
    void send(List<Message> messages, Connection connection, int generation) {
        int valid = 0;
        for (Message message : messages) {
            message.acknowledged = message.connection == generation && message.packetId != 0;
            valid += message.acknowledged ? 1 : 0;
            if (message.acknowledged || repeating || connection == null) {
                add(message);
            }
        }
        if (valid > 0) {
            write(messages, valid, connection);
        }
    }

    /** Tells the broker once more; the messages are noted already. */
    void repeat(List<Message> messages, Connection connection) {
        messages.forEach(message -> message.acknowledged = true);
        write(messages, messages.size(), connection);
    }

    private static void write(List<Message> messages, int count, Connection connection) {
        ByteBuf packets = connection.buffer(PACKET_BYTES * count);
        for (Message message : messages) {
            if (message.acknowledged) {
                packets.writeByte(PUBACK).writeByte(2).writeShort(message.packetId);
            }
        }
        connection.execute(() -> connection.writeAndFlush(packets));
    }

    /** Asks the broker whether all that was sent so far has arrived. */
    void ask(Connection connection) {
        long sent = 0;
        for (Message message : unconfirmed) {
            if (!message.acknowledged) {
                break;
            }
            sent++;
        }
        if (sent > 0) {
            pings.add(confirmed + sent);
            connection.ping();
        }
    }

    void answered() {
        Long position = pings.poll();
        while (position != null && confirmed < position) {
            unconfirmed.remove();
            confirmed++;
            earlier = Math.max(0, earlier - 1);
        }
    }

    /** A new connection: no ping of the old one will be answered, no acknowledgement is certain. */
    void reconnected() {
        pings.clear();
        unconfirmed.forEach(message -> message.acknowledged = false);
        earlier = unconfirmed.size();
        repeating = true;
    }

    /** The broker has begun to send what comes later: what it did not repeat of before this connection, it knows. */
    void repetitionOver() {
        while (earlier > 0 && !unconfirmed.isEmpty() && !unconfirmed.peek().acknowledged) {
            unconfirmed.remove();
            confirmed++;
            earlier--;
        }
        earlier = 0;
    }

    /**
     * The broker has sent again all that it will. What it did not repeat it does not hold any more, so nothing has to
     * be acknowledged: it may have expired, or be of a session that was lost.
     */
    void allRepeated() {
        if (repeating) {
            repeating = false;
            earlier = 0;
            unconfirmed.removeIf(message -> !message.acknowledged);
        }
    }

    /** The broker has another session: it knows of nothing. */
    void forget() {
        repeating = false;
        earlier = 0;
        confirmed += unconfirmed.size();
        unconfirmed.clear();
        pings.clear();
    }

    Collection<Message> unconfirmed() {
        return unconfirmed;
    }

    /** The offset up to which the broker surely knows, given what is committed. */
    long confirmedOffset(long committed) {
        return unconfirmed.isEmpty() ? committed : Math.min(committed, unconfirmed.peek().offset);
    }
}
