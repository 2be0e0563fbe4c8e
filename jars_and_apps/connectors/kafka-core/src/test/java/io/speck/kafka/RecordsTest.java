package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.BatchJournal;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The state to continue with, by the records that a reader finds. */
class RecordsTest {
    private static final SourceSettings SETTINGS = Recorded.settings("kafka://k:9092", "s");

    private static Records.Recovered recover(long start, long end, Map<Long, byte[]> records) throws IOException {
        return new Records(SETTINGS, Recorded.journal(records)).recover(start, end, "id");
    }

    /** Seen stamps and known writers are kept, whichever kind of broker they came from. */
    private static void assertGoesOn(SeenStamps seen, Records.Recovered found) {
        assertEquals(SeenStamps.Verdict.REPETITION, seen.add(Recorded.SEEN, 11));
        assertTrue(found.writers().believes(Recorded.SEEN));
        assertFalse(found.writers().believes(Stamp.parse("b", "r/0/0/5")));
    }

    @Test
    void ownRecordsHaveThePlaceAndTheBatch() throws IOException {
        Records.Recovered found = recover(10, 20,
                Map.of(0L, Recorded.ofKafka("s", "id", 0, 10), 10L, Recorded.ofKafka("s", "id", 10, 20)));
        assertEquals(Map.of(0, 10L), found.place().offsets());
        assertEquals(20, found.uncommitted().end());
        assertNull(found.former());
        assertGoesOn(found.seen(), found);
    }

    @Test
    void aTopicThatWasMadeAnewHasNoPlace() throws IOException {
        Records.Recovered found = recover(10, 10, Map.of(0L, Recorded.ofKafka("s", "older", 0, 10)));
        assertTrue(found.madeAnew());
        assertNull(found.place());
    }

    @Test
    void anUncommittedBatchOfTheFormerTopicIsThere() throws IOException {
        for (long start : new long[] {0, 10}) {
            Map<Long, byte[]> records = new HashMap<>(Map.of(0L, Recorded.ofKafka("s", "older", 0, 10)));
            records.put(start, Recorded.ofKafka("s", "older", start, 20));
            Records.Recovered found = recover(start, 20, records);
            assertTrue(found.madeAnew());
            assertNull(found.place());
            assertEquals(start, found.uncommitted().start());
        }
    }

    @Test
    void anUncommittedBatchOfTheNewTopicHasThePlaceBeforeIt() throws IOException {
        Records.Recovered found = recover(10, 20,
                Map.of(0L, Recorded.ofKafka("s", "older", 0, 10), 10L, Recorded.ofKafka("s", "id", 10, 20)));
        assertFalse(found.madeAnew());
        assertEquals(found.uncommitted().before().offsets(), found.place().offsets());
    }

    @Test
    void aSessionOfMqttHasNoPlaceHereAndItsStampsGoOn() throws IOException {
        Records.Recovered found = recover(10, 10, Map.of(0L, Recorded.ofMqtt("former", 0, 10)));
        assertNull(found.place());
        assertFalse(found.madeAnew());
        assertGoesOn(found.seen(), found);
    }

    @Test
    void anUncommittedBatchOfAnotherSessionIsCompletedThere() throws IOException {
        for (byte[] record : new byte[][] {Recorded.ofMqtt("former", 0, 10), Recorded.ofKafka("former", "id", 0, 10)}) {
            Records.Recovered found = recover(0, 10, Map.of(0L, record));
            assertNull(found.uncommitted());
            assertEquals("former", found.former().session());
            assertEquals(SeenStamps.Verdict.REPETITION, found.former().seen().add(Recorded.SEEN, 11));
            assertEquals(SeenStamps.Verdict.NEW, found.seen().add(Recorded.SEEN, 11));
        }
    }

    @Test
    void aBatchWithoutARecordIsNamed() {
        DataLossException found = assertThrows(DataLossException.class, () -> recover(10, 20,
                Map.of(0L, Recorded.ofKafka("s", "id", 0, 10))));
        assertTrue(found.getMessage().contains("no record of the uncommitted batch [10, 20)"), found.getMessage());
    }

    @Test
    void recordsAreDeletedUpToTheLastCommittedOne() throws IOException {
        BatchJournal journal = Recorded.journal(Map.of(0L, Recorded.ofMqtt("former", 0, 10), 10L,
                Recorded.ofKafka("s", "id", 10, 20), 20L, Recorded.ofKafka("s", "id", 20, 30)));
        Records records = new Records(SETTINGS, journal);
        records.recover(20, 30, "id");
        records.extents().deleteUntil(20);
        assertEquals(java.util.Set.of(10L, 20L), journal.read().keySet());
        assertEquals(2, records.extents().parts(20));
        assertEquals(0, records.extents().parts(0));
    }

    @Test
    void bytesThatAreNoRecordAreRefused() {
        assertThrows(IOException.class, () -> recover(0, 0, Map.of(0L, new byte[20])));
    }
}
