package io.speck.connector.reader;

import io.speck.mqtt.DataLossException;
import io.speck.mqtt.SourceSettings;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reports and counts the messages that a reader gives up. */
public final class Losses {
    /** The broker lost the session. */
    public static final String SESSION = "lostSession";
    /** The broker has the session, and did not send messages of the uncommitted batch again. */
    public static final String REDELIVERY = "redeliveryGivenUp";
    /** The uncommitted batch is in another session, or has no record. */
    public static final String BATCH = "batchGivenUp";
    /** The broker deleted messages before they were read. */
    public static final String RETENTION = "retentionGivenUp";

    private static final Logger LOG = LoggerFactory.getLogger(Losses.class);

    private final SourceSettings settings;
    private final Map<String, Long> counts = new TreeMap<>();

    public Losses(SourceSettings settings) {
        this.settings = settings;
    }

    /**
     * Reports lost messages: an error, or a warning in the log, as set by {@code failOnDataLoss}.
     *
     * @param count the number of messages that are lost for certain
     */
    public void report(String reason, long count, String cause) {
        String text = settings.session() + ": " + cause + "; messages are lost";
        if (settings.failOnDataLoss()) {
            throw new DataLossException(text + " (set failOnDataLoss to false to continue without them)");
        }
        LOG.warn("{}", text);
        synchronized (counts) {
            counts.merge(reason, count, Long::sum);
        }
    }

    /** Returns the number of lost messages by reason. */
    public Map<String, Long> counts() {
        synchronized (counts) {
            return Map.copyOf(counts);
        }
    }
}
