package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Await;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.Topic;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Queries of a local Spark, against a real Mosquitto. */
@Timeout(120)
class MqttQueryTest extends SessionCase {
    @AfterEach
    void stop() throws Exception {
        for (StreamingQuery query : spark.streams().active()) {
            query.stop();
        }
    }

    private DataStreamReader reader() {
        return spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "in/#")
                .option("clientId", "query").option("idleWait", "200ms");
    }

    private DataStreamWriter<Row> writer(Dataset<Row> rows) {
        return rows.writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out")
                .option("checkpointLocation", folder.resolve("checkpoint").toString());
    }

    private static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toList();
    }

    private void awaitConnected(StreamingQuery query) {
        Await.until("connected", () -> {
            assertTrue(query.isActive(), () -> String.valueOf(query.exception()));
            return progress(query, "connected").contains("true");
        });
    }

    private static List<String> progress(StreamingQuery query, String metric) {
        return Arrays.stream(query.recentProgress()).map(each -> each.sources()[0].metrics().get(metric)).toList();
    }

    @Test
    void aMapKeepsOrderAndContinuesAfterAStop() throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery query = map();
            awaitConnected(query);
            Topic.publish(broker.url(), "in/a", numbers(0, 3000));
            List<String> expected = new ArrayList<>(numbers(0, 3000).stream().map(each -> "in/a:" + each).toList());
            assertEquals(expected, out.take(3000));
            query.stop();
            Topic.publish(broker.url(), "in/b", numbers(0, 100));
            StreamingQuery again = map();
            expected.addAll(numbers(0, 100).stream().map(each -> "in/b:" + each).toList());
            assertEquals(expected, out.take(3100));
            again.stop();
            assertEquals(3100, out.all().size());
        }
    }

    /** Uses one partition, since several are written concurrently. */
    private StreamingQuery map() throws Exception {
        return writer(reader().option("partitions", 1).load().selectExpr("concat(topic, ':', value) AS value"))
                .option("job", "map").option("order", "input").start();
    }

    @Test
    void resultsAreRetainedForReadersThatComeLater() throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery query = writer(reader().option("partitions", 1).load().selectExpr("value"))
                    .option("job", "map").option("retain", "true").start();
            awaitConnected(query);
            Topic.publish(broker.url(), "in/a", List.of("1", "2"));
            out.take(2);
            try (Topic late = new Topic(broker.url(), "+")) {
                assertEquals(List.of("2"), late.take(1));
            }
            query.stop();
        }
    }

    @Test
    void aStampOfElevenThousandEmojiStopsNoQuery() throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery query = map();
            awaitConnected(query);
            Topic.publishStamped(broker.url(), "in/a", "\ud83d\ude00".repeat(11_000), "r/0/0/0", "1");
            assertEquals(List.of("in/a:1"), out.take(1));
            Topic.publishStamped(broker.url(), "in/a", "job", "r/0/0/0", "2");
            assertEquals(List.of("in/a:1", "in/a:2"), out.take(2));
            query.stop();
            StreamingQuery again = map();
            Topic.publishStamped(broker.url(), "in/a", "job", "r/0/0/0", "2");
            Topic.publishStamped(broker.url(), "in/a", "job", "r/0/0/1", "3");
            assertEquals(List.of("in/a:1", "in/a:2", "in/a:3"), out.take(3));
            again.stop();
        }
    }

    @Test
    void theLastBatchIsAcknowledgedAtTheStop() throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            for (int round = 0; round < 2; round++) {
                StreamingQuery query = stateless(round);
                awaitConnected(query);
                List<String> expected = numbers(0, 10 * round + 10);
                Topic.publish(broker.url(), "in/a", numbers(10 * round, 10 * round + 10));
                Await.until("batch " + round, () -> out.all().size() >= expected.size());
                Await.until("its commit", () -> Arrays.stream(query.recentProgress())
                        .mapToLong(each -> each.numInputRows()).sum() == 10);
                query.stop();
                assertEquals(expected, out.all());
            }
        }
    }

    /** Each starts without the checkpoint of the one before, and takes its next batch long after the last. */
    private StreamingQuery stateless(int round) throws Exception {
        return reader().option("partitions", 1).load().selectExpr("value")
                .writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out")
                .option("checkpointLocation", folder.resolve("stateless-" + round).toString())
                .option("job", "stateless").option("order", "input")
                .trigger(Trigger.ProcessingTime("6 seconds")).start();
    }

    @Test
    void updateAndCompleteModesWrite() throws Exception {
        for (String mode : List.of("update", "complete")) {
            try (Topic out = new Topic(broker.url(), "out-" + mode)) {
                StreamingQuery query = reader().option("clientId", mode).load().groupBy("value").count()
                        .selectExpr("value AS key", "concat(value, '=', count) AS value")
                        .writeStream().format("mqtt").outputMode(mode).option("brokerUrl", broker.url())
                        .option("topic", "out-" + mode).option("job", mode)
                        .option("checkpointLocation", folder.resolve(mode).toString()).start();
                awaitConnected(query);
                Topic.publish(broker.url(), "in/a", List.of("x", "y", "x"));
                Await.until("counts", () -> out.all().containsAll(List.of("x=2", "y=1")));
                query.stop();
            }
        }
    }

    @Test
    void availableNowTakesAllThereIsInLimitedBatches() throws Exception {
        StreamingQuery first = available(10);
        Topic.publish(broker.url(), "in/a", numbers(0, 25));
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery second = available(10);
            assertEquals(numbers(0, 25), out.take(25));
            List<Long> rows = Arrays.stream(second.recentProgress()).map(StreamingQueryProgress::numInputRows)
                    .filter(each -> each > 0).toList();
            assertEquals(List.of(10L, 10L, 5L), rows);
        }
        assertEquals(0, Arrays.stream(first.recentProgress()).mapToLong(StreamingQueryProgress::numInputRows).sum());
    }

    private StreamingQuery available(int limit) throws Exception {
        StreamingQuery query = writer(reader().option("maxRowsPerBatch", limit).option("quietTime", "500ms").load()
                .selectExpr("value")).trigger(Trigger.AvailableNow()).start();
        query.awaitTermination();
        return query;
    }

    @Test
    void aBatchIsWritten() throws Exception {
        try (Topic out = new Topic(broker.url(), "one")) {
            spark.range(100).selectExpr("cast(id AS STRING) AS value", "'one' AS topic").coalesce(1)
                    .write().format("mqtt").mode("append").option("brokerUrl", broker.url()).save();
            assertEquals(numbers(0, 100), out.take(100));
        }
    }

    @Test
    void bytesPassUnchangedAndBrokenTextIsMended() throws Exception {
        StreamingQuery query = reader().option("valueType", "binary").load().selectExpr("hex(value) AS value")
                .writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out")
                .option("checkpointLocation", folder.resolve("binary").toString()).start();
        try (Topic out = new Topic(broker.url(), "out")) {
            awaitConnected(query);
            Topic.publish(broker.url(), "in/a", List.of("\u0000é"));
            assertEquals(List.of("00C3A9"), out.take(1));
        }
    }

    @Test
    void aTakeoverEndsTheQueryAndSaysSo() throws Exception {
        fence(1);
        StreamingQuery query = writer(fenced(1).load()).start();
        awaitConnected(query);
        fence(2);
        StreamingQuery newer = fenced(2).load().writeStream().format("noop")
                .option("checkpointLocation", folder.resolve("newer").toString()).start();
        StreamingQueryException end = assertThrows(StreamingQueryException.class, () -> query.awaitTermination(60_000));
        assertTrue(causes(end).stream().anyMatch(TakenOverException.class::isInstance), end::toString);
        assertTrue(end.getMessage().contains("taken over by attempt 2"), end::getMessage);
        newer.stop();
    }

    private DataStreamReader fenced(int attempt) {
        return reader().option("fenceTopic", "fence").option("attempt", attempt);
    }

    private void fence(int attempt) throws Exception {
        Topic.retain(broker.url(), "fence", "{\"attempt\": " + attempt + "}");
    }

    private static List<Throwable> causes(Throwable error) {
        List<Throwable> causes = new ArrayList<>();
        for (Throwable each = error; each != null; each = each.getCause()) {
            causes.add(each);
        }
        return causes;
    }

    /** Starts a query at another session, as a rewire does, after one that was stopped in the midst of a batch. */
    @Test
    void aBatchBrokenOffIsCompletedFromTheSessionThatWasLeft() throws Exception {
        BROKEN_OFF.set(true);
        spark.udf().register("broken", (UDF1<String, String>) MqttQueryTest::blocked, DataTypes.StringType);
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery query = rewired("speck-a", "in/a", 1);
            awaitConnected(query);
            Topic.publish(broker.url(), "in/a", numbers(0, 500));
            Await.until("in the midst of a batch", () -> IN_BATCH.get() > 0);
            query.stop();
            BROKEN_OFF.set(false);
            Topic.session(broker.url(), "speck-b", "in/b");
            Topic.publish(broker.url(), "in/b", numbers(500, 600));
            StreamingQuery again = rewired("speck-b", "in/b", 2);
            Await.until("what the other session holds", () -> out.all().containsAll(numbers(500, 600)));
            int broken = out.all().size() - 100;
            assertTrue(broken > 0);
            assertEquals(numbers(0, broken), out.all().subList(0, broken));
            Await.until("nothing lost", () -> progress(again, "lostMessages").contains("0"));
            again.stop();
            assertEquals(numbers(broken, 500), Topic.drain(broker.url(), "speck-a", "in/a"));
        }
    }

    private static final AtomicBoolean BROKEN_OFF = new AtomicBoolean();
    private static final AtomicInteger IN_BATCH = new AtomicInteger();

    private static String blocked(String value) throws InterruptedException {
        while (BROKEN_OFF.get()) {
            IN_BATCH.incrementAndGet();
            TimeUnit.MILLISECONDS.sleep(50);
        }
        return value;
    }

    private StreamingQuery rewired(String session, String topic, int attempt) throws Exception {
        return writer(reader().option("clientId", session).option("topic", topic).option("partitions", 1)
                .option("fenceTopic", "speck/fence/" + session).option("attempt", attempt)
                .option("failOnDataLoss", false).load().selectExpr("broken(value) AS value"))
                .option("job", "map").option("order", "input").start();
    }

    @Test
    void allFaultsOfTheOptionsAreNamedAtOnce() {
        Exception fault = assertThrows(Exception.class, () -> spark.readStream().format("mqtt")
                .options(Map.of("brokerURL", "tcp:/x", "clientid", "c", "topik", "a", "receiveMaximum", "70000",
                        "attempt", "1", "maxDelay", "soon"))
                .load());
        String all = causes(fault).toString();
        for (String part : List.of("'tcp:/x' is not a broker address", "'topik' (did you mean 'topic'?)",
                "'topic' is missing", "'70000' (expected a whole number from 1 to 65535)",
                "'fenceTopic' and 'attempt' belong together", "'soon' (expected a duration")) {
            assertTrue(all.contains(part), () -> part + " is not in " + all);
        }
    }

    @Test
    void aSchemaWithoutValueIsRefused() {
        Exception fault = assertThrows(Exception.class, () -> spark.range(1).write().format("mqtt").mode("append")
                .option("brokerUrl", broker.url()).save());
        assertTrue(causes(fault).toString().contains("no column 'value'"), fault::toString);
    }

    @Test
    void anIdleQueryStopsAtOnceAndKeepsNothing() throws Exception {
        StreamingQuery query = writer(reader().option("idleWait", "60s").load().select("value")).start();
        try (Topic out = new Topic(broker.url(), "out")) {
            Await.until("x", () -> {
                Topic.publish(broker.url(), "in/a", List.of("x"));
                return out.all().contains("x");
            });
            Await.until("waits", () -> query.status().message().startsWith("Getting offsets")
                    || query.status().message().startsWith("Waiting"));
            query.stop();
            assertTrue(query.exception().isEmpty());
            StreamingQuery again = writer(reader().load().select("value")).start();
            Topic.publish(broker.url(), "in/a", List.of("y"));
            Await.until("y", () -> out.all().contains("y"));
            assertEquals(1, out.all().stream().filter("y"::equals).count());
            again.stop();
        }
    }
}
