package io.speck.mqtt;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * The settings of a reader.
 *
 * @param login the broker and the credentials there
 * @param clientId name of the persistent session
 * @param topic filter to subscribe to; null for a session that is only emptied
 * @param receiveMaximum limit of unacknowledged messages in flight from the broker, 1 to 65535
 * @param bufferBytes approximate size of buffered messages above which reading from the broker pauses
 * @param fenceTopic topic of the retained message that names the attempt allowed to read; null for none
 * @param attempt number of this reader, compared with the fence
 * @param failOnDataLoss true to end the reader when the broker lost messages, false to log the loss
 * @param connectTimeout time limit of the first connection, and of the broker's redelivery after a restart
 * @param controlTopic topic of the control messages of the reader's job, which it returns as other messages; null for none
 */
public record SourceSettings(Login login, String clientId, String topic, int receiveMaximum, long bufferBytes,
        String fenceTopic, long attempt, boolean failOnDataLoss, Duration connectTimeout, String controlTopic)
        implements Serializable {
    public static final int LARGEST_RECEIVE_MAXIMUM = 65535;
    private static final int LONGEST_STRING = 65535;

    /** Creates the settings of a reader without control messages. */
    public SourceSettings(Login login, String clientId, String topic, int receiveMaximum, long bufferBytes,
            String fenceTopic, long attempt, boolean failOnDataLoss, Duration connectTimeout) {
        this(login, clientId, topic, receiveMaximum, bufferBytes, fenceTopic, attempt, failOnDataLoss, connectTimeout,
                null);
    }

    /** Returns the same settings with a topic of control messages; null for none. */
    public SourceSettings controlledBy(String control) {
        return new SourceSettings(login, clientId, topic, receiveMaximum, bufferBytes, fenceTopic, attempt,
                failOnDataLoss, connectTimeout, control);
    }

    /**
     * Returns the text if it can name a session.
     *
     * @throws InvalidSettingException otherwise
     */
    public static String clientId(String text) {
        int bytes = text.getBytes(StandardCharsets.UTF_8).length;
        if (bytes == 0 || bytes > LONGEST_STRING || text.indexOf(0) >= 0) {
            throw new InvalidSettingException("not a client id (expected 1 to 65535 bytes without U+0000)");
        }
        return text;
    }

    /**
     * Returns the text if it is a topic filter by MQTT 5, 4.7.1: '#' only as last level, '+' only as a whole level.
     *
     * @throws InvalidSettingException otherwise
     */
    public static String filter(String text) {
        String[] levels = text.split("/", -1);
        boolean usable = !text.isEmpty();
        for (int i = 0; i < levels.length; i++) {
            boolean hash = levels[i].contains("#") && !(levels[i].equals("#") && i == levels.length - 1);
            boolean plus = levels[i].contains("+") && !levels[i].equals("+");
            usable &= !hash && !plus;
        }
        if (!usable) {
            throw new InvalidSettingException("'" + text + "' is not a topic filter"
                    + " (expected '+' as a whole level, and '#' as the last one)");
        }
        return text;
    }

    /** Settings for a session that the reader has left, and only empties: it has no topic to subscribe to. */
    public SourceSettings former(String session, Login sessionLogin) {
        String fence = fenceTopic == null || !fenceTopic.endsWith(clientId) ? null
                : fenceTopic.substring(0, fenceTopic.length() - clientId.length()) + session;
        return new SourceSettings(sessionLogin, session, null, receiveMaximum, bufferBytes, fence, attempt,
                failOnDataLoss, connectTimeout);
    }

    /** Names the session and its broker, for errors and log lines. */
    public String session() {
        return "client '" + clientId + "' at broker " + login;
    }
}
