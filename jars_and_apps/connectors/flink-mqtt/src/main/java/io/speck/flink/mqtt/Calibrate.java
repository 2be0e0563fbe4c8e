package io.speck.flink.mqtt;

import io.speck.connector.probe.CoreProbe;
import org.apache.flink.api.common.accumulators.DoubleCounter;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Measures the speed of a core in one task ({@link CoreProbe}). The results are accumulators: {@code
 * statelessPerSecond} and {@code keyedPerSecond}.
 */
public final class Calibrate {
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
            CoreProbe found = CoreProbe.measure();
            getRuntimeContext().addAccumulator("statelessPerSecond", new DoubleCounter(found.statelessPerSecond()));
            getRuntimeContext().addAccumulator("keyedPerSecond", new DoubleCounter(found.keyedPerSecond()));
            return text;
        }
    }
}
