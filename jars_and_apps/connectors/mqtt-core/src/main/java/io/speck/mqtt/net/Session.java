package io.speck.mqtt.net;

/**
 * What a connection asks of the broker when it opens.
 *
 * @param clientId the name of the session
 * @param clean whether an older session of that name is thrown away
 * @param expirySeconds how long the broker keeps the session after the connection ended
 * @param receiveMaximum how many unacknowledged messages the broker may have under way to us
 */
public record Session(String clientId, boolean clean, long expirySeconds, int receiveMaximum) {
    /** A session that the broker keeps until it is deleted (MQTT 5, 3.1.2.11.2). */
    static final long NEVER_EXPIRES = 0xFFFFFFFFL;

    public static Session kept(String clientId, int receiveMaximum) {
        return new Session(clientId, false, NEVER_EXPIRES, receiveMaximum);
    }

    public static Session passing(String clientId) {
        return new Session(clientId, true, 0, 65535);
    }
}
