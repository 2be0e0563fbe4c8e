package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Await;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.stamp.Stamp;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Queries in real-time mode, in which a batch has no end until it is over. */
@Timeout(120)
class RealTimeTest extends SessionCase {
    private static final Trigger LONG_BATCHES = Trigger.RealTime("60 seconds");

    @BeforeEach
    void allow() {
        spark.conf().set("spark.sql.streaming.realTimeMode.allowlistCheck", false);
        spark.conf().set("spark.sql.streaming.realTimeMode.minBatchDuration", "1s");
    }

    @AfterEach
    void stop() throws Exception {
        for (StreamingQuery query : spark.streams().active()) {
            query.stop();
        }
    }

    private DataStreamReader reader() {
        return spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "in/#")
                .option("clientId", "query").option("partitions", 1);
    }

    private StreamingQuery start(Dataset<Row> rows, Trigger trigger, String checkpoint) throws Exception {
        return rows.writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out")
                .option("checkpointLocation", folder.resolve(checkpoint).toString()).option("job", "job")
                .outputMode("update").trigger(trigger).start();
    }

    private StreamingQuery start(Trigger trigger) throws Exception {
        return start(reader().load().selectExpr("value"), trigger, "checkpoint");
    }

    /** Starts a query with a treatment of errors. */
    private StreamingQuery treated(String expression, Map<String, String> options) throws Exception {
        return start(reader().options(options).option("job", "job").load().selectExpr(expression), LONG_BATCHES, "checkpoint");
    }

    private static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toList();
    }

    private static void publish(String url, int from, int to) throws Exception {
        Topic.publish(url, "in/a", numbers(from, to));
    }

    private static void awaitBatches(StreamingQuery query, int count) {
        Await.until(count + " batches", () -> {
            assertTrue(query.isActive(), () -> String.valueOf(query.exception()));
            return query.recentProgress().length >= count;
        });
    }

    private static void hold(StreamingQuery query) throws Exception {
        String run = query.runId().toString();
        Await.until("held", () -> RealTimeFeeds.hold(run).equals("held"));
        query.stop();
    }

    private static List<String> texts(List<Wire.Published> published) {
        return published.stream().map(Wire.Published::text).toList();
    }

    /** Each text, in the order of its first copy, of which all must have one stamp. */
    private static List<String> distinct(List<Wire.Published> published) {
        Map<Stamp, String> stamps = new HashMap<>();
        for (Wire.Published each : published) {
            String other = stamps.putIfAbsent(each.stamp(), each.text());
            assertTrue(other == null || other.equals(each.text()), () -> each + " and " + other);
        }
        assertEquals(stamps.size(), published.stream().map(Wire.Published::text).distinct().count());
        return published.stream().map(Wire.Published::text).distinct().toList();
    }

    @Test
    void messagesPassInOrderBeforeTheirBatchEnds() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Wire out = new Wire(broker.url(), "out")) {
            StreamingQuery query = start(LONG_BATCHES);
            awaitBatches(query, 1); // which ends with the first pause
            publish(broker.url(), 0, 500);
            assertEquals(numbers(0, 500), texts(out.take(500)));
            assertEquals(1, query.recentProgress().length);
            assertEquals("derived", query.lastProgress().sink().metrics().get("stamps"));
        }
    }

    @Test
    void batchesEndEarlyWithoutALossOrRepetition() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Wire out = new Wire(broker.url(), "out")) {
            StreamingQuery query = start(reader().option("maxRowsPerBatch", 37).load().selectExpr("value"), LONG_BATCHES,
                    "checkpoint");
            publish(broker.url(), 0, 1000);
            assertEquals(numbers(0, 1000), texts(out.take(1000)));
            awaitBatches(query, 1000 / 37);
            hold(query);
            assertEquals(1000, out.seen().size());
        }
    }

    @Test
    void aBatchThatIsInterruptedComesAgainUnderItsStamps() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Wire out = new Wire(broker.url(), "out")) {
            StreamingQuery query = start(LONG_BATCHES);
            awaitBatches(query, 1);
            publish(broker.url(), 0, 300);
            out.take(300);
            query.stop();
            StreamingQuery again = start(LONG_BATCHES);
            awaitBatches(again, 1);
            publish(broker.url(), 300, 600);
            Await.until("all", () -> out.seen().stream().map(Wire.Published::text).distinct().count() == 600);
            hold(again);
            assertTrue(out.seen().size() >= 900, "the batch was not repeated");
            assertEquals(numbers(0, 600), distinct(out.seen()));
        }
    }

    @Test
    void whatIsHeldIsCommittedAndTheRestComesNext() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Wire out = new Wire(broker.url(), "out")) {
            StreamingQuery query = start(LONG_BATCHES);
            awaitBatches(query, 1);
            publish(broker.url(), 0, 100);
            out.take(100);
            String run = query.runId().toString();
            Await.until("held", () -> RealTimeFeeds.hold(run).equals("held"));
            publish(broker.url(), 100, 150);
            query.stop();
            assertEquals("unknown", RealTimeFeeds.hold(run));
            StreamingQuery batches = start(Trigger.ProcessingTime(0));
            out.take(150);
            Await.until("commit", () -> batches.status().message().startsWith("Getting offsets"));
            batches.stop();
            publish(broker.url(), 150, 200);
            StreamingQuery again = start(LONG_BATCHES);
            out.take(200);
            hold(again);
            assertEquals(numbers(0, 200), texts(out.seen()));
        }
    }

    @Test
    void aMicroBatchThatWasInterruptedGoesOnInRealTime() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Wire out = new Wire(broker.url(), "out")) {
            publish(broker.url(), 0, 100);
            Dataset<Row> failing = reader().load().selectExpr(
                    "CASE WHEN value = '50' THEN raise_error('broken') ELSE value END AS value");
            StreamingQuery query = start(failing, Trigger.ProcessingTime(0), "checkpoint");
            assertThrows(StreamingQueryException.class, query::awaitTermination);
            StreamingQuery again = start(LONG_BATCHES);
            publish(broker.url(), 100, 200);
            Await.until("all", () -> out.seen().stream().map(Wire.Published::text).distinct().count() == 200);
            hold(again);
            assertEquals(numbers(0, 200), distinct(out.seen()));
        }
    }

    @Test
    void anUnfinishedCommitOfTheFirstBatchDoesNotStopTheQuery() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        Path commits = Files.createDirectories(folder.resolve("checkpoint/commits"));
        Files.writeString(commits.resolve(".0.2af2b31e-7b5e-45a4-afc0-2b0c101ac2c4.tmp"), "");
        try (Wire out = new Wire(broker.url(), "out")) {
            StreamingQuery query = start(LONG_BATCHES);
            awaitBatches(query, 1);
            publish(broker.url(), 0, 10);
            assertEquals(numbers(0, 10), texts(out.take(10)));
        }
    }

    @Test
    void aDrainMarkerEndsTheBatch() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Topic out = new Topic(broker.url(), "out");
                Topic answers = new Topic(broker.url(), "speck/drained/query")) {
            StreamingQuery query = start(reader().option("fenceTopic", "speck/fence/query").option("attempt", 1).load()
                    .selectExpr("value"), LONG_BATCHES, "checkpoint");
            awaitBatches(query, 1);
            publish(broker.url(), 0, 10);
            Topic.publish(broker.url(), "speck/drain/query", List.of("now"));
            assertEquals(List.of("now"), answers.take(1));
            assertEquals(numbers(0, 10), out.take(10));
            assertEquals(2, query.recentProgress().length);
        }
    }

    @Test
    void severalPartitionsShareTheMessages() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        try (Wire out = new Wire(broker.url(), "out")) {
            StreamingQuery query = start(reader().option("partitions", 2).option("maxRowsPerBatch", 100).load()
                    .selectExpr("value"), LONG_BATCHES, "checkpoint");
            publish(broker.url(), 0, 1000);
            out.take(1000);
            hold(query);
            assertEquals(1000, distinct(out.seen()).size());
            assertEquals(1000, out.seen().size());
        }
    }

    @Test
    void aMessageOnWhichTheQueryFailedTwiceIsParkedAndAllOthersHaveOneName() throws Exception {
        Topic.session(broker.url(), "query", "in/#");
        Map<String, String> park = Map.of("onError", "park", "parkTopic", "parked", "username", "reader");
        String failing = "CASE WHEN value IN ('50', '70') THEN raise_error('broken') ELSE value END AS value";
        try (Wire out = new Wire(broker.url(), "out"); Topic parked = new Topic(broker.url(), "parked")) {
            publish(broker.url(), 0, 100);
            for (int failures = 0; failures < 4; failures++) {
                assertThrows(StreamingQueryException.class, treated(failing, park)::awaitTermination);
            }
            StreamingQuery query = treated(failing, park);
            awaitBatches(query, 1);
            publish(broker.url(), 100, 200);
            Await.until("all", () -> out.seen().stream().map(Wire.Published::text).distinct().count() == 198);
            hold(query);
            List<String> sound = new ArrayList<>(numbers(0, 200));
            sound.removeAll(List.of("50", "70"));
            assertEquals(sound, distinct(out.seen()));
            Await.until("parked", () -> Set.copyOf(parked.all()).equals(Set.of("50", "70")));
            try (Stream<Path> left = Files.list(folder.resolve("checkpoint/sources/0/mqtt-failures"))) {
                assertEquals(List.of(), left.toList());
            }
        }
    }

    @Test
    void otherPlansAreRefused() throws Exception {
        StreamingQuery query = start(reader().load().groupBy("value").count()
                .selectExpr("concat(value, '=', count) AS value"), LONG_BATCHES, "checkpoint");
        assertThrows(StreamingQueryException.class, query::awaitTermination);
    }
}
