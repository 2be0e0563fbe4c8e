package io.speck.mqtt.reader;

import io.speck.mqtt.net.SessionKeeper;

/** The counts of what a reader has received in this process. Not thread-safe; guarded by the reader's lock. */
final class ReaderCounts {
    private long received;
    private long receivedBytes;
    private long receivedQos0;
    private long redelivered;
    private long lostSessions;

    void addReceived(Message message) {
        received++;
        receivedBytes += message.contentBytes();
        receivedQos0 += message.packetId == 0 ? 1 : 0;
    }

    void addRedelivered(int messages) {
        redelivered += messages;
    }

    void addLostSession() {
        lostSessions++;
    }

    /** @param end the offset after the last message */
    SourceMetrics metrics(long committed, long end, StampCounts stamps, Losses losses, SessionKeeper keeper) {
        return new SourceMetrics(end - committed, end, received, receivedBytes, receivedQos0, redelivered,
                stamps.dropped(), stamps.collisions(), stamps.changed(), stamps.bad(), stamps.droppedByRun(),
                keeper.reconnections(), lostSessions, losses.counts(), keeper.connected());
    }
}
