package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.ReceiveBuffer;
import io.speck.kafka.KafkaBatchRecord.Run;
import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.Stamp;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class UncommittedTest {
    private static final int CHUNK = 500;

    private static KafkaMessage message(int partition, long position, long number) {
        return new KafkaMessage(partition, 0, position, (int) number, "in", new byte[100], 0,
                new Stamp("a", "r", partition, 0, number));
    }

    private static void add(ReceiveBuffer buffer, KafkaMessage message, boolean duplicate) {
        buffer.see(message);
        buffer.add(message, duplicate);
    }

    private static byte[] recorded(ReceiveBuffer buffer) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        buffer.recordedStamps().write(new DataOutputStream(bytes));
        return bytes.toByteArray();
    }

    /** The flood of a checkpoint interval must not fill the buffer, which would hold back the messages behind it. */
    @Test
    void messagesThatAnEngineHasTakenUseTheMemoryOfTheirRuns() {
        ReceiveBuffer buffer = new ReceiveBuffer(true);
        Uncommitted uncommitted = new Uncommitted(buffer, true);
        for (int number = 0; number < 300_000; number++) {
            add(buffer, message(number / 1000 % 2, number / 2000 * 1000 + number % 1000, number), false);
            if (number % CHUNK == CHUNK - 1) {
                assertEquals(CHUNK, uncommitted.take(CHUNK).size());
            }
        }
        assertTrue(uncommitted.bytes() < 300_000, () -> uncommitted.bytes() + " bytes");
        List<Run> runs = uncommitted.batch(0, 300_000);
        assertEquals(300, runs.size());
        assertEquals(List.of(new Run(0, 0, 0, 1000, 0), new Run(1, 0, 0, 1000, 0), new Run(0, 0, 1000, 1000, 0)),
                runs.subList(0, 3));
        Place place = Place.at(Map.of());
        assertTrue(uncommitted.removeUntil(300_000, place));
        assertEquals(Map.of(0, 150_000L, 1, 150_000L), place.offsets());
        assertTrue(uncommitted.isEmpty());
        assertEquals(0, uncommitted.bytes());
    }

    @Test
    void aBatchThatEndsBeforeMessagesWhichWerePassedOnIsRefused() {
        ReceiveBuffer buffer = new ReceiveBuffer(true);
        Uncommitted uncommitted = new Uncommitted(buffer, true);
        for (int number = 0; number < 20; number++) {
            add(buffer, message(0, number, number), false);
        }
        uncommitted.take(10);
        uncommitted.take(10);
        assertEquals("the batch ends at 5, and messages up to 10 were passed on before it ended",
                assertThrows(IllegalStateException.class, () -> uncommitted.batch(0, 5)).getMessage());
    }

    /** Compared with a reader that keeps each message until it is committed. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void batchesPlacesAndStampsAreThoseOfTheMessages(int seed) throws IOException {
        Random random = new Random(seed);
        Pair pair = new Pair(random);
        for (int i = 0; i < 500; i++) {
            switch (random.nextInt(4)) {
                case 0 -> pair.arrive();
                case 1 -> pair.take();
                case 2 -> pair.closeBatch();
                default -> pair.commit();
            }
        }
    }

    /** The same messages in a reader under test and in one that keeps them. */
    private static final class Pair {
        private final Random random;
        private final ReceiveBuffer buffer = new ReceiveBuffer(true);
        private final ReceiveBuffer kept = new ReceiveBuffer(true);
        private final Uncommitted uncommitted = new Uncommitted(buffer, true);
        private final Uncommitted reference = new Uncommitted(kept, false);
        private final Place place = Place.at(Map.of());
        private final Place expected = Place.at(Map.of());
        private final long[] positions = new long[3];
        private final Deque<Long> ends = new ArrayDeque<>();
        private long number;
        private long position;
        private long taken;
        private long recorded;

        Pair(Random random) {
            this.random = random;
        }

        void arrive() {
            int partition = random.nextInt(positions.length);
            for (int left = random.nextInt(20); left > 0; left--) {
                boolean duplicate = number > 0 && random.nextInt(5) == 0;
                long of = duplicate ? random.nextLong(number) : number++;
                positions[partition] += random.nextInt(10) == 0 ? 3 : 1;
                add(buffer, stamped(partition, of), duplicate);
                add(kept, stamped(partition, of), duplicate);
            }
        }

        private KafkaMessage stamped(int partition, long of) {
            return new KafkaMessage(partition, 0, positions[partition], (int) of, "in", new byte[3], 0,
                    new Stamp("a", "r", 0, 0, of));
        }

        void take() {
            position = taken;
            int limit = 1 + random.nextInt(30);
            List<Received> found = uncommitted.take(limit);
            assertEquals(kept.take(limit, Long.MAX_VALUE).stream().map(Received::offset).toList(),
                    found.stream().map(Received::offset).toList());
            taken += found.size();
        }

        void closeBatch() throws IOException {
            position += random.nextLong(taken - position + 1);
            assertEquals(reference.batch(recorded, position), uncommitted.batch(recorded, position));
            assertArrayEquals(recorded(kept), recorded(buffer));
            recorded = position;
            ends.add(position);
        }

        void commit() {
            if (!ends.isEmpty()) {
                long end = ends.remove();
                assertEquals(reference.removeUntil(end, expected), uncommitted.removeUntil(end, place));
                assertEquals(expected.offsets(), place.offsets());
                assertEquals(reference.isEmpty(), uncommitted.isEmpty());
            }
        }
    }
}
