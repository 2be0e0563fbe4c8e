package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Reads stamps, derives them, and refuses texts beyond their bounds. */
class StampTest {
    private static final Stamp COUNTED = new Stamp("a.b", "run.1", 3, 17, 42);

    @Test
    void bothFormsAreReadBack() {
        assertEquals("run.1/3/17/42", COUNTED.sequence());
        assertEquals(COUNTED, Stamp.parse("a.b", "run.1/3/17/42"));
        assertFalse(COUNTED.derived());
        Stamp derived = new Stamp("a.b", "run.1", 3, 17, 42, "0.7");
        assertEquals("run.1/3/17/42.0.7", derived.sequence());
        assertEquals(derived, Stamp.parse("a.b", derived.sequence()));
        assertNull(Stamp.parse(null, COUNTED.sequence()));
        assertNull(Stamp.parse("a", null));
    }

    @Test
    void stampsOfWhichTheNewestCountsAreReadBack() {
        Stamp stamp = Stamp.parse("j", "r/0/0/7.newest");
        Stamp output = Stamp.parse("j", "r/0/0/7.newest.3");
        assertTrue(stamp.replaces() && output.replaces());
        assertEquals("r/0/0/7.newest.3", output.sequence());
        assertFalse(COUNTED.replaces() || Stamp.parse("j", "r/0/0/7.3").replaces());
    }

    @ParameterizedTest
    @ValueSource(strings = {"r/0/0/7.0~00000000", "r/0/0/7.0.1~0012abef", "r/0/0/7.0~ffffffff"})
    void fingerprintsAreReadBack(String sequence) {
        Stamp stamp = Stamp.parse("j", sequence);
        assertEquals(sequence, stamp.sequence());
        assertEquals(Long.parseLong(sequence.substring(sequence.indexOf('~') + 1), 16), stamp.fingerprint());
        assertEquals(Stamp.NO_FINGERPRINT, Stamp.parse("j", sequence.substring(0, sequence.indexOf('~'))).fingerprint());
    }

    @ParameterizedTest
    @ValueSource(strings = {"~00000000", "r/0/0/7~00000000", "r/0/0/7.newest~00000000", "r/0/0/7.newest.0~00000000", "r/0/0/7.0~",
        "r/0/0/7.0~0000000", "r/0/0/7.0~000000000", "r/0/0/7.0~0000000A", "r/0/0/7.0~0000000g", "r/0/0/7.0~-0000001",
        "r/0/0/7.0~ 0000000", "r/0/0/7.0~0000000\u0661", "r/0/0/7.0~00000000~00000000", "r/0/0/7.0~0000.000", "r~00000000/0/0/7.0",
        "r/0/0/7.~00000000", "r/0/0/7.0.~00000000"})
    void otherFingerprintsAreNoStamp(String sequence) {
        assertNull(Stamp.parse("j", sequence));
    }

    @Test
    void largestNumbersAreRead() {
        Stamp largest = new Stamp("j", "r", Integer.MAX_VALUE, Long.MAX_VALUE, Long.MAX_VALUE, "2147483647");
        assertEquals(largest, Stamp.parse("j", largest.sequence()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "1/2", "r/0/0", "/0/0/0", "r/x/1/2", "r/0/1/2/3", "r//1/2", "r/-1/0/0", "r/0/-1/0", "r/0/0/-1",
        "r/+1/0/0", "r/01/0/0", "r/0/0/ 1", "r/2147483648/0/0", "r/0/0/9223372036854775808", "r/0/0/0.", "r/0/0/0..1",
        "r/0/0/0.01", "r/0/0/0.newer", "r/0/0/0.newest.", "r/0/0/0.0.newest", "r/0/0/0.newest1", "r/0/0/0.-1", "r/0/0/0.2147483648", "r/0/0/0.1.", "r\u00e9/0/0/0", "r/0/0/\u0661", "r 1/0/0/0"})
    void otherTextsAreNoStamp(String sequence) {
        assertNull(Stamp.parse("j", sequence));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "a/b", "a b", "\u00e9", "\ud83d\ude00"})
    void otherJobsAreNoStamp(String job) {
        assertNull(Stamp.parse(job, "r/0/0/0"));
    }

    @Test
    void textsAreBounded() {
        assertEquals("j".repeat(100), Stamp.parse("j".repeat(100), "r/0/0/0").job());
        assertNull(Stamp.parse("j".repeat(101), "r/0/0/0"));
        assertNull(Stamp.parse("j", "r".repeat(101) + "/0/0/0"));
        assertEquals(32, Stamp.parse("j", "r/0/0/0" + ".0".repeat(32)).path().split("\\.").length);
        assertNull(Stamp.parse("j", "r/0/0/0" + ".0".repeat(33)));
        assertNull(Stamp.parse("j", "r/0/0/0." + String.join(".", Collections.nCopies(30, "1000000000"))));
    }
}
