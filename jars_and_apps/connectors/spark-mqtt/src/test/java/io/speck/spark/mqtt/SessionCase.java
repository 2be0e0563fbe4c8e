package io.speck.spark.mqtt;

import io.speck.mqtt.Mosquitto;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A local Spark for the tests of a class, and a Mosquitto for each test. */
abstract class SessionCase {
    static SparkSession spark;

    @TempDir
    Path folder;
    Mosquitto broker;

    @BeforeAll
    static void startSpark() {
        spark = Sessions.local();
    }

    @AfterAll
    static void stopSpark() {
        spark.stop();
    }

    @BeforeEach
    void startBroker() throws IOException {
        broker = Mosquitto.start(folder);
    }

    @AfterEach
    void stopBroker() {
        broker.close();
    }
}
