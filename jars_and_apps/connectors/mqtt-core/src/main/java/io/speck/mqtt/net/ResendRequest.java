package io.speck.mqtt.net;

import java.util.concurrent.TimeUnit;

/**
 * Asks all writers to send again the messages of a session that a broker lost, as far as they hold them: a retained
 * message below {@link #TOPICS} with the topic filter of the session's reader.
 */
public final class ResendRequest {
    /** The parent of the topics of requests; the last level is the request's own id. */
    public static final String TOPICS = "speck/again/";
    /** Expiry of retained messages that no client may return to delete; a broker may be away for less. */
    public static final int EXPIRY_SECONDS = (int) TimeUnit.HOURS.toSeconds(1);

    private ResendRequest() {}

    /** Time that writers hold acknowledged messages: the Java property {@code speck.sink.keepSeconds} (300). */
    public static long retentionSeconds() {
        return Long.getLong("speck.sink.keepSeconds", 300);
    }
}
