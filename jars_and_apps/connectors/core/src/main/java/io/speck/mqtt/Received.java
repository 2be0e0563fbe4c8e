package io.speck.mqtt;

import io.speck.mqtt.stamp.Stamp;

/**
 * A message as a streaming reader returns it.
 *
 * @param topic the topic that it was published to
 * @param payload its content
 * @param key the user property {@code key}; null for none
 * @param receivedMillis when this process received it, in milliseconds since 1970
 * @param stamp its identity, given by the job that wrote it; null if it has none that this reader believes
 * @param offset its position in the session: the number of messages before it
 * @param hash hash of topic, payload, and the properties of a stamp
 */
public record Received(String topic, byte[] payload, String key, long receivedMillis, Stamp stamp, long offset,
        int hash) {
    /** The name of the user property that carries a message's key. */
    public static final String KEY = "key";

    /** Creates a message without stamp and position, for tests of a program. */
    public Received(String topic, byte[] payload, String key, long receivedMillis) {
        this(topic, payload, key, receivedMillis, null, 0, 0);
    }

    /**
     * Returns the content as text.
     *
     * @throws InvalidTextException if it is not UTF-8
     */
    public String text() {
        return Utf8.decode(payload);
    }
}
