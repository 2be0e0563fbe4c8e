package io.speck.mqtt.writer;

import io.speck.mqtt.MqttException;

/** The progress of one writer's messages; guarded by the publisher's lock. */
final class Delivery {
    /** The number of messages that the broker has not acknowledged yet. */
    int outstanding;
    MqttException failure;
    boolean aborted;
}
