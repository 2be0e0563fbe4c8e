package io.speck.flink.mqtt;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.ObjLongConsumer;
import java.util.stream.DoubleStream;
import org.apache.flink.api.common.accumulators.DoubleCounter;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Measures the speed of a core: generated readings are parsed and filtered, and in a second pass also counted by key, in
 * one task and without a broker.
 *
 * <p>The results are accumulators, in readings for each second of processor time: {@code statelessPerSecond} and {@code
 * keyedPerSecond}, each the median of three passes over 200,000 readings after one that warms up.
 */
public final class Calibrate {
    private static final int READINGS = 200_000;
    private static final int DISTINCT = 1_000;
    private static final int KEYS = 100;
    private static final int PASSES = 3;
    private static final double LEAST_SPEED = 5;
    private static final double TOP_SPEED = 120;

    private Calibrate() {}

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        environment.fromData("readings").map(new Calibration()).name("calibrate").sinkTo(new DiscardingSink<>());
        environment.execute(MqttJob.of(environment, arguments).name());
    }

    private static final class Calibration extends RichMapFunction<String, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public String map(String text) {
            List<String> readings = readings();
            report("statelessPerSecond", readings, (key, speed) -> { });
            Map<String, Long> counts = new HashMap<>();
            report("keyedPerSecond", readings, (key, speed) -> counts.merge(key, speed, Long::sum));
            return text + counts.size();
        }

        private void report(String name, List<String> readings, ObjLongConsumer<String> each) {
            DoubleCounter speed = new DoubleCounter();
            getRuntimeContext().addAccumulator(name, speed);
            pass(readings, each);
            speed.add(DoubleStream.generate(() -> pass(readings, each)).limit(PASSES).sorted().skip(PASSES / 2)
                    .findFirst().orElseThrow());
        }
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
