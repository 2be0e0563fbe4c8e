package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Topic;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Contents that are not text: passed on unchanged by queries that do not read them, and an error of those that do. */
@Timeout(180)
class BytesTest extends SessionCase {
    /** Two texts, one of them empty; NUL with 0xFF; a sequence that is cut off; a half of a surrogate pair. */
    private static final List<String> CONTENTS = List.of("6f6b", "", "00ff", "4fe282", "eda080");
    private static final List<String> TEXTS = List.of("6f6b", "");

    @BeforeEach
    void start() throws Exception {
        Topic.session(broker.url(), "query", "in");
    }

    @AfterEach
    void stop() throws Exception {
        for (StreamingQuery query : spark.streams().active()) {
            query.stop();
        }
    }

    private Dataset<Row> messages(Map<String, String> options) {
        return spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "in")
                .option("clientId", "query").option("idleWait", "200ms").option("job", "job").options(options).load();
    }

    private DataStreamWriter<Row> write(Dataset<Row> rows) {
        return rows.writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out")
                .option("job", "job").option("checkpointLocation", folder.resolve("checkpoint").toString());
    }

    private static Dataset<Row> queried(Dataset<Row> messages, String sql) {
        messages.createOrReplaceTempView("m");
        return spark.sql(sql);
    }

    private void passed(UnaryOperator<Dataset<Row>> code, Map<String, String> options, List<String> expected)
            throws Exception {
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery query = write(code.apply(messages(options))).start();
            Topic.publishHex(broker.url(), "in", CONTENTS);
            query.processAllAvailable();
            assertEquals(new TreeSet<>(expected), new TreeSet<>(out.takeHex(expected.size())));
            assertEquals(expected.size(), out.all().size());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"SELECT value FROM m", "SELECT other AS value FROM (SELECT value AS other FROM m)",
            "SELECT CAST(value AS BINARY) AS value FROM m", "SELECT CAST(CAST(value AS BINARY) AS STRING) AS value FROM m",
            "SELECT unhex(hex(b)) AS value FROM (SELECT CAST(value AS BINARY) AS b FROM m)",
            "SELECT CAST(value AS STRING) AS value FROM m",
            "SELECT value FROM (SELECT *, length(topic) AS size FROM m) WHERE size > 0 AND value IS NOT NULL"})
    void contentsThatAreNotReadPassUnchanged(String sql) throws Exception {
        passed(rows -> queried(rows, sql), Map.of(), CONTENTS);
    }

    @Test
    void unionsAndShufflesPassThemUnchanged() throws Exception {
        passed(rows -> rows.select("value").repartition(2).union(messages(Map.of("clientId", "other")).select("value")),
                Map.of(), CONTENTS);
    }

    @Test
    void aColumnOfBytesIsNeverChecked() throws Exception {
        passed(rows -> rows.selectExpr("concat(value, X'') AS value"), Map.of("valueType", "binary"), CONTENTS);
    }

    @ParameterizedTest
    @ValueSource(strings = {"concat(value, '') AS value", "substr(value, 1) AS value",
            "CASE WHEN value = 'x' THEN 'y' ELSE value END AS value", "value, value AS key",
            "CAST(trim(value) AS BINARY) AS value"})
    void otherContentsAreParkedUnchangedWhereTextsAreRead(String columns) throws Exception {
        try (Topic parked = new Topic(broker.url(), "parked")) {
            passed(rows -> queried(rows, "SELECT " + columns + " FROM m"), Map.of("onError", "park", "parkTopic", "parked"),
                    TEXTS);
            assertEquals(new TreeSet<>(CONTENTS.subList(2, 5)), new TreeSet<>(parked.takeHex(3)));
            assertEquals(3, parked.all().size());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"WITH t AS (SELECT value FROM m) SELECT upper(value) AS value FROM t",
            "SELECT upper(CAST(b AS STRING)) AS value FROM (SELECT CAST(value AS BINARY) AS b FROM m)",
            "SELECT value FROM m GROUP BY value",
            "SELECT upper(v) AS value FROM (SELECT value AS v FROM m UNION ALL SELECT topic FROM m)"})
    void aUseBehindAnotherNameIsSeen(String sql) throws Exception {
        StreamingQuery query = write(queried(messages(Map.of()), sql)).outputMode("update").start();
        Topic.publishHex(broker.url(), "in", List.of("ff"));
        StreamingQueryException failure = assertThrows(StreamingQueryException.class, query::processAllAvailable);
        assertTrue(failure.getMessage().contains("is not text: byte 0xFF at position 0 of 1"), failure::getMessage);
    }

    @Test
    void theMessageIsNamedByTheError() throws Exception {
        StreamingQuery query = write(messages(Map.of()).selectExpr("upper(value) AS value")).start();
        Topic.publishHex(broker.url(), "in", CONTENTS);
        StreamingQueryException failure = assertThrows(StreamingQueryException.class, query::processAllAvailable);
        assertTrue(failure.getMessage().contains("message 2 of topic 'in' is not text: byte 0xFF at position 1 of 2"),
                failure::getMessage);
    }

    @Test
    void inRealTimeTheyPassAndFailAlike() throws Exception {
        spark.conf().set("spark.sql.streaming.realTimeMode.allowlistCheck", false);
        spark.conf().set("spark.sql.streaming.realTimeMode.minBatchDuration", "1s");
        Trigger trigger = Trigger.RealTime("60 seconds");
        try (Topic out = new Topic(broker.url(), "out")) {
            StreamingQuery query = write(messages(Map.of("partitions", "1")).select("value")).outputMode("update")
                    .trigger(trigger).start();
            Topic.publishHex(broker.url(), "in", CONTENTS);
            assertEquals(CONTENTS, out.takeHex(5));
            query.stop();
        }
        StreamingQuery query = write(messages(Map.of("partitions", "1")).selectExpr("upper(value) AS value"))
                .outputMode("update").trigger(trigger).start();
        Topic.publishHex(broker.url(), "in", CONTENTS);
        StreamingQueryException failure = assertThrows(StreamingQueryException.class, () -> query.awaitTermination(60_000));
        assertTrue(failure.getMessage().contains("topic 'in' is not text: byte 0xFF at position 1 of 2"), failure::getMessage);
    }
}
