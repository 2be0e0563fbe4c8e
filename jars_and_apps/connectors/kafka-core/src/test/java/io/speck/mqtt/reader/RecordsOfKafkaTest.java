package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Losses;
import io.speck.kafka.Recorded;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** A reader of MQTT that finds the records of a job which read from Kafka before. */
class RecordsOfKafkaTest {
    private static final SourceSettings SETTINGS = Recorded.settings("tcp://h:1883", "s");

    private static RecordedBatches.Recovered recover(long start, long end) throws IOException {
        Map<Long, byte[]> records = Map.of(0L, Recorded.ofKafka("former", "id", 0, 10));
        return new RecordedBatches(SETTINGS, Recorded.journal(records), new Losses(SETTINGS)).recover(start, end);
    }

    @Test
    void stampsAndWritersGoOn() throws IOException {
        RecordedBatches.Recovered found = recover(10, 10);
        assertEquals(SeenStamps.Verdict.REPETITION, found.seen().add(Recorded.SEEN, 11));
        assertTrue(found.writers().believes(Recorded.SEEN));
        assertTrue(found.committed().isEmpty());
        assertFalse(found.sessionExpected());
        assertNull(found.former());
    }

    @Test
    void anUncommittedBatchIsCompletedThere() throws IOException {
        RecordedBatches.Recovered found = recover(0, 10);
        assertNull(found.awaited());
        assertEquals("kafka://k:9092", found.former().broker());
        assertEquals(SeenStamps.Verdict.REPETITION, found.former().seen().add(Recorded.SEEN, 11));
    }
}
