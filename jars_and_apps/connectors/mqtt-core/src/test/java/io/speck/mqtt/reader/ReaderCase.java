package io.speck.mqtt.reader;

import io.speck.mqtt.BrokerCase;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;

/** A test of a reader at a Mosquitto of the test's own. */
abstract class ReaderCase extends BrokerCase {
    final MemoryJournal journal = new MemoryJournal();

    /** The settings of a reader with a fence. */
    SourceSettings settings(String topic, long attempt) {
        return new SourceSettings(Login.anonymous(broker.url()), "reader", topic, 65535, 32 << 20, "speck/fence/reader",
                attempt, true, Duration.ofSeconds(20));
    }
}
