package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Topic;
import io.speck.mqtt.writer.WriterProcess;
import java.nio.file.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A query after a power cut of its site, with nothing to write yet. */
@Timeout(180)
class SitePowerCutTest extends SessionCase {
    @AfterEach
    void forgetSpool() {
        spark.conf().unset("spark.speck.spool");
    }

    private void cut() throws Exception {
        Path spool = folder.resolve("spool");
        WriterProcess.flushed(broker.url(), spool, 0, 100).close();
        broker.kill();
        broker.forget();
        broker.start();
        spark.conf().set("spark.speck.spool", spool.toString());
    }

    private DataStreamWriter<Row> noRows() throws Exception {
        Topic.session(broker.url(), "query", "nothing");
        return spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "nothing")
                .option("clientId", "query").load().selectExpr("value").writeStream()
                .option("checkpointLocation", folder.resolve("checkpoint").toString());
    }

    /** Its writer may have been moved away meanwhile, and only the query that reads there is at the site still. */
    @Test
    void aQueryThatReadsThereSendsWhatTheBrokerLost() throws Exception {
        cut();
        try (Topic out = new Topic(broker.url(), "in/#")) {
            StreamingQuery query = noRows().format("noop").start();
            assertEquals(100, out.take(100).size());
            query.stop();
        }
    }

    @Test
    void aQueryWithoutInputSendsWhatTheBrokerLost() throws Exception {
        cut();
        try (Topic out = new Topic(broker.url(), "in/#")) {
            StreamingQuery query = noRows().format("mqtt").option("brokerUrl", broker.url()).option("topic", "out")
                    .option("job", "job").start();
            assertEquals(100, out.take(100).size());
            query.stop();
        }
    }
}
