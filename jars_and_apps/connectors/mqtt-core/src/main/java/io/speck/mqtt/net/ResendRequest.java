package io.speck.mqtt.net;

/**
 * Asks all writers to send again what they hold of a session that a broker lost: a retained message below
 * {@link #TOPICS} that bears the topic filter of the session's reader.
 */
public final class ResendRequest {
    /** The topics of requests; the last level is the request's own id. */
    public static final String TOPICS = "speck/again/";
    /** How long a writer holds what a broker has acknowledged: the Java property {@code speck.sink.keepSeconds} (30). */
    public static final long RETENTION_SECONDS = Long.getLong("speck.sink.keepSeconds", 30);
    /** How long requests stay at a broker, as nobody may come back to delete them. */
    public static final int EXPIRY_SECONDS = (int) Math.min(Integer.MAX_VALUE, 60 + 2 * RETENTION_SECONDS);

    private ResendRequest() {}
}
