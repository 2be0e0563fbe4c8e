package io.speck.spark.mqtt;

import org.apache.spark.sql.SparkSession;

/**
 * A program for the kill test: two queries in one process, forwarding "in" to "middle" with stamps, and counting both
 * with state. Arguments: address of the broker, folder of the checkpoints.
 */
public final class CountingQuery {
    private CountingQuery() {}

    public static void main(String[] arguments) throws Exception {
        SparkSession spark = Sessions.local();
        String folder = arguments[1];
        spark.readStream().format("mqtt").option("brokerUrl", arguments[0]).option("topic", "in")
                .option("clientId", "forward").load().selectExpr("value").writeStream().format("mqtt")
                .option("brokerUrl", arguments[0]).option("topic", "middle").option("job", "forward").option("order", "input")
                .option("checkpointLocation", folder + "/forward").start();
        count(spark, arguments[0], "in", folder);
        count(spark, arguments[0], "middle", folder);
        spark.streams().awaitAnyTermination();
    }

    private static void count(SparkSession spark, String broker, String topic, String folder) throws Exception {
        spark.readStream().format("mqtt").option("brokerUrl", broker).option("topic", topic)
                .option("clientId", "count-" + topic).load().groupBy("value").count()
                .selectExpr("concat(value, '=', count) AS value").writeStream().format("mqtt").outputMode("update")
                .option("brokerUrl", broker).option("topic", "counts-" + topic).option("job", "count-" + topic)
                .option("checkpointLocation", folder + "/count-" + topic).start();
    }
}
