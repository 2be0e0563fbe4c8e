package io.speck.connector.writer;

import java.io.Serializable;

/**
 * A message of a writer that its broker has not taken.
 *
 * @param key null for none
 * @param sequence the rest of its stamp; null for a message without one
 */
public record UnsentMessage(String topic, byte[] payload, byte[] key, byte[] sequence) implements Serializable {
    private static final int OBJECTS = 150;

    /** Estimate of its memory, in bytes. */
    public long bytes() {
        return OBJECTS + payload.length + (key == null ? 0 : key.length) + (sequence == null ? 0 : sequence.length);
    }
}
