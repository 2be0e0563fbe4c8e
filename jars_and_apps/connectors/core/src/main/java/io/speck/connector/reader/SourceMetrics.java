package io.speck.connector.reader;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Counts of one reader.
 *
 * @param queued messages received and not committed
 * @param received messages since the beginning of the reader's lineage
 * @param receivedHere messages new to this process
 * @param receivedBytes payloads and topics of the messages new to this process
 * @param receivedQos0 messages new to this process that the broker sent at QoS 0: without an acknowledgement, so that it
 *     does not send them again if the reader ends before they are committed
 * @param redelivered messages that the broker redelivered, and that were recognised
 * @param duplicatesDropped messages dropped as repetitions: stamp and content were seen before
 * @param collisions messages returned although their counted stamp was seen, since all contents under it were others
 * @param changedRepetitions messages dropped whose derived stamp was seen, with another content
 * @param badStamps messages whose stamp is none: its texts are out of bounds, or its job is no writer that the
 *     coordinator named
 * @param duplicatesByRun the dropped repetitions of the runs that had one last, by JOB/RUN; older ones by "others"
 * @param reconnections number of lost connections that were re-established
 * @param lostSessions number of sessions that the broker lost, and that were created again
 * @param lostMessages messages known to be given up, by reason: lostSession, redeliveryGivenUp, batchGivenUp or
 *     retentionGivenUp
 * @param connected true if there is a connection now
 * @param bufferFull true while the reader takes no further messages, so that they wait at a broker that cannot count them
 */
public record SourceMetrics(long queued, long received, long receivedHere, long receivedBytes, long receivedQos0,
        long redelivered, long duplicatesDropped, long collisions, long changedRepetitions, long badStamps,
        Map<String, Long> duplicatesByRun, long reconnections, long lostSessions, Map<String, Long> lostMessages,
        boolean connected, boolean bufferFull) {
    /** The reasons for which messages are given up. */
    public static final List<String> REASONS = 
            List.of(Losses.SESSION, Losses.REDELIVERY, Losses.BATCH, Losses.RETENTION);

    /** The number of messages given up for one reason. */
    public long lost(String reason) {
        return lostMessages.getOrDefault(reason, 0L);
    }

    /** The number of messages given up for any reason. */
    public long lost() {
        return REASONS.stream().mapToLong(this::lost).sum();
    }

    /** The dropped repetitions by run as one text, such as {@code a/1f6=12 a/1f6.1=3}; empty without any. */
    public String runsText() {
        return duplicatesByRun.entrySet().stream().map(each -> each.getKey() + "=" + each.getValue()).sorted()
                .collect(Collectors.joining(" "));
    }
}
