package io.speck.mqtt;

import java.nio.charset.StandardCharsets;

/**
 * A message as a streaming reader returns it.
 *
 * @param topic the topic that it was published to
 * @param payload its content
 * @param key the user property {@code key}; null for none
 * @param receivedMillis when this process received it, in milliseconds since 1970
 */
public record Received(String topic, byte[] payload, String key, long receivedMillis) {
    /** The name of the user property that carries a message's key. */
    public static final String KEY = "key";
    /** Returns the content as text; invalid UTF-8 is replaced. */
    public String text() {
        return new String(payload, StandardCharsets.UTF_8);
    }
}
