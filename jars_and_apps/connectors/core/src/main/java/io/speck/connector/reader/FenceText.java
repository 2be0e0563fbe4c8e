package io.speck.connector.reader;

import io.speck.mqtt.BrokerException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The content of a fence: {@code {"attempt": N}}, with the last process that claimed it, and the session's owner.
 *
 * @param attempt number of the attempt that may read
 * @param claim order of the processes of one attempt; 0 if none has claimed the fence
 * @param nonce id of the process that has; empty if none has
 * @param owner identity of the store whose session it is; empty if none is named
 * @param deleted true if the session was deleted
 * @param compact true if the process that claimed it reads stamps in their binary form
 */
public record FenceText(long attempt, long claim, String nonce, String owner, boolean deleted, boolean compact) {
    /** The distance above a reader's own attempt within which a number is believed; the coordinator has the same. */
    private static final long FURTHEST = 1_000_000_000L;
    private static final Pattern ATTEMPT = Pattern.compile("\"attempt\"\\s*:\\s*(\\d{1,18})\\b");
    private static final Pattern CLAIM = Pattern.compile("\"claim\"\\s*:\\s*(\\d{1,18})\\b");
    private static final Pattern NONCE = Pattern.compile("\"nonce\"\\s*:\\s*\"([0-9a-f]{1,64})\"");
    private static final Pattern OWNER = Pattern.compile("\"owner\"\\s*:\\s*\"([0-9A-Za-z-]{1,64})\"");
    private static final Pattern COMPACT = Pattern.compile("\"stamps\"\\s*:\\s*\"compact\"");
    private static final Pattern DELETED = Pattern.compile("\"deleted\"\\s*:\\s*true\\b");

    /** Creates the text of a process that reads stamps as texts only. */
    public FenceText(long attempt, long claim, String nonce, String owner, boolean deleted) {
        this(attempt, claim, nonce, owner, deleted, false);
    }

    /** True if a process has claimed the fence that reads stamps in their binary form; false for other texts as well. */
    public static boolean readsCompact(String text) {
        return COMPACT.matcher(text).find() && !DELETED.matcher(text).find() && !group(CLAIM, text, "0").equals("0");
    }

    /** @throws BrokerException if the text names no attempt */
    public static FenceText parse(String text, String topic) {
        String attempt = group(ATTEMPT, text, null);
        if (attempt == null) {
            throw new BrokerException("the message at fence topic '" + topic + "' is '" + text
                    + "' (expected {\"attempt\": N})", true);
        }
        return new FenceText(Long.parseLong(attempt), Long.parseLong(group(CLAIM, text, "0")), group(NONCE, text, ""),
                group(OWNER, text, ""), DELETED.matcher(text).find(), COMPACT.matcher(text).find());
    }

    /**
     * The text as the reader of an attempt takes it: a number far above its own is of a damaged message, or of anybody
     * who may publish there.
     *
     * @throws BrokerException if the text names no attempt, or one that no coordinator gives
     */
    public static FenceText parse(String text, String topic, long own) {
        FenceText found = parse(text, topic);
        if (found.attempt() > own + FURTHEST) {
            throw new BrokerException("the message at fence topic '" + topic + "' names attempt " + found.attempt()
                    + " (expected at most " + (own + FURTHEST) + ", as this is attempt " + own
                    + "): find who may publish there, and remove the retained message", true);
        }
        return found;
    }

    private static String group(Pattern pattern, String text, String otherwise) {
        Matcher matcher = pattern.matcher(text);
        return matcher.find() ? matcher.group(1) : otherwise;
    }

    public String toJson() {
        String named = owner.isEmpty() ? "" : ", \"owner\": \"" + owner + "\"";
        String reads = compact ? ", \"stamps\": \"compact\"" : "";
        return "{\"attempt\": " + attempt + ", \"claim\": " + claim + ", \"nonce\": \"" + nonce + "\"" + named + reads
                + "}";
    }
}
