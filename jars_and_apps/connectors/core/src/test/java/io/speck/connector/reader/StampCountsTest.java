package io.speck.connector.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps.Verdict;
import io.speck.mqtt.stamp.Stamp;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Counts what is dropped by stamps. */
class StampCountsTest {
    private final StampCounts counts = new StampCounts(new SourceSettings(Login.anonymous("tcp://h"), "c", "t", 1, 1,
            null, -1, true, Duration.ofSeconds(1)));

    @Test
    void repetitionsAreDroppedAndCountedByRun() {
        assertFalse(counts.drops(new Stamp("j", "r", 0, 0, 0), Verdict.NEW));
        for (int run = 0; run < 20; run++) {
            assertTrue(counts.drops(new Stamp("j", "r." + run, 0, 0, 0), Verdict.REPETITION));
            assertTrue(counts.drops(new Stamp("j", "r.0", 0, 0, 1), Verdict.REPETITION));
        }
        assertEquals(40, counts.dropped());
        assertEquals(StampCounts.MAXIMUM_RUNS + 1, counts.droppedByRun().size());
        assertEquals(21, counts.droppedByRun().get("j/r.0"), "in use all along");
        assertEquals(4, counts.droppedByRun().get(StampCounts.OTHER_RUNS));
        assertEquals(40, counts.droppedByRun().values().stream().mapToLong(each -> each).sum());
    }

    @Test
    void anotherMessageIsReturnedAndAnotherFormIsNot() {
        Stamp counted = new Stamp("j", "r", 0, 0, 0);
        assertFalse(counts.drops(counted, Verdict.COLLISION));
        Stamp derived = new Stamp("j", "r", 0, 0, 0, "0");
        assertTrue(counts.drops(derived, Verdict.CHANGED));
        assertFalse(counts.drops(derived, Verdict.COLLISION));
        assertEquals(2, counts.collisions());
        assertEquals(1, counts.changed());
        assertEquals(0, counts.dropped());
    }
}
