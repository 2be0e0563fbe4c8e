package io.speck.mqtt.reader;

/**
 * Counts of one reader.
 *
 * @param queued messages received and not committed
 * @param received messages since the beginning of the reader's lineage
 * @param receivedHere messages new to this process
 * @param redelivered messages that the broker sent again, and that were recognised
 * @param duplicatesDropped messages whose stamp was seen before
 * @param reconnections how often a lost connection was healed
 * @param lostSessions how often the broker had lost the session, which was made anew
 * @param connected whether there is a connection now
 */
public record SourceMetrics(long queued, long received, long receivedHere, long redelivered, long duplicatesDropped,
        long reconnections, long lostSessions, boolean connected) {}
