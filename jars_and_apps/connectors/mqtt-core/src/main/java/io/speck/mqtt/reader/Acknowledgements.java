package io.speck.mqtt.reader;

import io.netty.buffer.ByteBuf;
import io.speck.connector.reader.Message;
import io.speck.mqtt.net.Connection;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.Queue;

/**
 * The messages that were acknowledged, each until the broker is known to have received its acknowledgement.
 *
 * <p>The protocol has no answer to an acknowledgement, but a broker handles packets in order: its answer to a ping
 * confirms all acknowledgements written before the ping. Not thread-safe; guarded by the reader's lock.
 */
final class Acknowledgements {
    private static final int PACKET_BYTES = 4;
    private static final int PUBACK = 0x40;

    private final Deque<Message> unconfirmed = new ArrayDeque<>();
    private final Queue<Long> pings = new ArrayDeque<>();
    private long confirmed;
    /** The number of messages, from the first, that stem from before the present connection. */
    private int earlierCount;
    /** True while the broker may still redeliver messages from before the present connection. */
    private boolean redelivering;

    /** Adds messages of an earlier process whose acknowledgements may not have arrived. */
    void restore(Collection<Message> earlier) {
        earlier.forEach(this::add);
    }

    private void add(Message message) {
        if (message.packetId != 0) {
            unconfirmed.add(message);
        }
    }

    /**
     * Records messages as processed, in order, and acknowledges those that the broker sent on this connection.
     *
     * @param connection the present one, or null
     */
    void send(List<Message> messages, Connection connection, int generation) {
        int valid = 0;
        for (Message message : messages) {
            message.acknowledged = message.connection == generation && message.packetId != 0;
            valid += message.acknowledged ? 1 : 0;
            if (message.acknowledged || redelivering || connection == null) {
                add(message);
            }
        }
        if (valid > 0) {
            write(messages, valid, connection);
        }
    }

    /** Acknowledges recorded messages once more. */
    void acknowledgeAgain(List<Message> messages, Connection connection) {
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

    /** Pings the broker to confirm all acknowledgements sent so far. */
    void requestConfirmation(Connection connection) {
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

    /** Pings the broker only to see that it answers. */
    void probe(Connection connection) {
        pings.add(confirmed);
        connection.ping();
    }

    void answered() {
        Long position = pings.poll();
        while (position != null && confirmed < position) {
            unconfirmed.remove();
            confirmed++;
            earlierCount = Math.max(0, earlierCount - 1);
        }
    }

    /** Starts a new connection: no ping of the old one will be answered, and no acknowledgement is certain. */
    void reconnected() {
        pings.clear();
        unconfirmed.forEach(message -> message.acknowledged = false);
        earlierCount = unconfirmed.size();
        redelivering = true;
    }

    /** Confirms earlier messages that were not redelivered, now that the broker has gone on to later ones. */
    void confirmNotRedelivered() {
        while (earlierCount > 0 && !unconfirmed.isEmpty() && !unconfirmed.peek().acknowledged) {
            unconfirmed.remove();
            confirmed++;
            earlierCount--;
        }
        earlierCount = 0;
    }

    /**
     * Ends redelivery. The broker no longer holds messages that it did not redeliver, as they have expired or belong
     * to a lost session, so they need no acknowledgement.
     */
    void endRedelivery() {
        if (redelivering) {
            redelivering = false;
            earlierCount = 0;
            unconfirmed.removeIf(message -> !message.acknowledged);
        }
    }

    /** Drops everything, since the broker has a new session. */
    void clear() {
        redelivering = false;
        earlierCount = 0;
        confirmed += unconfirmed.size();
        unconfirmed.clear();
        pings.clear();
    }

    Collection<Message> unconfirmed() {
        return unconfirmed;
    }

    /** Returns the offset up to which the broker surely has all acknowledgements. */
    long confirmedOffset(long committed) {
        return unconfirmed.isEmpty() ? committed : Math.min(committed, unconfirmed.peek().offset);
    }
}
