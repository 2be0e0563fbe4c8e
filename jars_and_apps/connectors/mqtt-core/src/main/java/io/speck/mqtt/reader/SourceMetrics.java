package io.speck.mqtt.reader;

/**
 * Counts of one reader.
 *
 * @param queued messages received and not committed
 * @param received messages since the beginning of the reader's lineage
 * @param receivedHere messages new to this process
 * @param redelivered messages that the broker redelivered, and that were recognised
 * @param duplicatesDropped messages whose stamp was seen before
 * @param badStamps messages whose stamp is no stamp: its texts are out of bounds
 * @param reconnections number of lost connections that were re-established
 * @param lostSessions number of sessions that the broker lost, and that were created again
 * @param connected true if there is a connection now
 */
public record SourceMetrics(long queued, long received, long receivedHere, long redelivered, long duplicatesDropped,
        long badStamps, long reconnections, long lostSessions, boolean connected) {}
