package io.speck.flink.mqtt;

import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.Topic;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A Flink for the tests of a class, and for each test a Mosquitto with the session of client {@code job} at {@code in}. */
abstract class ClusterCase {
    static final long NEVER = 3_600_000;
    static final long OFTEN = 100;

    @TempDir
    static Path files;
    static Cluster cluster;

    @TempDir
    Path folder;
    Mosquitto broker;

    @BeforeAll
    static void startCluster() throws Exception {
        cluster = new Cluster(files);
    }

    @AfterAll
    static void stopCluster() throws Exception {
        cluster.close();
    }

    @BeforeEach
    void startBroker() throws Exception {
        broker = Mosquitto.start(folder);
        Topic.session(broker.url(), "job", "in");
    }

    @AfterEach
    void stopBroker() {
        broker.close();
    }
}
