package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.Topic;
import io.speck.mqtt.writer.WriterProcess;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A job after a power cut of its site, whose broker had not saved all messages. */
@Timeout(180)
class SitePowerCutTest extends ClusterCase {
    /** Their writer may have been moved away meanwhile, and only the job that reads there is at the site still. */
    @Test
    void aJobThatReadsThereSendsWhatTheBrokerLost() throws Exception {
        Path spool = folder.resolve("spool");
        WriterProcess.flushed(broker.url(), spool, 0, 100).close();
        broker.kill();
        broker.forget();
        broker.start();
        try (Mosquitto elsewhere = Mosquitto.start(Files.createDirectory(folder.resolve("elsewhere")));
                Topic in = new Topic(broker.url(), "in/#")) {
            StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
            environment.configure(Configuration.fromMap(Map.of("speck.spool", spool.toString())));
            MqttJob job = MqttJob.of(environment, new String[] {"--job-name", "job", "--source-broker", broker.url(),
                "--source-topic", "nothing", "--sink-broker", elsewhere.url(), "--sink-topic", "out"});
            job.write(job.texts());
            job.ready();
            JobID started = cluster.run(environment);
            assertEquals(100, in.take(100).size());
            cluster.cancel(started);
        }
    }
}
