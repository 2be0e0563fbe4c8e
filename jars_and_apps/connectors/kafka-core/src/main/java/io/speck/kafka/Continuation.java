package io.speck.kafka;

import io.speck.connector.reader.Losses;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The place at which a reader continues in a partition that does not have its former one any more.
 *
 * @param reason that of {@link Losses}
 * @param count the number of messages that are lost for certain
 */
record Continuation(OffsetAndMetadata place, String reason, long count, String cause) {
    /**
     * Continues behind deleted messages, or, if the broker has lost the end of its log, at the first offset whose message is
     * another one now.
     *
     * @param begin the first offset that the broker has
     * @param end the offset behind its last one
     * @param divergent that first offset, with the epoch of the message before it; null if the broker does not know it
     */
    static Continuation of(TopicPartition partition, long former, long begin, long end, OffsetAndMetadata divergent) {
        String where = " partition " + partition.partition() + " of topic '" + partition.topic() + "'";
        if (former < begin) {
            return new Continuation(new OffsetAndMetadata(begin), Losses.RETENTION, begin - former,
                    "the messages " + former + " to " + (begin - 1) + " of" + where + " were deleted before they were read");
        }
        OffsetAndMetadata place = divergent == null ? new OffsetAndMetadata(Math.min(former, end)) : divergent;
        return new Continuation(place, Losses.SESSION, 0, "the broker lost the end of" + where + ", from message "
                + place.offset() + " on, and the reader was at " + former);
    }
}
