package io.speck.spark.mqtt;

import java.io.Serializable;

/**
 * A row for which its task found no room at the broker.
 *
 * @param key null for none
 * @param sequence the rest of its stamp; null for a message without one
 */
record UnsentRow(String topic, byte[] value, byte[] key, byte[] sequence) implements Serializable {
    private static final int OBJECTS = 150;

    /** Estimate of its memory, in bytes. */
    long bytes() {
        return OBJECTS + value.length + (key == null ? 0 : key.length) + (sequence == null ? 0 : sequence.length);
    }
}
