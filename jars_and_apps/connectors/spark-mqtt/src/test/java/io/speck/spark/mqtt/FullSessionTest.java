package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.Await;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.Topic;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Queries on a server with two task slots, one of which fills the session of the other, or has its broker away. */
@Timeout(120)
class FullSessionTest extends SessionCase {
    private static final int MESSAGES = 2000;
    private static final int BYTES = 1000;
    private static final String LIMIT = "speck.sink.brokerMegabytes";

    /** A broker that keeps 3 MB for each session, whose writers wait when it stores 1 MB. */
    @BeforeEach
    @Override
    void startBroker() throws IOException {
        broker = Mosquitto.shipped(folder, "max_queued_bytes 3000000");
        System.setProperty(LIMIT, "1");
    }

    @AfterEach
    void stop() throws Exception {
        System.clearProperty(LIMIT);
        for (StreamingQuery query : spark.streams().active()) {
            query.stop();
        }
    }

    /** Two tasks, so as many as there are slots. */
    private StreamingQuery query(String name, String from, String to, String value) throws Exception {
        return query(name, from, broker.url(), to, value);
    }

    private StreamingQuery query(String name, String from, String sink, String to, String value) throws Exception {
        Dataset<Row> rows = spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", from)
                .option("clientId", name).option("idleWait", "200ms").option("partitions", 2).load();
        return rows.selectExpr(value + " AS value").writeStream().format("mqtt").option("brokerUrl", sink)
                .option("topic", to).option("job", name).option("flushTimeout", "10min")
                .option("checkpointLocation", folder.resolve(name).toString()).start();
    }

    private StreamingQuery filler() throws Exception {
        return query("filler", "in", "between", "rpad(value, " + BYTES + ", ' ')");
    }

    private StreamingQuery reader() throws Exception {
        return query("reader", "between", "out", "trim(value)");
    }

    private void fill() throws Exception {
        Topic.session(broker.url(), "reader", "between");
        Topic.retain(broker.url(), "speck/session/reader", "{\"topics\": [\"between\"]}");
        Topic.session(broker.url(), "filler", "in");
        long before = SinkMetrics.of("filler").throttledMillis();
        Topic.publish(broker.url(), "in", IntStream.range(0, MESSAGES).mapToObj(Integer::toString).toList());
        StreamingQuery filling = filler();
        Await.until("it waits", () -> {
            assertTrue(filling.isActive(), () -> String.valueOf(filling.exception()));
            return SinkMetrics.of("filler").throttledMillis() > before;
        });
    }

    private static void assertAll(List<String> texts) {
        List<Integer> numbers = texts.stream().map(Integer::parseInt).sorted().toList();
        assertEquals(IntStream.range(0, MESSAGES).boxed().toList(), numbers);
    }

    @Test
    void aWaitingWriterLeavesTheSlotsToTheReader() throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            fill();
            reader();
            assertAll(out.take(MESSAGES));
        }
    }

    @Test
    void aWriterWhoseBrokerIsAwayLeavesTheSlotsToOthers() throws Exception {
        Topic.session(broker.url(), "stranded", "in");
        Topic.session(broker.url(), "reader", "between");
        try (Mosquitto far = Mosquitto.start(folder.resolve("far")); Topic out = new Topic(broker.url(), "out")) {
            Topic.session(far.url(), "collector-far", "far");
            far.stop();
            Topic.publish(broker.url(), "in", List.of("0", "1"));
            StreamingQuery stranded = query("stranded", "in", far.url(), "far", "value");
            Await.until("its tasks run", () -> spark.sparkContext().statusTracker().getActiveStageIds().length > 0);
            reader();
            Topic.publish(broker.url(), "between", List.of("2"));
            assertEquals(List.of("2"), out.take(1));
            assertTrue(stranded.isActive(), () -> String.valueOf(stranded.exception()));
            far.start();
            try (Topic arrived = new Topic(far.url(), "far")) {
                assertEquals(List.of("0", "1"), arrived.take(2).stream().sorted().toList());
            }
        }
    }

    @Test
    void aWriterWhoseKafkaIsAwayLeavesTheSlotsToOthers() throws Exception {
        Topic.session(broker.url(), "stranded", "in");
        Topic.session(broker.url(), "reader", "between");
        try (Topic out = new Topic(broker.url(), "out")) {
            Topic.publish(broker.url(), "in", List.of("0", "1"));
            StreamingQuery stranded = query("stranded", "in", "kafka://127.0.0.1:1", "far", "value");
            Await.until("its tasks run", () -> spark.sparkContext().statusTracker().getActiveStageIds().length > 0);
            reader();
            Topic.publish(broker.url(), "between", List.of("2"));
            assertEquals(List.of("2"), out.take(1));
            assertTrue(stranded.isActive(), () -> String.valueOf(stranded.exception()));
        }
    }

    @Test
    void aWriterThatIsStoppedWhileItWaitsGoesOnWithItsBatch() throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            fill();
            StreamingQuery waiting = Arrays.stream(spark.streams().active()).findFirst().orElseThrow();
            waiting.stop();
            assertTrue(waiting.exception().isEmpty(), () -> String.valueOf(waiting.exception()));
            filler();
            reader();
            assertAll(out.take(MESSAGES));
        }
    }
}
