package io.speck.mqtt.net;

/**
 * The session that a connection requests when it opens.
 *
 * @param clientId the name of the session
 * @param clean true to discard an older session of that name
 * @param expirySeconds time that the broker keeps the session after the connection ended
 * @param receiveMaximum limit of unacknowledged messages in flight from the broker
 * @param topicAliases number of topics for which the broker may send numbers (MQTT 5, 3.1.2.11.5); 0 for none
 */
public record Session(String clientId, boolean clean, long expirySeconds, int receiveMaximum, int topicAliases) {
    /** A session that the broker keeps until it is deleted (MQTT 5, 3.1.2.11.2). */
    static final long NEVER_EXPIRES = 0xFFFFFFFFL;
    /** Above the limits of brokers, such as 10 of Mosquitto 2.1; each takes the memory of a topic's name. */
    private static final int TOPIC_ALIASES = 100;

    /** The session of a reader. */
    public static Session persistent(String clientId, int receiveMaximum) {
        return new Session(clientId, false, NEVER_EXPIRES, receiveMaximum, 0);
    }

    /** The same session, with topics that may come as numbers. */
    public Session withTopicAliases() {
        return new Session(clientId, clean, expirySeconds, receiveMaximum, TOPIC_ALIASES);
    }

    public static Session temporary(String clientId) {
        return new Session(clientId, true, 0, 65535, 0);
    }
}
