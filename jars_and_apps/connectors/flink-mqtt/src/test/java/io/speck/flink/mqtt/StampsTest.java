package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The stamps of a job's messages: derived from those of its input, or counted. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StampsTest extends ClusterCase {
    private static final int INPUTS = 200;
    private Wire wire;

    @BeforeEach
    void start() throws Exception {
        wire = new Wire(broker.url(), "out");
    }

    @AfterEach
    void stop() {
        wire.close();
    }

    private DataStream<String> read(StreamExecutionEnvironment environment) {
        return environment.fromSource(FlinkMqttSource.texts().broker(broker.url()).topic("in").clientId("job").build(),
                WatermarkStrategy.noWatermarks(), "in").uid("in");
    }

    private FlinkMqttSinkBuilder<String> sink() {
        return FlinkMqttSink.texts().broker(broker.url()).topic("out").job("job");
    }

    /** Runs a job with these operators, from a savepoint or nothing (null). */
    private JobID run(Function<DataStream<String>, DataStream<String>> operators, FlinkMqttSinkBuilder<String> sink,
            String savepoint) throws Exception {
        return run(operators, sink, savepoint, OFTEN);
    }

    private JobID run(Function<DataStream<String>, DataStream<String>> operators, FlinkMqttSinkBuilder<String> sink,
            String savepoint, long checkpointMillis) throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(checkpointMillis, savepoint);
        operators.apply(read(environment)).sinkTo(sink.build()).uid("out");
        return cluster.run(environment);
    }

    private void publish(int from, int to, String job) throws InterruptedException {
        try (MqttSink writer = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), Duration.ofSeconds(30)))) {
            for (int i = from; i < to; i++) {
                writer.send("in", bytes("" + i), null, job == null ? null : bytes(job),
                        job == null ? null : bytes("up/1/2/" + 3 * i));
            }
            writer.flush();
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** As many outputs of a message as its number modulo 4. */
    private static final class Multiply implements FlatMapFunction<String, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void flatMap(String text, Collector<String> out) {
            for (int k = 0; k < Integer.parseInt(text) % 4; k++) {
                out.collect(text + "-" + k);
            }
        }
    }

    private static final class Same extends ProcessFunction<String, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(String text, Context context, Collector<String> out) {
            out.collect(text);
        }
    }

    /** A map with state of its own, as one that would hold elements back. */
    private static final class Stateful implements MapFunction<String, String>, CheckpointedFunction {
        private static final long serialVersionUID = 1L;

        @Override
        public String map(String text) {
            return text;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public void initializeState(FunctionInitializationContext context) {}
    }

    /** Passes elements on; before the first one it writes what comes from none. */
    private static final class Announced extends AbstractStreamOperator<String>
            implements OneInputStreamOperator<String, String>, PassesOn {
        private static final long serialVersionUID = 1L;

        private transient boolean begun;

        @Override
        public void processElement(StreamRecord<String> element) {
            if (!begun) {
                begun = true;
                CurrentInput.ofThread().aside(() -> List.of("first", "second").forEach(
                        each -> output.collect(new StreamRecord<>(each))));
            }
            output.collect(element);
        }
    }

    private static final class Async extends RichAsyncFunction<String, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void asyncInvoke(String text, ResultFuture<String> result) {
            result.complete(List.of(text));
        }
    }

    private static DataStream<String> multiplied(DataStream<String> in) {
        return in.map(text -> text).filter(text -> !text.isEmpty()).flatMap(new Multiply()).process(new Same());
    }

    private static final int OUTPUTS = INPUTS / 4 * (0 + 1 + 2 + 3);

    @Test
    void derivedStampsComeFromTheInputAndSurviveFailures() throws Exception {
        AtomicInteger failures = Failing.times(4, 30);
        JobID job = run(in -> multiplied(in.map(new Failing())), sink(), null);
        publish(0, INPUTS, "up");
        Map<String, Stamp> stamps = new HashMap<>();
        Await.until("all", () -> {
            wire.seen().forEach(each -> {
                Stamp before = stamps.putIfAbsent(each.text(), each.stamp());
                assertTrue(before == null || before.equals(each.stamp()), each::text);
            });
            return stamps.size() == OUTPUTS;
        });
        cluster.cancel(job);
        assertTrue(failures.get() < 4, "it never failed");
        stamps.forEach((text, stamp) -> assertEquals(
                List.of(1, 2L, 3L * Integer.parseInt(text.split("-")[0]), text.split("-")[1]),
                List.of(stamp.partition(), stamp.epoch(), stamp.index(), stamp.path())));
    }

    @Test
    void atTheEdgeStampsComeFromThePosition() throws Exception {
        JobID job = run(StampsTest::multiplied,
                sink().incarnation("edge").incarnationNumber(7).originNumber(3), null);
        publish(0, 100, null);
        wire.take(OUTPUTS / 2);
        String savepoint = cluster.stop(job);
        JobID next = run(StampsTest::multiplied,
                sink().incarnation("edge").incarnationNumber(8).originNumber(3), savepoint);
        publish(100, INPUTS, null);
        Map<String, Stamp> stamps = wire.stamps(OUTPUTS);
        cluster.cancel(next);
        assertEquals(new Stamp("job", "edge.o3", 0, 0, 7, "2", Wire.fingerprint("in", "7")), stamps.get("7-2"));
        assertEquals(new Stamp("job", "edge.o3", 0, 0, 199, "1", Wire.fingerprint("in", "199")), stamps.get("199-1"));
    }

    @Test
    void otherCodeGivesTheSameOutputTheSameStamp() throws Exception {
        JobID job = run(in -> in, sink(), null);
        publish(0, INPUTS, "up");
        Map<String, Stamp> before = wire.stamps(INPUTS);
        cluster.cancel(job);
        Topic.forget(broker.url(), "job");
        Topic.session(broker.url(), "job", "in");
        try (Wire again = new Wire(broker.url(), "again")) {
            JobID other = run(in -> in.filter(text -> text.endsWith("7")), sink().topic("again"), null);
            publish(0, INPUTS, "up");
            again.stamps(INPUTS / 10).forEach((text, stamp) -> assertEquals(before.get(text), stamp));
            cluster.cancel(other);
        }
    }

    @Test
    void whatIsWrittenAsideIsCountedAmongDerivedStamps() throws Exception {
        JobID job = run(in -> in.transform("announced", Types.STRING, new Announced()), sink().incarnation("run"), null);
        publish(0, INPUTS, "up");
        Map<String, Stamp> stamps = wire.stamps(INPUTS + 2);
        cluster.cancel(job);
        assertEquals(new Stamp("job", "run", 0, 0, 1), stamps.get("second"));
        assertEquals(List.of(1, 2L, 0L, "0"), List.of(stamps.get("0").partition(), stamps.get("0").epoch(),
                stamps.get("0").index(), stamps.get("0").path()));
    }

    @Test
    void jobsWhoseElementsMayComeFromOthersCount() throws Exception {
        Map<String, Function<DataStream<String>, DataStream<String>>> counted = Map.of(
                "keyed", in -> in.keyBy(text -> text).map(text -> text),
                "state", in -> in.map(new Stateful()),
                "async", in -> AsyncDataStream.orderedWait(in, new Async(), 10, TimeUnit.SECONDS),
                "rebalanced", DataStream::rebalance,
                "union", in -> in.map(text -> text).union(in.filter(text -> false)));
        for (Map.Entry<String, Function<DataStream<String>, DataStream<String>>> each : counted.entrySet()) {
            StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
            assertFalse(RowByRow.is(each.getValue().apply(read(environment)).getTransformation()), each.getKey());
        }
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        assertTrue(RowByRow.is(multiplied(read(environment)
                .assignTimestampsAndWatermarks(WatermarkStrategy.forMonotonousTimestamps())).getTransformation()));
        DataStream<String> elsewhere = environment.fromData("x");
        assertFalse(RowByRow.is(elsewhere.map(text -> text).getTransformation()));
    }

    @Test
    void aChainThatIsCutCounts() throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        environment.disableOperatorChaining();
        read(environment).sinkTo(sink().incarnation("cut").build());
        JobID job = cluster.run(environment);
        publish(0, INPUTS, "up");
        assertEquals(new Stamp("job", "cut", 0, 0, 17), wire.stamps(INPUTS).get("17"));
        cluster.cancel(job);
    }

    /** A count that would go on in the form that is put back would name its messages as those of the other. */
    @Test
    void aFormThatIsPutBackCountsInAnIncarnationOfItsOwn() throws Exception {
        try (Topic reader = new Topic(broker.url(), "out")) {
            JobID first = run(in -> in.keyBy(text -> 0).map(text -> text), sink(), null);
            publish(0, 50, "up");
            reader.take(50);
            String savepoint = cluster.stop(first);
            JobID doubled = run(in -> in.keyBy(text -> 0).flatMap((String text, Collector<String> out) -> {
                out.collect(text + "a");
                out.collect(text + "b");
            }).returns(String.class), sink().incarnationNumber(2), savepoint, NEVER);
            publish(50, 100, "up");
            reader.take(150);
            cluster.cancel(doubled);
            JobID putBack = run(in -> in.keyBy(text -> 0).map(text -> text), sink().incarnationNumber(3), savepoint);
            publish(100, 150, "up");
            List<String> expected = new ArrayList<>(IntStream.range(0, 150).mapToObj(Integer::toString).toList());
            Await.until("all", () -> new HashSet<>(reader.all()).containsAll(expected));
            String later = cluster.stop(putBack);
            JobID same = run(in -> in.keyBy(text -> 0).map(text -> text), sink().incarnationNumber(3), later);
            publish(150, 160, "up");
            Await.until("later", () -> reader.all().contains("159"));
            cluster.cancel(same);
            List<Stamp> counted = wire.seen().stream().map(Wire.Published::stamp).toList();
            assertEquals(3, counted.stream().map(Stamp::run).distinct().count());
            assertEquals(List.of(0L, 109L), List.of(counted.get(150).index(), counted.get(counted.size() - 1).index()));
        }
    }
}
