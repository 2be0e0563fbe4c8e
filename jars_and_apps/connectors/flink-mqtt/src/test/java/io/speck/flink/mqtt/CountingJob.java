package io.speck.flink.mqtt;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A process for the test to kill: forwards {@code in} to {@code middle}, and counts both, from the newest checkpoint
 * that an earlier process left. Arguments: the broker, and the folder of the checkpoints.
 */
public final class CountingJob {
    private CountingJob() {}

    public static void main(String[] arguments) throws Exception {
        String broker = arguments[0];
        Path checkpoints = Files.createDirectories(Path.of(arguments[1]));
        Configuration configuration = new Configuration();
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(200));
        configuration.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        newest(checkpoints).ifPresent(
                path -> configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, path.toUri().toString()));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        write(broker, "middle", read(environment, broker, "forward", "in"));
        count(environment, broker, "in");
        count(environment, broker, "middle");
        environment.execute("counting");
    }

    private static Optional<Path> newest(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.walk(checkpoints)) {
            return files.filter(file -> file.endsWith("_metadata"))
                    .max(Comparator.comparing(file -> file.toFile().lastModified())).map(Path::getParent);
        }
    }

    private static DataStream<String> read(StreamExecutionEnvironment environment, String broker, String session,
            String topic) {
        return environment.fromSource(FlinkMqttSource.texts().broker(broker).topic(topic).clientId(session).build(),
                WatermarkStrategy.noWatermarks(), session).uid(session);
    }

    private static void write(String broker, String topic, DataStream<String> texts) {
        texts.sinkTo(FlinkMqttSink.texts().broker(broker).topic(topic).job("write-" + topic).build()).uid("write-" + topic);
    }

    private static void count(StreamExecutionEnvironment environment, String broker, String topic) {
        DataStream<String> counts = read(environment, broker, "count-" + topic, topic).keyBy(text -> text)
                .map(new Count()).uid("counts-" + topic);
        write(broker, "counts-" + topic, counts);
    }

    private static final class Count extends RichMapFunction<String, String> {
        private static final long serialVersionUID = 1L;

        private transient ValueState<Integer> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.INT));
        }

        @Override
        public String map(String text) throws IOException {
            int next = count.value() == null ? 1 : count.value() + 1;
            count.update(next);
            return text + "=" + next;
        }
    }
}
