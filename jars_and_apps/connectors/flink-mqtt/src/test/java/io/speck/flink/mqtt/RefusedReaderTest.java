package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.Mosquitto;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A job whose password is changed at its broker, in a real Flink with the restarts that SpecK asks for. */
class RefusedReaderTest {
    private static final String LIMIT = "speck.source.refusedSeconds";
    private static final Map<String, String> RESTARTS = Map.of("restart-strategy.type", "failure-rate",
            "restart-strategy.failure-rate.max-failures-per-interval", "3",
            "restart-strategy.failure-rate.failure-rate-interval", "1 min",
            "restart-strategy.failure-rate.delay", "1 s");

    private static void setPassword(Path file, String password) throws Exception {
        Process made = new ProcessBuilder("mosquitto_passwd", "-b", "-c", file.toString(), "reader", password)
                .redirectErrorStream(true).start();
        assertEquals(0, made.waitFor());
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
    }

    @Test
    @Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void aJobThatItsBrokerRefusesFails(@TempDir Path files, @TempDir Path folder) throws Exception {
        Path passwords = folder.resolve("passwords");
        setPassword(passwords, "first");
        System.setProperty(LIMIT, "1");
        Cluster cluster = new Cluster(files);
        try (Mosquitto broker = Mosquitto.start(folder, "allow_anonymous false", "password_file " + passwords);
                CuttingProxy proxy = new CuttingProxy(broker.port())) {
            StreamExecutionEnvironment environment = Cluster.environment(3_600_000, null);
            environment.configure(Configuration.fromMap(RESTARTS));
            environment.fromSource(FlinkMqttSource.texts().broker(proxy.url()).login("reader", "first").topic("in")
                            .clientId("job").build(), WatermarkStrategy.noWatermarks(), "in")
                    .print();
            JobID job = cluster.run(environment);
            cluster.awaitConnected(job);
            setPassword(passwords, "second");
            broker.reload();
            proxy.cut();
            String failure = cluster.failure(job);
            assertTrue(failure.contains("refuses client 'job'"), failure);
        } finally {
            System.clearProperty(LIMIT);
            cluster.close();
        }
    }
}
