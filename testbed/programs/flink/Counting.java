package streets;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;

/**
 * Numbers at a steady rate, counted by key; the programs that the contract's behaviours name.
 *
 * <p>{@code --rate} numbers a second (100), {@code --count} of them and then the end (for ever), {@code --out} a
 * file that gets a line {@code key count} for each, {@code --fail-at} the number at which it fails, {@code
 * --fail-snapshot} to fail whenever state is to be kept.
 */
public class Counting {
    public static void main(String[] arguments) throws Exception {
        run(ParameterTool.fromArgs(arguments));
    }

    static void run(ParameterTool parameters) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        long count = parameters.getLong("count", Long.MAX_VALUE);
        DataGeneratorSource<Long> numbers = new DataGeneratorSource<>(
                index -> index, count, RateLimiterStrategy.perSecond(parameters.getDouble("rate", 100)), Types.LONG);
        environment
                .fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                .keyBy(number -> number % 3)
                .process(new Count(parameters))
                .uid("count")
                .sinkTo(new DiscardingSink<>());
        environment.execute();
    }

    /** Counts each key's numbers. */
    static class Count extends KeyedProcessFunction<Long, Long, String> implements CheckpointedFunction {
        private final String out;
        private final long failAt;
        private final boolean failSnapshot;
        private transient ValueState<Long> counted;

        Count(ParameterTool parameters) {
            out = parameters.get("out");
            failAt = parameters.getLong("fail-at", -1);
            failSnapshot = parameters.getBoolean("fail-snapshot", false);
        }

        @Override
        public void open(OpenContext context) {
            counted = getRuntimeContext().getState(new ValueStateDescriptor<>("counted", Long.class));
        }

        @Override
        public void processElement(Long number, Context context, Collector<String> results) throws Exception {
            if (failAt >= 0 && number >= failAt) {
                throw new IllegalStateException("no such street");
            }
            long before = counted.value() == null ? 0 : counted.value();
            counted.update(before + 1);
            String line = context.getCurrentKey() + " " + (before + 1);
            if (out != null) {
                Files.write(
                        Path.of(out),
                        (line + "\n").getBytes(StandardCharsets.UTF_8),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.APPEND);
            }
            results.collect(line);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {
            if (failSnapshot) {
                throw new IllegalStateException("the street cannot be kept");
            }
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}
    }

    /** Fails before there is a job. */
    public static class FailsAtBuild {
        public static void main(String[] arguments) {
            throw new IllegalStateException("no such street");
        }
    }

    /** Fails at its first number, again and again. */
    public static class FailsAtRun {
        public static void main(String[] arguments) throws Exception {
            run(ParameterTool.fromArgs(arguments).mergeWith(
                    ParameterTool.fromArgs(new String[] {"--fail-at", "0"})));
        }
    }

    /**
     * Takes {@code --seconds} to build its job, or until there is a file {@code go} in the folder {@code --waits},
     * where it writes {@code begun} before; and writes what it was given to {@code --given}, if anywhere.
     */
    public static class Slow {
        public static void main(String[] arguments) throws Exception {
            ParameterTool parameters = ParameterTool.fromArgs(arguments);
            if (parameters.has("waits")) {
                Path folder = Path.of(parameters.get("waits"));
                Files.writeString(folder.resolve("begun"), "");
                while (!Files.exists(folder.resolve("go"))) {
                    Thread.sleep(20);
                }
            }
            Thread.sleep(parameters.getLong("seconds", 0) * 1000);
            if (parameters.has("given")) {
                String settings = StreamExecutionEnvironment.getExecutionEnvironment()
                        .getConfiguration().toMap().entrySet().stream()
                        .map(entry -> entry.getKey() + "=" + entry.getValue())
                        .reduce("", (all, line) -> all + line + "\n");
                Files.writeString(Path.of(parameters.get("given")), String.join("\n", arguments) + "\n" + settings);
            }
            run(parameters);
        }
    }

    /** Starts a job, and then fails. */
    public static class FailsAfterTheStart {
        public static void main(String[] arguments) throws Exception {
            StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
            environment
                    .fromSource(
                            new DataGeneratorSource<>(
                                    index -> index, Long.MAX_VALUE, RateLimiterStrategy.perSecond(1), Types.LONG),
                            WatermarkStrategy.noWatermarks(),
                            "numbers")
                    .sinkTo(new DiscardingSink<>());
            environment.executeAsync();
            throw new IllegalStateException("no such street");
        }
    }
}
