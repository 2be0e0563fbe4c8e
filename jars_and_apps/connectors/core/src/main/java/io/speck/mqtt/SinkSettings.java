package io.speck.mqtt;

import io.speck.mqtt.stamp.Stamp;
import java.io.Serializable;
import java.time.Duration;

/**
 * The settings of a writer.
 *
 * @param login the broker and the credentials there; all writers of a process with the same login share one connection
 * @param flushTimeout time limit for the broker to acknowledge all written messages
 * @param retain true if the broker retains the last message of each topic, for readers that subscribe later
 * @param spool folder on a local disk for messages that the broker may not have saved yet, so that they survive this
 *     process; null to hold them in memory alone
 */
public record SinkSettings(Login login, Duration flushTimeout, boolean retain, String spool) implements Serializable {
    private static final int LONGEST_INCARNATION = 64;

    /** Creates the settings of a writer without retained messages, and without a folder for them. */
    public SinkSettings(Login login, Duration flushTimeout) {
        this(login, flushTimeout, false);
    }

    /** Creates the settings of a writer without a folder for its messages. */
    public SinkSettings(Login login, Duration flushTimeout, boolean retain) {
        this(login, flushTimeout, retain, null);
    }

    /** Returns the same with a folder for messages; null for none. */
    public SinkSettings withSpool(String folder) {
        return new SinkSettings(login, flushTimeout, retain, folder);
    }

    /**
     * Returns the text if stamps may carry it as the name of a job.
     *
     * @throws InvalidSettingException otherwise
     */
    public static String job(String text) {
        if (!Stamp.isName(text)) {
            throw new InvalidSettingException("'" + text
                    + "' is not a name of a job in stamps (expected 1 to 100 letters, digits, '.', '_' or '-')");
        }
        return text;
    }

    /**
     * Returns the text if it is a valid name of a run.
     *
     * @throws InvalidSettingException otherwise
     */
    public static String incarnation(String text) {
        if (text.length() > LONGEST_INCARNATION || !Stamp.isName(text)) {
            throw new InvalidSettingException("'" + text
                    + "' is not an incarnation (expected 1 to 64 letters, digits, '.', '_' or '-')");
        }
        return text;
    }
}
