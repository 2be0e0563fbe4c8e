package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class UnknownWritersTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

    private final UnknownWriters asked = new UnknownWriters();

    @Test
    void eachWriterIsAskedForOnceASecond() {
        assertFalse(asked.isDue(List.of(), 0));
        assertTrue(asked.isDue(List.of("a", "a"), 0));
        assertFalse(asked.isDue(List.of("a"), SECOND - 1));
        assertTrue(asked.isDue(List.of("a", "b"), SECOND - 1));
        assertFalse(asked.isDue(List.of("b"), SECOND));
        assertTrue(asked.isDue(List.of("a"), SECOND));
    }

    @Test
    void messagesThatArriveTogetherAreAskedForOnce() {
        List<String> names = IntStream.range(0, 500).mapToObj(each -> "other-" + each).toList();
        assertTrue(asked.isDue(names, 0));
        assertFalse(asked.isDue(names, SECOND / 2));
    }

    @Test
    void everNewNamesAreAskedForWithoutBound() {
        for (int number = 0; number < 10_000; number++) {
            assertTrue(asked.isDue(List.of("other-" + number), 0));
        }
        assertFalse(asked.isDue(List.of("other-9999"), 0));
    }
}
