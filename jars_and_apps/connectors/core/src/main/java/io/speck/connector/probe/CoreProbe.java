package io.speck.connector.probe;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.ObjLongConsumer;
import java.util.stream.DoubleStream;

/**
 * Measures the speed of a core: generated readings are parsed and filtered, and in a second pass also counted by key, in
 * one thread and without a broker.
 *
 * <p>Both are readings for each second of processor time, the median of three passes over 200,000 readings after one
 * that warms up.
 */
public record CoreProbe(double statelessPerSecond, double keyedPerSecond) {
    private static final int READINGS = 200_000;
    private static final int DISTINCT = 1_000;
    private static final int KEYS = 100;
    private static final int PASSES = 3;
    private static final double LEAST_SPEED = 5;
    private static final double TOP_SPEED = 120;

    /** Measures the core of this thread. */
    public static CoreProbe measure() {
        List<String> readings = readings();
        Map<String, Long> counts = new HashMap<>();
        double stateless = median(readings, (key, speed) -> { });
        return new CoreProbe(stateless, median(readings, (key, speed) -> counts.merge(key, speed, Long::sum)));
    }

    private static double median(List<String> readings, ObjLongConsumer<String> each) {
        pass(readings, each);
        return DoubleStream.generate(() -> pass(readings, each)).limit(PASSES).sorted().skip(PASSES / 2).findFirst()
                .orElseThrow();
    }

    private static List<String> readings() {
        Random random = new Random(1);
        List<String> readings = new ArrayList<>();
        for (int i = 0; i < DISTINCT; i++) {
            readings.add("OK," + random.nextInt(KEYS) + "," + random.nextDouble() * TOP_SPEED + "," + random.nextInt());
        }
        return readings;
    }

    /** Returns the number of readings for each second of processor time. */
    private static double pass(List<String> readings, ObjLongConsumer<String> each) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long begin = threads.getCurrentThreadCpuTime();
        for (int i = 0; i < READINGS; i++) {
            String[] fields = readings.get(i % DISTINCT).split(",");
            double speed = Double.parseDouble(fields[2]);
            if (fields[0].equals("OK") && speed > LEAST_SPEED) {
                each.accept(fields[1], Math.round(speed));
            }
        }
        return READINGS * 1e9 / Math.max(1, threads.getCurrentThreadCpuTime() - begin);
    }
}
