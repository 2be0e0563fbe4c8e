package io.speck.connector.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class AckTimesTest {
    private static final double MILLION = 1e6;

    private static long seconds(double number) {
        return Math.round(number * TimeUnit.SECONDS.toNanos(1));
    }

    @Test
    void nothingIsKnownWithoutAnAcknowledgement() {
        assertEquals(new AckMetrics("b", -1, -1, 0), new AckTimes(5).metrics("b", 5));
        assertEquals(new AckMetrics("b", -1, -1, 0), new AckTimes(5).metrics("b", seconds(100)));
    }

    @Test
    void theLeastIsExactAndTheMedianNear() {
        Random random = new Random(1);
        for (long scale = 3_000; scale < seconds(1_000); scale *= 7) {
            long top = scale;
            long[] times = LongStream.range(0, 999).map(each -> top + random.nextLong(9 * top)).toArray();
            AckTimes acks = new AckTimes(0);
            LongStream.of(times).forEach(each -> acks.add(seconds(1), each));
            AckMetrics found = acks.metrics("b", seconds(2));
            long[] sorted = LongStream.of(times).sorted().toArray();
            assertEquals(sorted[0] / MILLION, found.leastMillis());
            assertEquals(1, found.medianMillis() * MILLION / sorted[499], scale < 10_000 ? 0.2 : 0.07, "of " + scale);
        }
    }

    @Test
    void everyTimeIsInItsBucket() {
        Random random = new Random(2);
        for (int i = 0; i < 100_000; i++) {
            long nanos = random.nextLong(Long.MAX_VALUE) >>> random.nextInt(63);
            int bucket = AckTimes.bucket(nanos);
            assertTrue(AckTimes.start(bucket) <= nanos, "from " + nanos);
            assertTrue(nanos >>> 10 < AckTimes.start(bucket + 1) >>> 10 || bucket == 407, "to " + nanos);
        }
        assertEquals(407, AckTimes.bucket(Long.MAX_VALUE));
        assertEquals(0, AckTimes.bucket(-1));
    }

    @Test
    void whatIsOlderThanAMinuteIsForgotten() {
        AckTimes acks = new AckTimes(0);
        acks.add(seconds(1), 1_000_000);
        acks.add(seconds(45), 8_000_000);
        assertEquals(1, acks.metrics("b", seconds(59)).leastMillis());
        assertEquals(8, acks.metrics("b", seconds(61)).leastMillis());
        assertEquals(-1, acks.metrics("b", seconds(105)).leastMillis());
        assertEquals(-1, acks.metrics("b", seconds(86_400)).leastMillis());
    }

    @Test
    void theShareOfAFullWindow() {
        AckTimes acks = new AckTimes(0);
        acks.full(true, seconds(2));
        assertEquals(0.5, acks.metrics("b", seconds(4)).windowFull(), 1e-9);
        acks.full(true, seconds(5));
        acks.full(false, seconds(8));
        assertEquals(0.6, acks.metrics("b", seconds(10)).windowFull(), 1e-9);
        assertEquals(0.2, acks.metrics("b", seconds(30)).windowFull(), 1e-9);
        acks.full(true, seconds(40));
        assertEquals(1, acks.metrics("b", seconds(200)).windowFull(), 1e-9);
        acks.full(false, seconds(200));
        assertEquals(0, acks.metrics("b", seconds(300)).windowFull(), 1e-9);
    }
}
