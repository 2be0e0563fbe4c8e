package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.stamp.SeenStamps.Verdict;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Recognises repeated stamps, in whatever order they come, within its bounds. */
class SeenStampsTest {
    private final SeenStamps seen = new SeenStamps(SeenStamps.MAXIMUM_HASHES);

    private static Stamp stamp(long epoch, long index) {
        return new Stamp("job", "run", 0, epoch, index);
    }

    private static Stamp output(Stamp input, int output) {
        return Stamp.parse(input.job(), input.sequence() + "." + output);
    }

    /** The stamp of an output of the message at a position, with the hash of that message or without any (null). */
    private static Stamp atPosition(long position, String hash) {
        return Stamp.parse("job", "edge/0/0/" + position + ".0" + (hash == null ? "" : "~" + hash));
    }

    private boolean fresh(SeenStamps stamps, Stamp stamp) {
        return stamps.add(stamp, stamp.hashCode()) == Verdict.NEW;
    }

    private static SeenStamps restored(SeenStamps stamps) throws IOException {
        return SeenStamps.read(new DataInputStream(new ByteArrayInputStream(bytes(stamps))), SeenStamps.RECORDED_HASHES, true);
    }

    private static byte[] bytes(SeenStamps stamps) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        stamps.write(new DataOutputStream(bytes));
        return bytes.toByteArray();
    }

    @Test
    void eachStreamIsItsOwn() {
        assertTrue(fresh(seen, stamp(0, 0)));
        assertTrue(fresh(seen, new Stamp("job2", "run", 0, 0, 0)));
        assertTrue(fresh(seen, new Stamp("job", "run.1", 0, 0, 0)));
        assertTrue(fresh(seen, new Stamp("job", "run", 1, 0, 0)));
        assertTrue(fresh(seen, stamp(1, 0)));
        assertTrue(fresh(seen, output(stamp(0, 0), 0)));
        assertTrue(fresh(seen, output(stamp(0, 0), 1)));
        assertEquals(Verdict.REPETITION, seen.add(stamp(0, 0), stamp(0, 0).hashCode()));
        assertEquals(6, seen.streams());
    }

    @Test
    void aLateStampIsNoRepetition() {
        List<Long> accepted = new ArrayList<>();
        for (long index : new long[] {9, 10, 15, 12, 11, 12, 15, 13, 14, 16, 11, 0}) {
            if (fresh(seen, stamp(3, index))) {
                accepted.add(index);
            }
        }
        assertEquals(List.of(9L, 10L, 15L, 12L, 11L, 13L, 14L, 16L, 0L), accepted);
        assertEquals(2, seen.ranges());
        assertTrue(fresh(seen, stamp(2, 9)), "an earlier epoch");
    }

    @Test
    void ofReplacingMessagesOnlyTheNewestCounts() throws IOException {
        Stamp[] stamps = {newest(100), newest(300), newest(150), newest(300), newest(301)};
        List<Boolean> accepted = new ArrayList<>();
        SeenStamps answering = seen;
        for (Stamp each : stamps) {
            accepted.add(answering.add(each, accepted.size()) == Verdict.NEW);
            answering = restored(answering);
        }
        assertEquals(List.of(true, true, false, false, true), accepted);
        assertTrue(fresh(answering, output(newest(7), 0)), "a stream of its own");
        assertTrue(!fresh(answering, output(newest(6), 0)));
    }

    private static Stamp newest(long index) {
        return Stamp.parse("job", "run/0/0/" + index + "." + Stamp.NEWEST);
    }

    /** Compares with a set, over restarts: random order, repetitions, epochs, gaps, several streams. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void anyOrderAndRepetitionIsAnsweredLikeASetWould(long seed) throws IOException {
        Random random = new Random(seed);
        List<Stamp> stamps = new ArrayList<>();
        for (int i = 0; i < 6_000; i++) {
            int index = random.nextInt(1 << 1 + random.nextInt(12));
            Stamp counted = new Stamp("job", "run", random.nextInt(3), random.nextInt(1 + (int) seed), index);
            stamps.add(random.nextBoolean() ? counted : output(counted, random.nextInt(3)));
        }
        if (seed % 2 == 0) {
            stamps.sort(java.util.Comparator.comparingLong(Stamp::epoch).thenComparingLong(Stamp::index));
        }
        Set<Stamp> known = new HashSet<>();
        SeenStamps answering = seen;
        for (Stamp each : stamps) {
            assertEquals(known.add(each), fresh(answering, each), each.toString());
            if (random.nextInt(1000) == 0) {
                answering = restored(answering);
            }
        }
    }

    @Test
    void rangesMergeInAnyOrder() {
        List<Integer> indexes = new ArrayList<>();
        for (int i = 0; i < 5_000; i++) {
            indexes.add(i);
        }
        Collections.shuffle(indexes, new Random(7));
        indexes.forEach(index -> assertTrue(fresh(seen, stamp(0, index))));
        assertEquals(1, seen.ranges());
    }

    @Test
    void extremeNumbersAreRecorded() throws IOException {
        long[] indexes = {0, 1, 61, 63, 64, 127, 1L << 61, 1L << 62, Long.MAX_VALUE - 2, Long.MAX_VALUE};
        for (long epoch : indexes) {
            for (long index : indexes) {
                assertTrue(fresh(seen, stamp(epoch, index)));
            }
        }
        SeenStamps read = restored(seen);
        for (long epoch : indexes) {
            for (long index : indexes) {
                assertEquals(Verdict.REPETITION, read.add(stamp(epoch, index), stamp(epoch, index).hashCode()));
            }
            for (long index : new long[] {2, 60, 62, 65, 128, (1L << 61) - 1, (1L << 62) + 1, Long.MAX_VALUE - 1}) {
                assertTrue(fresh(read, stamp(epoch, index)));
            }
        }
    }

    @Test
    void streamsAreBoundedAndTheLeastRecentlyUsedIsForgotten() throws IOException {
        for (int i = 0; i < SeenStamps.MAXIMUM_STREAMS; i++) {
            assertTrue(fresh(seen, new Stamp("j" + i, "r", 0, 0, 0)));
        }
        assertEquals(Verdict.REPETITION, seen.add(new Stamp("j0", "r", 0, 0, 0), new Stamp("j0", "r", 0, 0, 0).hashCode()));
        assertTrue(fresh(seen, new Stamp("one more", "r", 0, 0, 0)));
        assertEquals(SeenStamps.MAXIMUM_STREAMS, seen.streams());
        assertEquals(SeenStamps.MAXIMUM_STREAMS, seen.ranges());
        SeenStamps read = restored(seen);
        assertTrue(!fresh(read, new Stamp("j0", "r", 0, 0, 0)));
        assertTrue(fresh(read, new Stamp("j1", "r", 0, 0, 0)), "forgotten: a duplicate, never a loss");
        assertTrue(!fresh(read, new Stamp("j3", "r", 0, 0, 0)));
    }

    @Test
    void rangesAreBoundedAndTheLowestOfTheLargestStreamAreForgotten() throws IOException {
        for (int i = 0; i < 100; i++) {
            fresh(seen, new Stamp("small", "run", 0, 0, 2L * i));
        }
        int count = SeenStamps.MAXIMUM_RANGES + 10_000;
        for (int i = 0; i < count; i++) {
            assertTrue(fresh(seen, stamp(0, 2L * i)));
        }
        assertTrue(seen.ranges() <= SeenStamps.MAXIMUM_RANGES && seen.ranges() > SeenStamps.MAXIMUM_RANGES * 3 / 4);
        SeenStamps read = restored(seen);
        assertEquals(seen.ranges(), read.ranges());
        for (int i = count - SeenStamps.MAXIMUM_RANGES * 3 / 4; i < count; i++) {
            assertTrue(!fresh(read, stamp(0, 2L * i)));
        }
        assertTrue(!fresh(read, new Stamp("small", "run", 0, 0, 0)), "of another stream");
        assertTrue(fresh(read, stamp(0, 0)), "forgotten: a duplicate, never a loss");
    }

    @Test
    void epochsOfAStreamAreBounded() {
        for (long epoch = 0; epoch < StampRanges.MAXIMUM_EPOCHS + 10; epoch++) {
            fresh(seen, stamp(epoch, 0));
            fresh(seen, stamp(epoch, 2));
        }
        assertEquals(2 * StampRanges.MAXIMUM_EPOCHS, seen.ranges());
        assertTrue(!fresh(seen, stamp(10, 0)));
        assertTrue(fresh(seen, stamp(9, 0)));
        assertTrue(!fresh(seen, stamp(10, 2)), "a late stamp of a forgotten epoch drives no newer one out");
    }

    @Test
    void anotherContentIsACollision() throws IOException {
        seen.add(stamp(0, 0), 1);
        seen.add(stamp(0, 1), 2);
        assertEquals(Verdict.REPETITION, seen.add(stamp(0, 0), 1));
        assertEquals(Verdict.COLLISION, seen.add(stamp(0, 0), 9));
        assertEquals(Verdict.REPETITION, seen.add(stamp(0, 0), 9), "returned before");
        assertEquals(Verdict.REPETITION, seen.add(stamp(0, 0), 1));
        SeenStamps read = restored(seen);
        assertEquals(Verdict.COLLISION, read.add(stamp(0, 1), 1));
        assertEquals(Verdict.REPETITION, read.add(stamp(0, 0), 1));
        assertEquals(Verdict.REPETITION, read.add(stamp(0, 0), 9));
    }

    @Test
    void aDerivedStampIsAnotherMessagesIfItsFingerprintIs() throws IOException {
        assertEquals(Verdict.NEW, seen.add(atPosition(7, "0000000a"), 1));
        assertEquals(Verdict.REPETITION, seen.add(atPosition(7, "0000000a"), 1));
        assertEquals(Verdict.CHANGED, seen.add(atPosition(7, "0000000a"), 2));
        assertEquals(Verdict.COLLISION, seen.add(atPosition(7, "fffffffb"), 3));
        SeenStamps read = restored(seen);
        for (SeenStamps each : List.of(seen, read)) {
            assertEquals(Verdict.REPETITION, each.add(atPosition(7, "0000000a"), 2), "seen by now");
            assertEquals(Verdict.REPETITION, each.add(atPosition(7, "fffffffb"), 3), "seen by now");
            assertEquals(Verdict.CHANGED, each.add(atPosition(7, "fffffffb"), 4));
            assertEquals(Verdict.COLLISION, each.add(atPosition(7, "0000000c"), 5));
            assertEquals(Verdict.NEW, each.add(atPosition(8, "0000000a"), 6), "the same message once more");
            assertEquals(1, each.ranges());
        }
    }

    @Test
    void aDerivedStampWithoutAFingerprintIsThatOfAnyMessageAtThePosition() throws IOException {
        seen.add(atPosition(7, null), 1);
        seen.add(atPosition(8, "0000000a"), 2);
        SeenStamps read = restored(seen);
        for (SeenStamps each : List.of(seen, read)) {
            assertEquals(Verdict.CHANGED, each.add(atPosition(7, null), 3));
            assertEquals(Verdict.CHANGED, each.add(atPosition(7, "0000000b"), 4));
            assertEquals(Verdict.CHANGED, each.add(atPosition(8, null), 5));
            assertEquals(Verdict.REPETITION, each.add(atPosition(8, "0000000a"), 2));
        }
    }

    @Test
    void aFingerprintThatIsForgottenIsNoCollision() {
        seen.add(atPosition(0, "00000001"), 1);
        seen.add(atPosition(1, "00000001"), 1);
        for (int i = 1; i < SeenStamps.MAXIMUM_HASHES; i++) {
            fresh(seen, stamp(0, i));
        }
        assertEquals(Verdict.REPETITION, seen.add(atPosition(0, "00000002"), 2));
        assertEquals(Verdict.COLLISION, seen.add(atPosition(1, "00000002"), 2));
    }

    @Test
    void theNewestHashesAreKept() throws IOException {
        int count = SeenStamps.MAXIMUM_HASHES + 1000;
        for (int i = 0; i < count; i++) {
            seen.add(new Stamp("job", "run", i % 3, 0, i), i);
        }
        assertEquals(Verdict.COLLISION, seen.add(new Stamp("job", "run", 1000 % 3, 0, 1000), -1));
        assertEquals(Verdict.REPETITION, seen.add(new Stamp("job", "run", 999 % 3, 0, 999), -1), "its hash is forgotten");
        SeenStamps read = restored(seen);
        int first = count - SeenStamps.RECORDED_HASHES + 1; // one more is that of the collision
        assertEquals(Verdict.REPETITION, read.add(new Stamp("job", "run", (first - 1) % 3, 0, first - 1), -1));
        for (int i = first; i < count; i++) {
            assertEquals(Verdict.COLLISION, read.add(new Stamp("job", "run", i % 3, 0, i), -1));
        }
    }

    @Test
    void aCopyIsIndependent() {
        seen.add(stamp(0, 0), 1);
        SeenStamps copy = seen.copy(SeenStamps.RECORDED_HASHES);
        assertEquals(Verdict.REPETITION, copy.add(stamp(0, 0), 1));
        assertEquals(Verdict.NEW, copy.add(stamp(0, 1), 1));
        assertEquals(Verdict.NEW, seen.add(stamp(0, 1), 1));
    }
}
