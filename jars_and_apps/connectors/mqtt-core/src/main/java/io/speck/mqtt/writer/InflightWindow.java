package io.speck.mqtt.writer;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** What was sent and is not acknowledged yet, by packet id, in the order of sending. */
final class InflightWindow {
    private static final int SIZE = 1000;
    private static final int PACKET_IDS = 65535;

    private final Map<Integer, OutgoingMessage> underWay = new LinkedHashMap<>();
    private int lastPacketId;

    /** Whether one more may be sent to a broker that takes so many unacknowledged ones. */
    boolean hasRoom(int receiveMaximum) {
        return underWay.size() < Math.min(SIZE, receiveMaximum);
    }

    /** Whether it is worth filling again. */
    boolean isLow() {
        return underWay.size() <= SIZE / 2;
    }

    /** Takes a message in; returns the packet id to send it with. */
    int add(OutgoingMessage message) {
        do {
            lastPacketId = lastPacketId % PACKET_IDS + 1;
        } while (underWay.containsKey(lastPacketId));
        underWay.put(lastPacketId, message);
        return lastPacketId;
    }

    /** The message that was sent with this packet id, which is in here no more; null when there is none. */
    OutgoingMessage remove(int packetId) {
        return underWay.remove(packetId);
    }

    Collection<OutgoingMessage> messages() {
        return underWay.values();
    }

    void clear() {
        underWay.clear();
    }
}
