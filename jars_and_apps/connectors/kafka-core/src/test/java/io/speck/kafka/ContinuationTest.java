package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Losses;
import java.util.Optional;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class ContinuationTest {
    private static final TopicPartition PARTITION = new TopicPartition("in", 2);

    private static Continuation after(long former, long begin, long end, OffsetAndMetadata divergent) {
        return Continuation.of(PARTITION, former, begin, end, divergent);
    }

    @Test
    void deletedMessagesAreSkippedAndCounted() {
        Continuation found = after(30, 40, 50, null);
        assertEquals(40, found.place().offset());
        assertEquals(Losses.RETENTION, found.reason());
        assertEquals(10, found.count());
        assertTrue(found.cause().startsWith("the messages 30 to 39 of partition 2 of topic 'in'"), found.cause());
    }

    /** The broker has taken other messages since, up to 90: the end would be behind these. */
    @Test
    void readingContinuesWhereTheLogGoesOnAfterALoss() {
        Continuation found = after(30, 0, 90, new OffsetAndMetadata(27, Optional.of(4), null));
        assertEquals(27, found.place().offset());
        assertEquals(Optional.of(4), found.place().leaderEpoch());
        assertEquals(Losses.SESSION, found.reason());
        assertEquals(0, found.count());
        assertTrue(found.cause().contains("from message 27 on, and the reader was at 30"), found.cause());
    }

    @Test
    void withoutAnAnswerOfTheBrokerReadingContinuesAtTheEndOrWhereItWas() {
        assertEquals(27, after(30, 0, 27, null).place().offset());
        assertEquals(30, after(30, 0, 90, null).place().offset());
    }
}
