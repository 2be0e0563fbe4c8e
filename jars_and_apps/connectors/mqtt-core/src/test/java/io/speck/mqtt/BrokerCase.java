package io.speck.mqtt;

import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A test with a Mosquitto of its own. */
public abstract class BrokerCase {
    @TempDir
    protected Path folder;
    protected Mosquitto broker;

    @BeforeEach
    void startBroker() throws Exception {
        broker = Mosquitto.start(folder);
    }

    @AfterEach
    void stopBroker() {
        broker.close();
    }
}
