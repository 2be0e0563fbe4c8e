package io.speck.mqtt.writer;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** The messages that were sent and are not acknowledged yet, by packet id, in the order of sending. */
final class InflightWindow {
    private static final int SIZE = 1000;
    private static final int PACKET_IDS = 65535;

    private final Map<Integer, OutgoingMessage> inflight = new LinkedHashMap<>();
    private int lastPacketId;

    /** True if one more may be sent to a broker with this limit of unacknowledged messages. */
    boolean hasRoom(int receiveMaximum) {
        return inflight.size() < Math.min(SIZE, receiveMaximum);
    }

    /** True if at least half of the window is free. */
    boolean isLow() {
        return inflight.size() <= SIZE / 2;
    }

    /** Adds a message; returns the packet id to send it with. */
    int add(OutgoingMessage message) {
        do {
            lastPacketId = lastPacketId % PACKET_IDS + 1;
        } while (inflight.containsKey(lastPacketId));
        inflight.put(lastPacketId, message);
        return lastPacketId;
    }

    /** Removes and returns the message that was sent with this packet id; null if there is none. */
    OutgoingMessage remove(int packetId) {
        return inflight.remove(packetId);
    }

    Collection<OutgoingMessage> messages() {
        return inflight.values();
    }

    void clear() {
        inflight.clear();
    }
}
