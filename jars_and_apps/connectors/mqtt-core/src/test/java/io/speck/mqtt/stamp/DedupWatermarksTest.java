package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Drops duplicates by their stamps. */
class DedupWatermarksTest {
    @Test
    void seenStampsAreDuplicates() {
        DedupWatermarks marks = new DedupWatermarks();
        assertTrue(marks.advance(new Stamp("j", "r", 0, 1, 5)));
        assertFalse(marks.advance(new Stamp("j", "r", 0, 1, 5)));
        assertFalse(marks.advance(new Stamp("j", "r", 0, 0, 9)));
        assertTrue(marks.advance(new Stamp("j", "r", 0, 2, 0)));
        assertTrue(marks.advance(new Stamp("j", "r", 1, 1, 5)), "another partition");
        assertTrue(marks.advance(new Stamp("j", "r2", 0, 0, 0)), "another incarnation");
    }

    @Test
    void marksAreBounded() {
        DedupWatermarks marks = new DedupWatermarks();
        for (int i = 0; i < DedupWatermarks.MAXIMUM_STREAMS + 10; i++) {
            marks.advance(new Stamp("j" + i, "r", 0, 0, 0));
        }
        assertEquals(DedupWatermarks.MAXIMUM_STREAMS, marks.size());
    }

    @Test
    void reorderedStampsAreAcceptedOnce() {
        DedupWatermarks marks = new DedupWatermarks();
        marks.advance(new Stamp("j", "r", 0, 0, 10));
        marks.beginReordering();
        List<Integer> accepted = new ArrayList<>();
        for (int index : new int[] {9, 10, 15, 12, 11, 12, 15, 13, 14, 16, 11}) {
            if (marks.advance(new Stamp("j", "r", 0, 0, index))) {
                accepted.add(index);
            }
        }
        assertEquals(List.of(15, 12, 11, 13, 14, 16), accepted);
        marks.endReordering();
        assertEquals(false, marks.advance(new Stamp("j", "r", 0, 0, 16)));
        assertTrue(marks.advance(new Stamp("j", "r", 0, 0, 17)));
    }
}
