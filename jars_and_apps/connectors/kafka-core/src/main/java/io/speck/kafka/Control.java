package io.speck.kafka;

import io.speck.connector.reader.FenceText;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The records of the coordinator about one session, in the order of the compacted topic {@code speck.control}: the fence,
 * the claims of the fence by readers, the known writers, and orders to drain.
 *
 * <p>An engine may run an attempt twice: it restarts a task while the old one lives, cut off. So each reader writes a claim
 * when it begins, and of one attempt the last claim in the log reads; the log gives all readers the same order.
 *
 * <p>A record that cannot be read is skipped. Not thread-safe; guarded by the reader's lock.
 */
final class Control {
    private static final Logger LOG = LoggerFactory.getLogger(Control.class);
    private static final Pattern ATTEMPT = Pattern.compile("\"attempt\"\\s*:\\s*(\\d{1,18})\\b");
    private static final Pattern NONCE = Pattern.compile("\"nonce\"\\s*:\\s*\"([0-9a-f]{1,64})\"");
    private static final Pattern ENDS = Pattern.compile("\"ends\"\\s*:\\s*\\{([^}]*)}");
    private static final Pattern END = Pattern.compile("\"(\\d{1,9})\"\\s*:\\s*(\\d{1,18})");

    private final SourceSettings settings;
    private final String nonce = UUID.randomUUID().toString().replace("-", "");
    private final Set<String> logged = new HashSet<>();
    private boolean claimed;
    private byte[] writers;
    private boolean newWriters;
    private Map<Integer, Long> drain = Map.of();

    Control(SourceSettings settings) {
        this.settings = settings;
    }

    String claimKey() {
        return "claim/" + settings.clientId();
    }

    byte[] claim() {
        return ("{\"attempt\": " + settings.attempt() + ", \"nonce\": \"" + nonce + "\"}").getBytes(StandardCharsets.UTF_8);
    }

    /** True once the own claim was read. */
    boolean claimed() {
        return claimed;
    }

    /** Returns the list of writers that came last, once; null if there is no new one. */
    byte[] takeWriters() {
        byte[] found = newWriters ? writers : null;
        newWriters = false;
        return found;
    }

    /** The ends of the partitions up to which an order has the session drained; empty without an order. */
    Map<Integer, Long> drain() {
        return drain;
    }

    /** Ends an order that is carried out. */
    void drained() {
        drain = Map.of();
    }

    /**
     * Takes a record of the topic.
     *
     * @throws TakenOverException if another reader has the session now, or it was deleted
     */
    void take(ConsumerRecord<byte[], byte[]> record) {
        String key = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
        String session = "/" + settings.clientId();
        if (settings.fenceTopic() == null || !key.endsWith(session)) {
            return;
        }
        String text = record.value() == null ? "" : new String(record.value(), StandardCharsets.UTF_8);
        switch (key.substring(0, key.length() - session.length())) {
            case "fence" -> fence(key, text);
            case "claim" -> claim(key, text);
            case "writers" -> {
                writers = record.value() == null ? new byte[0] : record.value();
                newWriters = true;
            }
            case "drain" -> drain = ends(text);
            default -> { }
        }
    }

    private void fence(String key, String text) {
        if (text.isEmpty()) {
            return; // of a deletion long ago
        }
        FenceText found;
        try {
            found = FenceText.parse(text, Topics.CONTROL + " " + key, settings.attempt());
        } catch (BrokerException e) {
            skipped(key, text);
            return;
        }
        if (found.deleted() && found.attempt() >= settings.attempt()) {
            throw new TakenOverException("the session of " + settings.session() + " was deleted");
        }
        if (found.attempt() > settings.attempt()) {
            throw new TakenOverException("the session of " + settings.session() + " was taken over by attempt "
                    + found.attempt() + " (this is attempt " + settings.attempt() + ")");
        }
    }

    private void claim(String key, String text) {
        Matcher attempt = ATTEMPT.matcher(text);
        Matcher of = NONCE.matcher(text);
        if (!attempt.find() || !of.find()) {
            skipped(key, text);
            return;
        }
        long number = Long.parseLong(attempt.group(1));
        if (of.group(1).equals(nonce)) {
            claimed = true;
        } else if (claimed && number >= settings.attempt()) {
            throw new TakenOverException("the session of " + settings.session() + " was taken over by "
                    + (number > settings.attempt() ? "attempt " + number
                    : "a later process of attempt " + number + " (the engine has started it again)"));
        }
    }

    private static Map<Integer, Long> ends(String text) {
        Matcher all = ENDS.matcher(text);
        Map<Integer, Long> ends = new HashMap<>();
        if (all.find()) {
            Matcher each = END.matcher(all.group(1));
            while (each.find()) {
                ends.put(Integer.parseInt(each.group(1)), Long.parseLong(each.group(2)));
            }
        }
        return ends;
    }

    private void skipped(String key, String text) {
        if (!text.isEmpty() && logged.add(key)) {
            LOG.warn("{}: the record '{}' of topic {} is '{}', which is skipped", settings.session(), key, Topics.CONTROL,
                    text.length() > 200 ? text.substring(0, 200) + "..." : text);
        }
    }
}
