package io.speck.mqtt.writer;

import io.speck.connector.writer.RefusedMessage;
import io.speck.mqtt.MqttException;
import java.util.ArrayList;
import java.util.List;

/** The progress of one writer's messages; guarded by the publisher's lock. */
final class Delivery {
    /** The number of messages that the broker has not acknowledged yet. */
    int outstanding;
    MqttException failure;
    boolean aborted;
    /** True if messages that the broker never accepts are collected here, and are no failure. */
    final boolean lenient;
    /** True if the broker is to retain the messages. */
    final boolean retain;
    private List<RefusedMessage> refused = new ArrayList<>();
    /** True if there are such messages; read without the lock. */
    volatile boolean hasRefused;

    Delivery() {
        this(false, false);
    }

    Delivery(boolean lenient, boolean retain) {
        this.lenient = lenient;
        this.retain = retain;
    }

    void refuse(RefusedMessage message) {
        refused.add(message);
        hasRefused = true;
    }

    List<RefusedMessage> takeRefused() {
        List<RefusedMessage> taken = refused;
        refused = new ArrayList<>();
        hasRefused = false;
        return taken;
    }
}
