package io.speck.connector.reader;

/** The counts of what a reader has received in this process. Not thread-safe; guarded by the reader's lock. */
public final class ReaderCounts {
    private long received;
    private long receivedBytes;
    private long receivedQos0;
    private long redelivered;
    private long lostSessions;

    public void addReceived(Message message) {
        received++;
        receivedBytes += message.contentBytes();
        receivedQos0 += message.packetId == 0 ? 1 : 0;
    }

    public void addRedelivered(int messages) {
        redelivered += messages;
    }

    public void addLostSession() {
        lostSessions++;
    }

    /**
     * @param end the offset after the last message
     * @param reconnections number of lost connections that were re-established
     */
    public SourceMetrics metrics(long committed, long end, StampCounts stamps, Losses losses, long reconnections,
            boolean connected, boolean bufferFull) {
        return new SourceMetrics(end - committed, end, received, receivedBytes, receivedQos0, redelivered,
                stamps.dropped(), stamps.collisions(), stamps.changed(), stamps.bad(), stamps.droppedByRun(),
                reconnections, lostSessions, losses.counts(), connected, bufferFull);
    }
}
