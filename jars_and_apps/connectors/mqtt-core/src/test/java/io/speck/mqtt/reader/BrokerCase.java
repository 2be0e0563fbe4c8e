package io.speck.mqtt.reader;

import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SourceSettings;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A reader at a Mosquitto of the test's own. */
abstract class BrokerCase {
    @TempDir
    Path folder;
    Mosquitto broker;
    final MemoryJournal journal = new MemoryJournal();

    @BeforeEach
    void start() throws Exception {
        broker = Mosquitto.start(folder);
    }

    @AfterEach
    void stop() {
        broker.close();
    }

    /** The settings of a reader with a fence. */
    SourceSettings settings(String topic, long attempt) {
        return new SourceSettings(Login.anonymous(broker.url()), "reader", topic, 65535, 32 << 20, "speck/fence/reader",
                attempt, true, Duration.ofSeconds(20));
    }
}
