package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The stamps of a query's messages: derived from those of its input, or counted. */
@Timeout(180)
class StampsTest extends SessionCase {
    private static final int INPUTS = 240;
    private static final int EXPLODED_OUTPUTS = INPUTS / 4 * (0 + 1 + 2 + 3);
    /** As many outputs of a message as its number modulo 4, each with the message's number and its own. */
    private static final String EXPLODED =
            "explode(transform(sequence(0, 3), k -> concat(value, '-', k))) AS value";
    private static final String KEPT = "cast(split(value, '-')[1] AS INT) < cast(split(value, '-')[0] AS INT) % 4";

    private int runs;
    private String mode;

    @AfterEach
    void stop() {
        List.of("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled", "spark.speck.incarnation")
                .forEach(spark.conf()::unset);
        spark.conf().set("spark.sql.shuffle.partitions", 1);
    }

    /** The settings of one run of a query: they must not change a derived stamp. */
    private record Cut(int partitions, int rows, boolean codegen) {
        private static final List<Cut> SEVERAL =
                List.of(new Cut(1, 1000, true), new Cut(3, 37, true), new Cut(2, 100, false), new Cut(1, 11, false));
    }

    /** Runs a query over the same input, from an empty checkpoint; returns the stamp of each output by its text. */
    private Map<String, Stamp> run(Cut cut, UnaryOperator<Dataset<Row>> query, Map<String, String> options, String job,
            int outputs) throws Exception {
        int run = runs++;
        spark.conf().set("spark.sql.codegen.wholeStage", cut.codegen());
        Topic.session(broker.url(), "reader" + run, "in/#");
        publish(job);
        DataStreamReader reader = spark.readStream().format("mqtt").option("brokerUrl", broker.url())
                .option("topic", "in/#").option("clientId", "reader" + run).option("quietTime", "500ms")
                .option("partitions", cut.partitions()).option("maxRowsPerBatch", cut.rows());
        try (Wire out = new Wire(broker.url(), "out" + run)) {
            StreamingQuery started = query.apply(reader.load()).writeStream().format("mqtt").options(options)
                    .option("brokerUrl", broker.url()).option("topic", "out" + run).option("job", "job")
                    .option("checkpointLocation", folder.resolve("checkpoint" + run).toString())
                    .trigger(Trigger.AvailableNow()).start();
            started.awaitTermination();
            mode = started.lastProgress().sink().metrics().get("stamps");
            return out.stamps(outputs);
        }
    }

    /** Publishes the inputs; in their stamps, if they have any, their numbers grow by 3, over several epochs. */
    private void publish(String job) throws InterruptedException {
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), Duration.ofSeconds(30)))) {
            for (int i = 0; i < INPUTS; i++) {
                String sequence = "up/1/" + i / 100 + "/" + 3 * i;
                sink.send("in/" + i % 2, bytes("" + i), null, job == null ? null : bytes(job),
                        job == null ? null : bytes(sequence));
            }
            sink.flush();
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Dataset<Row> exploded(Dataset<Row> messages) {
        return messages.selectExpr(EXPLODED).where(KEPT);
    }

    @Test
    void derivedStampsDependOnNeitherBatchesNorPartitionsNorGeneratedCode() throws Exception {
        Map<String, Stamp> first = null;
        for (Cut cut : Cut.SEVERAL) {
            Map<String, Stamp> stamps = run(cut, StampsTest::exploded, Map.of(), "up", EXPLODED_OUTPUTS);
            assertEquals("derived", mode);
            first = first == null ? stamps : first;
            assertTrue(first.equals(stamps), cut::toString);
        }
        first.forEach((text, stamp) -> {
            int input = Integer.parseInt(text.split("-")[0]);
            assertEquals(List.of(1, (long) input / 100, 3L * input, text.split("-")[1]),
                    List.of(stamp.partition(), stamp.epoch(), stamp.index(), stamp.path()), text);
        });
    }

    @Test
    void otherCodeGivesTheSameOutputTheSameStamp() throws Exception {
        Cut cut = new Cut(2, 50, true);
        Map<String, Stamp> one = run(cut, all -> all.select("value"), Map.of(), "up", INPUTS);
        Map<String, Stamp> other = run(cut, all -> all.where("value % 3 = 0").selectExpr("upper(value) AS value"),
                Map.of("incarnationNumber", "7", "originNumber", "3"), "up", INPUTS / 3);
        other.forEach((text, stamp) -> assertEquals(one.get(text), stamp));
    }

    @Test
    void atTheEdgeStampsComeFromThePosition() throws Exception {
        Map<String, Stamp> stamps = run(new Cut(2, 37, true), StampsTest::exploded,
                Map.of("incarnation", "edge", "incarnationNumber", "7", "originNumber", "3"), null, EXPLODED_OUTPUTS);
        assertEquals(new Stamp("job", "edge.o3", 0, 0, 7, "2", Wire.fingerprint("in/1", "7")), stamps.get("7-2"));
        assertEquals(new Stamp("job", "edge.o3", 0, 0, 239, "0", Wire.fingerprint("in/1", "239")), stamps.get("239-0"));
        assertEquals("derived", mode);
    }

    @Test
    void eachSourceOfAUnionHasStampsOfItsOwn() throws Exception {
        UnaryOperator<Dataset<Row>> union = left -> {
            Dataset<Row> right = spark.readStream().format("mqtt").option("brokerUrl", broker.url())
                    .option("topic", "in/#").option("clientId", "right" + runs).option("quietTime", "500ms").load();
            return left.selectExpr("concat(value, '-0') AS value").union(right.selectExpr("concat(value, '-1') AS value"));
        };
        Topic.session(broker.url(), "right1", "in/#");
        Topic.session(broker.url(), "right2", "in/#");
        Map<String, Stamp> one = run(new Cut(2, 37, true), union, Map.of(), "up", 2 * INPUTS);
        assertEquals("derived", mode);
        assertEquals(2 * INPUTS, one.values().stream().distinct().count());
        Topic.forget(broker.url(), "right2");
        Topic.session(broker.url(), "right2", "in/#");
        assertTrue(one.equals(run(new Cut(1, 100, false), union, Map.of(), "up", 2 * INPUTS)));
    }

    @Test
    void queriesThatShuffleCountAndNameTheirIncarnation() throws Exception {
        Map<String, UnaryOperator<Dataset<Row>>> counted = Map.of(
                "shuffle", all -> all.select("value").repartition(2),
                "state", all -> all.select("value").dropDuplicates("value"),
                "union with itself", all -> all.selectExpr("concat(value, '-0') AS value")
                        .union(all.selectExpr("concat(value, '-1') AS value")));
        spark.conf().set("spark.speck.incarnation", 7); // as a coordinator does
        for (Map.Entry<String, UnaryOperator<Dataset<Row>>> each : counted.entrySet()) {
            Map<String, Stamp> stamps = run(new Cut(2, 100, true), each.getValue(),
                    Map.of("incarnation", "base"), "up", INPUTS);
            assertEquals("counted", mode, each.getKey());
            stamps.values().forEach(stamp -> assertEquals(List.of("base.7", ""), List.of(stamp.run(), stamp.path())));
        }
    }

    /** So SpecK turns adaptive execution off: how many partitions it makes depends on the server and on the sizes. */
    @Test
    void adaptiveExecutionPartitionsAShuffleInAnotherWay() throws Exception {
        Map<Boolean, Long> partitions = new HashMap<>();
        spark.conf().set("spark.sql.shuffle.partitions", 4);
        for (boolean adaptive : List.of(true, false)) {
            spark.conf().set("spark.sql.adaptive.enabled", adaptive);
            Map<String, Stamp> stamps = run(new Cut(2, 1000, true),
                    all -> all.select("value").repartition(new Column("value")), Map.of(), "up", INPUTS);
            partitions.put(adaptive, stamps.values().stream().map(Stamp::partition).distinct().count());
        }
        assertEquals(Map.of(true, 1L, false, 4L), partitions);
    }

    /**
     * A job was rewired to another topic, committed a batch there, and was put back: it goes on at the former topic
     * with higher stamps. Its reader, which follows it to the other topic later, has not seen those of that batch.
     */
    @Test
    void aReaderThatFollowsLaterGetsWhatWasWrittenBeforeTheWriterWasPutBack() throws Exception {
        Map<String, UnaryOperator<Dataset<Row>>> forms = Map.of("derived", all -> all.select("value"),
                "counted", all -> all.select("value").repartition(1));
        for (Map.Entry<String, UnaryOperator<Dataset<Row>>> form : forms.entrySet()) {
            String name = form.getKey();
            for (String session : List.of("source-", "former-", "other-")) {
                Topic.session(broker.url(), session + name, session + name);
            }
            forward(name, form.getValue(), "other-", 0);
            forward(name, form.getValue(), "former-", INPUTS);
            MemoryJournal journal = new MemoryJournal();
            assertEquals(INPUTS, read(name, "former-", journal, 0));
            assertEquals(INPUTS, read(name, "other-", journal, INPUTS));
        }
    }

    private void forward(String name, UnaryOperator<Dataset<Row>> form, String sink, int from) throws Exception {
        Topic.publish(broker.url(), "source-" + name,
                IntStream.range(from, from + INPUTS).mapToObj(Integer::toString).toList());
        form.apply(spark.readStream().format("mqtt").option("brokerUrl", broker.url())
                        .option("topic", "source-" + name).option("clientId", "source-" + name)
                        .option("quietTime", "500ms").load())
                .writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", sink + name)
                .option("job", name).option("checkpointLocation", folder.resolve(name).toString())
                .trigger(Trigger.AvailableNow()).start().awaitTermination();
    }

    /** Reads a topic from a position on, as a job whose state has the journal; returns the number of messages. */
    private long read(String name, String topic, MemoryJournal journal, long start) throws Exception {
        SourceSettings settings = new SourceSettings(Login.anonymous(broker.url()), topic + name, topic + name, 65535,
                1 << 20, null, -1, false, Duration.ofSeconds(30));
        try (MqttSource source = new MqttSource(settings, journal)) {
            source.open(start, start);
            long end = source.await(start + INPUTS, TimeUnit.SECONDS.toNanos(20));
            source.close(start, end, 1);
            source.commit(end);
            return end - start;
        }
    }
}
