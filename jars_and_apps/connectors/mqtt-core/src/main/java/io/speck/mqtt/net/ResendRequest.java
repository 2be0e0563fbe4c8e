package io.speck.mqtt.net;

/**
 * Asks all writers to send again the messages of a session that a broker lost, as far as they hold them: a retained
 * message below {@link #TOPICS} with the topic filter of the session's reader.
 */
public final class ResendRequest {
    /** The parent of the topics of requests; the last level is the request's own id. */
    public static final String TOPICS = "speck/again/";
    /** Time that writers hold acknowledged messages: the Java property {@code speck.sink.keepSeconds} (30). */
    public static final long RETENTION_SECONDS = Long.getLong("speck.sink.keepSeconds", 30);
    /** Expiry of retained messages that no client may return to delete. */
    public static final int EXPIRY_SECONDS = (int) Math.min(Integer.MAX_VALUE, 60 + 2 * RETENTION_SECONDS);

    private ResendRequest() {}
}
