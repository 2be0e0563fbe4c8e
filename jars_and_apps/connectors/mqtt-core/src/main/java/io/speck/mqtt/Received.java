package io.speck.mqtt;

import java.nio.charset.StandardCharsets;

/**
 * A message as a stream of messages gives it out.
 *
 * @param topic where it was published
 * @param payload its content
 * @param key the user property {@code key}; null for none
 * @param receivedMillis when this process received it, in milliseconds since 1970
 */
public record Received(String topic, byte[] payload, String key, long receivedMillis) {
    /** The name of the user property that carries a message's key. */
    public static final String KEY = "key";
    /** The content as text; what is not UTF-8 is mended. */
    public String text() {
        return new String(payload, StandardCharsets.UTF_8);
    }
}
