package io.speck.mqtt;

import java.time.Duration;

/**
 * What a reader needs to know.
 *
 * @param login the broker and who we are there
 * @param clientId name of the persistent session
 * @param topic filter to subscribe to
 * @param receiveMaximum how many unacknowledged messages the broker may have under way to us, 1 to 65535
 * @param bufferBytes how much is kept in memory, roughly, before reading from the broker pauses
 * @param fenceTopic topic of the retained message that names the attempt that may read; null for none
 * @param attempt our number towards the fence
 * @param failOnDataLoss whether messages that the broker lost end the reader, or are only logged
 * @param connectTimeout for the first connection, and for the broker's redelivery after a restart
 */
public record SourceSettings(Login login, String clientId, String topic, int receiveMaximum, long bufferBytes,
        String fenceTopic, long attempt, boolean failOnDataLoss, Duration connectTimeout) {
    public static final int LARGEST_RECEIVE_MAXIMUM = 65535;

    String session() {
        return "client '" + clientId + "' at broker " + login;
    }
}
