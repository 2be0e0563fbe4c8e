package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Writes the same sequences as bytes that stamps have as texts. */
class SequenceBytesTest {
    private static final String PREFIX = Stamp.prefix("run", 3, 17);

    private static String text(byte[] sequence) {
        return new String(sequence, StandardCharsets.US_ASCII);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static void check(long index, int output, long fingerprint) {
        assertEquals(new Stamp("j", "run", 3, 17, index).sequence(), text(SequenceBytes.counted(bytes(PREFIX), index)));
        assertEquals(new Stamp("j", "run", 3, 17, index, "4." + output, fingerprint).sequence(),
                text(SequenceBytes.derived(bytes(PREFIX), index, bytes(".4."), output, fingerprint)));
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 9, 10, 99, 100, Long.MAX_VALUE - 1, Long.MAX_VALUE})
    void numbersAreWrittenWhole(long number) {
        check(number, (int) Math.min(number, Integer.MAX_VALUE), number & 0xFFFFFFFFL);
        check(number, 0, Stamp.NO_FINGERPRINT);
    }

    @Test
    void anyStampIsWrittenAsItsText() {
        Random random = new Random(1);
        for (int i = 0; i < 10_000; i++) {
            long fingerprint = random.nextInt(3) == 0 ? Stamp.NO_FINGERPRINT : Integer.toUnsignedLong(random.nextInt());
            check(random.nextLong() >>> 1 + random.nextInt(63), random.nextInt() >>> 1 + random.nextInt(31), fingerprint);
        }
    }
}
