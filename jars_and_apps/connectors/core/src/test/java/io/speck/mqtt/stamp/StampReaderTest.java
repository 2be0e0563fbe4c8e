package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Reads what {@link Stamp#parse} reads, whatever was read before. */
class StampReaderTest {
    private static final List<String> JOBS = List.of("a", "b", "a/b", "", "\u00e9", "j".repeat(100), "j".repeat(101));
    private static final List<String> RUNS = List.of("r", "r2", "r\u0661", "r".repeat(101), "", "r/0/0/1");
    private static final List<String> ENDS = List.of("1", "12", "1.0", "12.0.7", "1.newest", "1.newest.0", "1.0~0012abef",
            "1~0012abef", "1.0~0012ABEF", "1.0~", "01", "-1", "", "1.", "1.\u0661", "1/2", "1.0.0".repeat(60),
            "9223372036854775807", "9223372036854775808", ".5", "~00000000", "1.newest.0~00000000");

    private final StampReader reader = new StampReader();

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private void check(String job, String sequence) {
        assertEquals(Stamp.parse(job, sequence), reader.read(bytes(job), bytes(sequence)), job + " " + sequence);
    }

    private static <T> T any(Random random, List<T> texts) {
        return texts.get(random.nextInt(texts.size()));
    }

    @Test
    void stampsOfManyWritersAreReadInAnyOrder() {
        Random random = new Random(1);
        int read = 0;
        for (int i = 0; i < 100_000; i++) {
            String job = any(random, JOBS.subList(0, random.nextInt(4) == 0 ? JOBS.size() : 2));
            String run = any(random, RUNS.subList(0, random.nextInt(4) == 0 ? RUNS.size() : 2));
            String sequence = run + "/" + random.nextInt(2) + "/" + random.nextInt(12) + "/" + any(random, ENDS);
            check(job, sequence);
            read += Stamp.parse(job, sequence) == null ? 0 : 1;
        }
        assertTrue(read > 10_000, "stamps among them: " + read);
    }

    @Test
    void beginningsOfOtherTextsAreNotTakenForThoseOfTheLast() {
        check("a", "r/0/1/5");
        check("a", "r/0/11/5");
        check("a", "r/0/1");
        check("a", "r/0/1/");
        check("ab", "r/0/1/6");
        check("a", "r/0/1/6");
    }

    @Test
    void missingAndOverlongTextsAreNoStamp() {
        assertNotNull(reader.read(bytes("a"), bytes("r/0/0/1")));
        assertNull(reader.read(null, bytes("r/0/0/1")));
        assertNull(reader.read(bytes("a"), null));
        assertNull(reader.read(bytes("a"), bytes("r/0/0/1." + String.join(".", Collections.nCopies(30, "1000000000")))));
    }

    @Test
    void bytesThatAreNoTextAreNoStamp() {
        assertNull(reader.read(new byte[] {'a', (byte) 0xFF}, bytes("r/0/0/1")));
        assertNull(reader.read(bytes("a"), new byte[] {'r', (byte) 0xC3, '/', '0', '/', '0', '/', '1'}));
        assertNotNull(reader.read(bytes("a"), bytes("r/0/0/1")));
        assertNull(reader.read(bytes("a"), new byte[] {'r', '/', '0', '/', '0', '/', '1', (byte) 0xB2}));
    }
}
