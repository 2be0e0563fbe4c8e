package io.speck.mqtt.stamp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Derives the stamps of outputs from those of their inputs. */
class CurrentInputTest {
    private static final Stamp COUNTED = new Stamp("a", "run", 3, 17, 42);
    private static final int HASH = -2;

    private final CurrentInput current = CurrentInput.ofThread();

    @AfterEach
    void leaveNothing() {
        current.end();
    }

    private String outputOf(Stamp stamp, int source) {
        current.begin(stamp, source, 5, HASH);
        return nextSequence();
    }

    private String nextSequence() {
        return new String(current.nextSequence("own"), StandardCharsets.US_ASCII);
    }

    private Stamp derived(Stamp stamp, String writer) {
        return Stamp.parse(writer, outputOf(stamp, 0));
    }

    @Test
    void outputsOfOneInputAreNumbered() {
        String first = outputOf(COUNTED, 0);
        assertTrue(first.matches("d[0-9a-z]+/3/17/42\\.0"), first);
        assertEquals(first.replace(".0", ".1"), nextSequence());
        assertEquals(first, outputOf(COUNTED, 0));
    }

    @Test
    void outputsAsideAreNoneOfTheInput() {
        String first = outputOf(COUNTED, 0);
        current.aside(() -> assertTrue(current.isAside()));
        assertFalse(current.isAside());
        assertEquals(first.replace(".0", ".1"), nextSequence());
        assertThrows(IllegalArgumentException.class, () -> current.aside(() -> {
            throw new IllegalArgumentException();
        }));
        assertFalse(current.isAside());
    }

    @Test
    void anInputWithoutAStampIsItsPositionAndAHashOfItsContent() {
        assertEquals("own/2/0/5.0~fffffffe", outputOf(null, 2));
        assertEquals("own/2/0/5.1~fffffffe", nextSequence());
    }

    @Test
    void eachJobOnTheWayKeepsTheHashOfTheFirstInput() {
        Stamp edge = Stamp.parse("a", outputOf(null, 2));
        Stamp next = derived(derived(edge, "b"), "c");
        assertEquals(0xfffffffeL, next.fingerprint());
        Stamp former = Stamp.parse("a", "own/2/0/5.0");
        assertEquals(former.fingerprint(), derived(former, "b").fingerprint());
        assertFalse(outputOf(COUNTED, 0).contains("~"));
    }

    /** So that most messages have a short stamp after any number of jobs. */
    @Test
    void thePathStaysThatOfTheOnlyOutputAndOthersGrow() {
        Stamp only = derived(derived(derived(COUNTED, "b"), "c"), "d");
        assertEquals("0", only.path());
        outputOf(only, 0);
        Stamp second = Stamp.parse("e", nextSequence());
        assertEquals("1", second.path());
        assertEquals("1.0", derived(second, "f").path());
        assertEquals("1.0.0", derived(derived(second, "f"), "g").path());
    }

    /** Two outputs of one message have two names after every job, whether their paths went into the run or not. */
    @Test
    void allOutputsHaveTheirOwnNamesAfterEachJob() {
        List<Stamp> inputs = List.of(COUNTED, Stamp.parse("a", outputOf(null, 2)));
        for (int hop = 0; hop < 5; hop++) {
            List<Stamp> outputs = new ArrayList<>();
            for (Stamp input : inputs) {
                outputs.add(derived(input, "job"));
                outputs.add(Stamp.parse("job", nextSequence()));
            }
            assertEquals(outputs.size(), new HashSet<>(outputs).size(), outputs::toString);
            inputs = outputs;
        }
    }

    /** A counted stamp, and a derived one without a fingerprint, have a run for each form of their job. */
    @Test
    void runsAreShorterBehindAFingerprint() {
        Set<String> runs = new HashSet<>();
        for (int source = 0; source < 1000; source++) {
            String shorter = derivedRun(Stamp.parse("a", "own/2/0/5.0~fffffffe"), source);
            assertTrue(shorter.matches("d[0-9a-z]{1,8}"), shorter); // 40 bits
            assertTrue(runs.add(shorter));
            assertTrue(runs.add(derivedRun(Stamp.parse("a", "own/2/0/5.0"), source)));
            assertTrue(runs.add(derivedRun(COUNTED, source)));
        }
        assertTrue(runs.stream().filter(each -> each.length() > 10).count() > 1900);
    }

    private String derivedRun(Stamp stamp, int source) {
        return Stamp.parse("b", outputOf(stamp, source)).run();
    }

    /** Two jobs each write one output of the same message to one topic, which a third one reads. */
    @Test
    void outputsThatCameAnotherWayHaveOtherStamps() {
        Stamp left = derived(COUNTED, "left");
        Stamp right = derived(COUNTED, "right");
        assertEquals(left.sequence(), right.sequence());
        assertNotEquals(derived(left, "joined"), derived(right, "joined"));
        assertNotEquals(outputOf(COUNTED, 0), outputOf(COUNTED, 1));
        Stamp otherRun = new Stamp("a", "other", 3, 17, 42);
        assertNotEquals(derived(COUNTED, "b"), derived(otherRun, "b"));
    }

    @Test
    void stampsStayWithinTheirBoundsHoweverLongTheWay() {
        Stamp narrow = COUNTED;
        Stamp wide = new Stamp("a", "run", Integer.MAX_VALUE, Long.MAX_VALUE, Long.MAX_VALUE, "2147483647", 7);
        Set<Stamp> seen = new HashSet<>();
        for (int hop = 0; hop < 100; hop++) {
            narrow = derived(narrow, "job");
            assertNotNull(narrow);
            assertTrue(seen.add(narrow));
            String sequence = outputOf(wide, 0).replaceFirst("\\.0~00000007$", ".2147483647~00000007");
            wide = Stamp.parse("job", sequence);
            assertNotNull(wide, sequence);
            assertTrue(seen.add(wide));
            assertEquals(7, wide.fingerprint());
        }
    }

    /** Tasks write the outputs of a batch side by side, so that one with a lower number may come later. */
    @Test
    void outputsAreNamedAfterTheirOwnInputInAnyOrderOfInputs() {
        List<Stamp> inputs = new ArrayList<>(Arrays.asList((Stamp) null));
        for (int number = 0; number < 32; number++) {
            String path = (number & 8) == 0 ? "" : "1.0";
            inputs.add(new Stamp((number & 1) == 0 ? "a" : "b", (number & 2) == 0 ? "run" : "run2", number & 1, number & 4,
                    number, path, path.isEmpty() || (number & 16) == 0 ? Stamp.NO_FINGERPRINT : 0xFEDCBA98L));
        }
        Map<Stamp, String> alone = new HashMap<>();
        inputs.forEach(each -> alone.put(each, outputOf(each, 1)));
        Random random = new Random(1);
        for (int i = 0; i < 10_000; i++) {
            Stamp input = inputs.get(random.nextInt(inputs.size()));
            assertEquals(alone.get(input), outputOf(input, 1));
            if (input != null) {
                Stamp output = Stamp.parse("writer", outputOf(input, 1));
                assertEquals(List.of(input.partition(), input.epoch(), input.index(), input.fingerprint()),
                        List.of(output.partition(), output.epoch(), output.index(), output.fingerprint()));
            }
        }
    }

    @Test
    void outputsOfAMessageThatReplacesOthersReplaceNone() {
        Stamp newest = derived(new Stamp("a", "run", 0, 0, 7, Stamp.NEWEST), "b");
        assertFalse(newest.replaces());
        assertEquals("0", newest.path());
        assertNotEquals(derived(new Stamp("a", "run", 0, 0, 7), "b"), newest);
    }

    @Test
    void anElementOfNoMessageIsRefused() {
        current.end();
        assertThrows(IllegalStateException.class, this::nextSequence);
    }
}
