package io.speck.mqtt.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The time of the event loops by their messages, with a clock and processor times of the test. */
@Timeout(60)
class EventLoopCostTest {
    private static final int RATE = 400;
    private long seconds;
    private long processorMillis;
    private final EventLoopCost cost = new EventLoopCost(
            () -> TimeUnit.SECONDS.toNanos(seconds), () -> TimeUnit.MILLISECONDS.toNanos(processorMillis));

    /** Advances by 5 s, as the metrics are read. */
    private double advanced(int rate, long millisPerSecond) {
        IntStream.range(0, 5 * rate).forEach(each -> cost.count());
        seconds += 5;
        processorMillis += 5 * millisPerSecond;
        return cost.perRoot();
    }

    @Test
    void itIsTheCoresPerRootOfTheMessagesASecond() {
        assertEquals(EventLoopCost.UNKNOWN, cost.perRoot());
        assertEquals(EventLoopCost.UNKNOWN, advanced(RATE, 56)); // 5 s tell little
        assertEquals(0.056 / Math.sqrt(RATE), advanced(RATE, 56), 1e-9);
        assertEquals(0.0028, advanced(RATE, 56), 1e-9);
    }

    @Test
    void itIsThatOfTheLastMinute() {
        cost.perRoot();
        advanced(RATE, 200); // compiling
        double latest = IntStream.range(0, 13).mapToDouble(each -> advanced(RATE, 20)).reduce(0, (one, next) -> next);
        assertEquals(0.001, latest, 1e-9);
    }

    @Test
    void itIsNotKnownWithFewMessages() {
        cost.perRoot();
        advanced(19, 5);
        assertEquals(EventLoopCost.UNKNOWN, advanced(19, 5));
        assertTrue(advanced(100, 5) > 0);
    }

    @Test
    void itIsNotKnownWithoutProcessorTimes() {
        cost.perRoot();
        advanced(RATE, 0);
        assertEquals(EventLoopCost.UNKNOWN, advanced(RATE, 0));
    }
}
