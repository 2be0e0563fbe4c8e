package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Topic;
import io.speck.spark.mqtt.sql.DecodeToText;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The source of a SQL job gives rows in the place of messages, and leaves out those that do not fit. */
@Timeout(120)
class DecodedMessagesTest extends SessionCase {
    /** {@code SELECT n, s, topic FROM rows WHERE n > 1}, of lines with {@code n: bigint not null, s: string}. */
    private static final String PROGRAM = """
            {"version": 1, "where": ["gt", ["col", 0], ["lit", "bigint", 1]],
             "input": {"format": "csv", "watermark_ms": null, "columns": [
               {"at": 0, "name": "n", "null": false, "type": "bigint", "unit": ""},
               {"at": 1, "name": "s", "null": true, "type": "string", "unit": ""},
               {"at": -1, "name": "topic", "null": false, "type": "string", "unit": ""}]},
             "columns": [["col", 0], ["col", 1], ["col", 2]], "windows": null, "having": null, "select": [],
             "format": "json", "output": [
               {"name": "n", "null": false, "type": "bigint", "unit": ""},
               {"name": "s", "null": true, "type": "string", "unit": ""},
               {"name": "topic", "null": false, "type": "string", "unit": ""}]}""";

    private DataStreamReader reader(Map<String, String> options) {
        return spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "in")
                .option("clientId", "query").option("quietTime", "2s").option("job", "job").options(options);
    }

    @Test
    void aMessageIsDecodedBeforeTheBatchAndByNoTaskAgain() throws Exception {
        Topic.session(broker.url(), "query", "in");
        spark.udf().register("decode", new DecodeToText(), DataTypes.createArrayType(DataTypes.StringType));
        Dataset<Row> rows = reader(Map.of("program", PROGRAM, "decoded", "true", "valueType", "binary", "onError", "park",
                "parkTopic", "parked")).load();
        assertArrayEquals(new String[] {"topic", "row", "timestamp"}, rows.columns());
        Dataset<Row> found = rows.select(functions.explode(functions.call_udf("decode", functions.lit(null).cast("string"),
                functions.col("row"), functions.lit(PROGRAM.getBytes(StandardCharsets.UTF_8)))).as("value"));
        try (Topic out = new Topic(broker.url(), "out"); Topic parked = new Topic(broker.url(), "parked")) {
            Topic.publish(broker.url(), "in", List.of("2,a", "x,b", "1,c", "-3,d", "4", "5,\u00e4\ud83d\ude00", "6,"));
            found.writeStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out").option("job", "job")
                    .option("checkpointLocation", folder.resolve("checkpoint").toString())
                    .trigger(Trigger.AvailableNow()).start().awaitTermination();
            assertEquals(List.of("{\"n\":2,\"s\":\"a\",\"topic\":\"in\"}",
                    "{\"n\":5,\"s\":\"\u00e4\ud83d\ude00\",\"topic\":\"in\"}", "{\"n\":6,\"s\":null,\"topic\":\"in\"}"),
                    out.take(3));
            assertEquals(List.of("x,b", "4"), parked.take(2));
        }
    }

    @Test
    void rowsNeedAProgramAndATreatmentOfMessagesThatDoNotFit() {
        for (Map<String, String> options : List.of(Map.of("decoded", "true"),
                Map.of("decoded", "true", "program", PROGRAM, "valueType", "binary"),
                Map.of("decoded", "true", "onError", "skip", "valueType", "binary"),
                Map.of("decoded", "true", "program", PROGRAM, "onError", "skip"))) {
            Exception fault = assertThrows(Exception.class, () -> reader(options).load());
            assertTrue(fault.toString().contains("option 'decoded' needs"), fault::toString);
        }
    }
}
