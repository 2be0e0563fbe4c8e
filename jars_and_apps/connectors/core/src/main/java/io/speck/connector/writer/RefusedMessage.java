package io.speck.connector.writer;

import java.io.Serializable;
import java.util.Map;

/**
 * A message that its broker never accepts, in whatever state either is: the message is the cause, and no other one is
 * affected.
 *
 * @param key null for none
 * @param properties its further user properties, by name
 * @param most the largest content, in bytes, that the broker would have accepted; -1 if that is not known
 * @param reason the cause, with the size and the limit or the broker's reason
 */
public record RefusedMessage(String topic, byte[] payload, byte[] key, Map<String, String> properties, long most,
        String reason) implements Serializable {
    private static final int OBJECTS = 150;

    /** Estimate of its memory, in bytes. */
    public long bytes() {
        return OBJECTS + payload.length + (key == null ? 0 : key.length) + reason.length();
    }
}
