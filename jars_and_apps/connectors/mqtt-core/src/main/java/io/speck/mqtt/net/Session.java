package io.speck.mqtt.net;

/**
 * The session that a connection requests when it opens.
 *
 * @param clientId the name of the session
 * @param clean true to discard an older session of that name
 * @param expirySeconds time that the broker keeps the session after the connection ended
 * @param receiveMaximum limit of unacknowledged messages in flight from the broker
 */
public record Session(String clientId, boolean clean, long expirySeconds, int receiveMaximum) {
    /** A session that the broker keeps until it is deleted (MQTT 5, 3.1.2.11.2). */
    static final long NEVER_EXPIRES = 0xFFFFFFFFL;

    public static Session persistent(String clientId, int receiveMaximum) {
        return new Session(clientId, false, NEVER_EXPIRES, receiveMaximum);
    }

    public static Session temporary(String clientId) {
        return new Session(clientId, true, 0, 65535);
    }
}
