package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;

/** Reads stamps. */
class StampTest {
    @Test
    void stampIsReadBack() {
        Stamp stamp = new Stamp("a/b", "run/1", 3, 17, 42);
        assertEquals(stamp, Stamp.parse("a/b", stamp.sequence()));
        assertNull(Stamp.parse("a", "1/2"));
        assertNull(Stamp.parse("a", "r/x/1/2"));
        assertNull(Stamp.parse(null, stamp.sequence()));
    }
}
