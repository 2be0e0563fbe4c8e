package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.KnownWriters;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Stamp;
import java.util.List;
import java.util.Locale;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;

/**
 * Bounds the bytes that seen stamps take in a batch record. With {@code -Dspeck.costs=true} it prints these and the time for
 * each message (docs/mqtt.md), which is not asserted, as it depends on the machine.
 */
class SeenStampsCostTest {
    private static final int MESSAGES = 200_000;
    private static final boolean PRINTS = Boolean.getBoolean("speck.costs");
    private static final int ROUNDS = PRINTS ? 20 : 1;

    private static Stamp counted(int partition, long epoch, long index) {
        return new Stamp("count-a1", "1f6tks8xq2mzd", partition, epoch, index);
    }

    private static Stamp derived(long index, int output) {
        return new Stamp("count-a1", "d1f6tks8xq2mzd", 0, 0, index, Integer.toString(output));
    }

    private static Stamp atTheEdge(long index) {
        return new Stamp("count-a1", "1f6tks8xq2mzd", 0, 0, index, "0", index * 0x9e3779b9L & 0xffffffffL);
    }

    private static void measure(String name, int most, IntFunction<Stamp> stamps) {
        String[] texts = new String[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            texts[i] = stamps.apply(i).sequence();
        }
        SeenStamps seen = null;
        long best = Long.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            seen = new SeenStamps(SeenStamps.MAXIMUM_HASHES);
            long start = System.nanoTime();
            for (int i = 0; i < MESSAGES; i++) {
                seen.add(Stamp.parse("count-a1", texts[i]), i);
            }
            best = Math.min(best, System.nanoTime() - start);
        }
        long encoded = Long.MAX_VALUE;
        int bytes = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long start = System.nanoTime();
            bytes = new BatchRecord("c", "b", 0, 0, 1, List.of(), seen, KnownWriters.all()).encode().length;
            encoded = Math.min(encoded, System.nanoTime() - start);
        }
        if (PRINTS) {
            System.out.printf(Locale.ROOT, "%-48s %5d ns/message %6d streams %6d ranges %8d bytes %6.2f ms/record%n",
                    name, best / MESSAGES, seen.streams(), seen.ranges(), bytes, encoded / 1e6);
        }
        assertTrue(bytes <= most, name + ": a record of " + bytes + " bytes");
    }

    @Test
    void costs() {
        measure("Flink, counted, parallelism 1", 30_000, i -> counted(0, 0, i));
        measure("Flink, counted, parallelism 8", 40_000, i -> counted(i % 8, 0, i / 8));
        measure("Spark, counted, batches of 40", 50_000, i -> counted(0, i / 40, i % 40));
        measure("derived, one output each", 30_000, i -> derived(i, 0));
        measure("derived at the edge, one output each", 45_000, i -> atTheEdge(i));
        measure("derived, every second input has one (at random)", 150_000,
                i -> derived(2L * i + (i * 0x9e3779b9 >>> 31), 0));
        measure("derived, one input in a hundred has one", 200_000, i -> derived(100L * i, 0));
        measure("derived, 20 outputs each", 50_000, i -> derived(i / 20, i % 20));
        measure("derived, 10,000 outputs each", 700_000, i -> derived(i / 10_000, i % 10_000));
    }
}
