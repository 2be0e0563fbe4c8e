package io.speck.mqtt.writer;

import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.AckTimes;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The messages that were sent and are not acknowledged yet, by packet id, in the order of sending. */
final class InflightWindow {
    private static final int SIZE = 1000;
    /**
     * Beyond it no further message is sent. Large messages in flight take memory, twice while they wait in the socket, and
     * the broker's report of its store does not count them ({@link BackPressure}).
     */
    private static final long BYTES = 8L << 20;
    private static final int PACKET_IDS = 65535;

    private final Map<Integer, OutgoingMessage> inflight = new LinkedHashMap<>();
    private final AckTimes times = new AckTimes(System.nanoTime());
    private long bytes;
    private int lastPacketId;

    /** True if one more may be sent to a broker with this limit of unacknowledged messages. */
    boolean hasRoom(int receiveMaximum) {
        return inflight.size() < Math.min(SIZE, receiveMaximum) && bytes < BYTES;
    }

    /** True if at least half of the window is free. */
    boolean isLow() {
        return inflight.size() <= SIZE / 2 && bytes <= BYTES / 2;
    }

    /** Adds a message; returns the packet id to send it with. */
    int add(OutgoingMessage message) {
        do {
            lastPacketId = lastPacketId % PACKET_IDS + 1;
        } while (inflight.containsKey(lastPacketId));
        message.sentNanos = System.nanoTime();
        inflight.put(lastPacketId, message);
        bytes += message.bytes();
        return lastPacketId;
    }

    /** Removes and returns the message that was sent with this packet id and is now answered; null if there is none. */
    OutgoingMessage remove(int packetId) {
        OutgoingMessage message = inflight.remove(packetId);
        if (message != null) {
            bytes -= message.bytes();
            long now = System.nanoTime();
            times.add(now, now - message.sentNanos);
            if (isLow()) {
                times.full(false, now); // also where the messages that waited were dropped
            }
        }
        return message;
    }

    /** Records if messages wait for room from now on, since the window was filled. */
    void holdsBack(boolean now) {
        times.full(now, System.nanoTime());
    }

    AckMetrics metrics(String broker) {
        return times.metrics(broker, System.nanoTime());
    }

    Collection<OutgoingMessage> messages() {
        return inflight.values();
    }

    /** Removes all messages; returns those to send again on another connection. */
    List<OutgoingMessage> clear() {
        List<OutgoingMessage> unanswered = inflight.values().stream()
                .filter(message -> message.acknowledged || !message.delivery.aborted).toList();
        inflight.clear();
        bytes = 0;
        holdsBack(false);
        return unanswered;
    }
}
