package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Writes stamps in their binary form, and reads back the very texts. */
class CompactFormTest {
    private static final String JOB = "clean-a1";
    private final CompactForm form = new CompactForm();

    private byte[] encode(String sequence) {
        return form.encode(Stamp.parse(JOB, sequence));
    }

    @ParameterizedTest
    @ValueSource(strings = {"r/0/0/0", "run.1/3/17/42", "1a2b3c4d/0/17/42", "1a2b3c4d.3/0/0/42.0", "0000000d.o12/0/0/9.0",
        "3w5e11264sgsf/7/0/42", "3w5e11264sgsf.2/0/0/1", "d3w5e11264sgsf/0/0/7.0", "d0/0/0/7.0", "0/0/0/7", "d/0/0/7",
        "00/0/0/7", "dd/0/0/7", "zzzzzzzzzzzzz/0/0/1", "1a2b3c4d.0/0/0/1", "1a2b3c4d.01/0/0/1", "1a2b3c4d.o/0/0/1",
        "1a2b3c4d.3.4/0/0/1", "1A2B3C4D/0/0/1", "a.b/0/0/1", "r/0/0/7.newest", "r/0/0/7.newest.3", "r/0/0/7.0.0.0",
        "r/0/0/7.5", "r/0/0/7.0~00000000", "r/0/0/7.0.1~ffffffff", "r/2147483647/9223372036854775807/9223372036854775807",
        "r/0/0/0.2147483647", "d3w5e11264sgsf/0/0/7.0.0~0012abef", "d7zzzzzzz/0/0/7.0~0012abef",
        "df3a9xq/0/0/7.1.2~0012abef", "de15t4hz/0/0/7.0", "d0/0/0/7.0~0012abef", "de15t4hz4/0/0/7.0~0012abef", "d1234567/0/0/7.0~0012abef",
        "d7zzzzzz.3/0/0/7.0~0012abef", "1a2b3c4d.999999999999999999/0/0/1",
        "1a2b3c4d.9999999999999999999/0/0/1"})
    void eachSequenceIsReadBack(String sequence) {
        CompactForm.Read read = CompactForm.decode(encode(sequence));
        assertEquals(sequence, read.sequence());
        assertEquals(CompactForm.hash(JOB), read.job());
    }

    /** Of the kinds that jobs write, with a million messages before; 95 bytes of texts, names and headers otherwise. */
    @ParameterizedTest
    @CsvSource({"1a2b3c4d.3/0/5000/42, 13", "3w5e11264sgsf/0/0/1000000, 15", "1a2b3c4d/0/0/1000000.0~0012abef, 15",
        "3w5e11264sgsf/0/0/1000000.0~0012abef, 19", "d3w5e11264sgsf/0/0/1000000.0, 15",
        "d7zzzzzzz/0/0/1000000.0~0012abef, 16"})
    void itIsShort(String sequence, int most) {
        assertTrue(encode(sequence).length <= most, encode(sequence).length + " bytes");
    }

    @Test
    void stampsAtRandomAreReadBack() {
        Random random = new Random(36);
        for (int i = 0; i < 20_000; i++) {
            Stamp stamp = stamp(random);
            CompactForm.Read read = CompactForm.decode(form.encode(stamp));
            assertEquals(stamp, Stamp.parse(stamp.job(), read.sequence()));
        }
    }

    private static Stamp stamp(Random random) {
        String run = switch (random.nextInt(4)) {
            case 0 -> String.format("%08x", random.nextInt());
            case 1 -> Long.toUnsignedString(random.nextLong(), Character.MAX_RADIX);
            case 2 -> "d" + Long.toUnsignedString(random.nextLong() >>> random.nextInt(64), Character.MAX_RADIX);
            default -> "run-" + random.nextInt(100);
        } + (random.nextBoolean() ? "" : (random.nextBoolean() ? "." : ".o") + random.nextInt(1000));
        long epoch = random.nextBoolean() ? 0 : random.nextLong() >>> 1 + random.nextInt(60);
        int partition = random.nextBoolean() ? 0 : random.nextInt(Integer.MAX_VALUE);
        String path = IntStream.range(0, random.nextInt(6)).mapToObj(each -> Integer.toString(random.nextInt(200)))
                .collect(Collectors.joining("."));
        long fingerprint = path.isEmpty() || random.nextBoolean() ? Stamp.NO_FINGERPRINT
                : Integer.toUnsignedLong(random.nextInt());
        return new Stamp("j" + random.nextInt(), run, partition, epoch, random.nextLong() >>> 1 + random.nextInt(60), path,
                fingerprint);
    }

    @Test
    void otherBytesAreNoStampOrAValidOne() {
        Random random = new Random(5);
        for (int i = 0; i < 50_000; i++) {
            byte[] bytes = new byte[random.nextInt(40)];
            random.nextBytes(bytes);
            if (bytes.length > 0 && random.nextBoolean()) {
                bytes[0] = (byte) (bytes[0] & 0x3F | 0x80);
            }
            CompactForm.Read read = CompactForm.decode(bytes);
            assertTrue(read == null || Stamp.parse("j", read.sequence()) != null, Arrays.toString(bytes));
        }
    }

    @Test
    void aStampThatIsCutOrGrowsIsAnother() {
        byte[] whole = encode("3w5e11264sgsf/0/0/1000000.0~0012abef");
        for (int length = 0; length < whole.length; length++) {
            assertNull(CompactForm.decode(Arrays.copyOf(whole, length)), length + " bytes");
        }
        assertNull(CompactForm.decode(Arrays.copyOf(encode("1a2b3c4d/0/0/7"), 10)), "more than a counted stamp");
        assertNull(CompactForm.decode(new byte[300]));
    }

    /** It had a hash of four bytes, and began alike. */
    @Test
    void theEarlierFormIsOfAnUnknownWriter() {
        CRC32C crc = new CRC32C();
        crc.update(JOB.getBytes(StandardCharsets.UTF_8));
        byte[] now = encode("1a2b3c4d/0/0/7.0~0012ab6f"); // the last byte makes a whole path
        byte[] earlier = new byte[now.length + 1];
        earlier[0] = now[0];
        System.arraycopy(ByteBuffer.allocate(4).putInt((int) crc.getValue()).array(), 0, earlier, 1, 4);
        System.arraycopy(now, 4, earlier, 5, now.length - 4);
        CompactForm.Read read = CompactForm.decode(earlier);
        assertTrue(read == null || read.job() != CompactForm.hash(JOB));
    }

    /** Programs on both sides of a request write correlation data too, mostly the text of an id. */
    @Test
    void textsAreNoStamp() {
        for (int i = 0; i < 1000; i++) {
            String id = UUID.nameUUIDFromBytes(new byte[] {(byte) i, (byte) (i >> 8)}).toString();
            assertNull(CompactForm.decode(id.getBytes(StandardCharsets.UTF_8)), id);
        }
    }

    /** Jobs of one composition are mostly called alike; readers do not accept this form where two have one hash. */
    @Test
    void likeNamesSeldomHaveOneHash() {
        int same = 0;
        for (String stem : new String[] {"clean-", "speed-zone-", "job", "a"}) {
            Map<Integer, String> names = new HashMap<>();
            for (int i = 0; i < 1000; i++) {
                String former = names.put(CompactForm.hash(stem + i), stem + i);
                same += former == null ? 0 : 1;
            }
        }
        assertTrue(same <= 1, same + " names"); // expected by chance: 0.1
        assertNotEquals(CompactForm.mark(CompactForm.hash("a")), CompactForm.mark(CompactForm.hash("b")));
    }
}
