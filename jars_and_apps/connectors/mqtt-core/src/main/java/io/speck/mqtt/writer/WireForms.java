package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.reader.FenceText;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.CompactForm.Permission;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Chooses the form in which each message is sent: short where it is sure that all readers read it, else as texts.
 *
 * <p>The Java property {@code speck.sink.stamps} permits it for all topics ({@code compact}), or for none ({@code text});
 * by default it is permitted for those between the parts of a query, which nobody but these parts reads. Then a stamp has
 * its binary form ({@link CompactForm}) in the correlation data of a message whose topic is read by at least one session,
 * and each of these sessions is held by a process that says in its claim of the fence that it reads that form. A retained
 * message keeps its texts, since it is sent to later readers as well. And a topic is replaced by its alias, as far as the
 * broker permits any (MQTT 5, 3.2.2.3.8).
 *
 * <p>A fence that a coordinator raises for the next attempt has no claim, so that texts are sent until the reader of that
 * attempt has begun. Notes and fences of a new connection count once the broker has reported the size of its store, a
 * subscription behind theirs: a broker that does not keep this order, or reports none, gets texts. Not thread-safe;
 * guarded by the publisher's lock.
 */
final class WireForms {
    static final String FENCES = "speck/fence/";
    private static final String BETWEEN_PARTS = "speck/sql/"; // of a query
    private static final int TOPICS_REMEMBERED = 1000;

    private final Permission permission;
    private final CompactForm form = new CompactForm();
    private final Map<String, List<String>> filters = new HashMap<>();
    private final Set<String> compact = new HashSet<>();
    private final Map<String, Boolean> readsCompact = new HashMap<>();
    private final Map<String, Integer> aliases = new HashMap<>();
    private int mostAliases;
    private boolean reported;

    WireForms() {
        this(Permission.ofProcess());
    }

    WireForms(Permission permission) {
        this.permission = permission;
    }

    /** The filters to subscribe to on each connection, beside and before those of {@link BackPressure}. */
    List<String> filters() {
        return permission == Permission.NONE ? List.of() : List.of(FENCES + "+");
    }

    /** Prepares for a new connection, before it is opened: all records come anew. */
    void reset() {
        filters.clear();
        compact.clear();
        readsCompact.clear();
        reported = false;
        opened(0);
    }

    /** Begins with a new connection, whose broker permits this number of topic aliases. */
    void opened(int topicAliasMaximum) {
        aliases.clear();
        mostAliases = topicAliasMaximum;
    }

    /** Looks at a message; true if it is of use here only. */
    boolean accept(MqttPublishMessage packet) {
        String topic = packet.variableHeader().topicName();
        if (topic.equals(BackPressure.STORED)) {
            reported = true;
            return false;
        }
        boolean fence = topic.startsWith(FENCES);
        if (permission != Permission.NONE && (fence || topic.startsWith(SessionNote.TOPICS))) {
            String text = packet.payload().toString(StandardCharsets.UTF_8);
            readsCompact.clear();
            if (fence) {
                fence(topic.substring(FENCES.length()), text);
            } else {
                note(topic.substring(SessionNote.TOPICS.length()), SessionNote.filters(text));
            }
        }
        return fence;
    }

    private void fence(String session, String text) {
        if (FenceText.readsCompact(text)) {
            compact.add(session);
        } else {
            compact.remove(session);
        }
    }

    private void note(String session, List<String> topics) {
        if (topics.isEmpty()) {
            filters.remove(session);
        } else {
            filters.put(session, topics);
        }
    }

    /**
     * Returns the form for the next message of the connection.
     *
     * @param room the bytes by which it may be larger than with texts, by the limit of the broker
     */
    WireForm of(OutgoingMessage message, boolean retained, long room) {
        if (!permits(message.topic) || !message.stamped() || room < WireForm.MOST_MORE) {
            return WireForm.TEXTS; // markers among them, whose topics need no alias
        }
        boolean texts = retained || message.delivery.retain || !readCompact(message.topic);
        Stamp stamp = texts ? null : message.stamp();
        return withAlias(message.topic, stamp == null ? null : form.encode(stamp));
    }

    private boolean permits(String topic) {
        return switch (permission) {
            case ALL -> true;
            case PARTS -> topic.startsWith(BETWEEN_PARTS);
            case NONE -> false;
        };
    }

    private boolean readCompact(String topic) {
        if (!reported) {
            return false;
        }
        if (readsCompact.size() > TOPICS_REMEMBERED) {
            readsCompact.clear();
        }
        return readsCompact.computeIfAbsent(topic, each -> {
            List<String> readers = filters.entrySet().stream()
                    .filter(session -> session.getValue().stream().anyMatch(filter -> TopicFilter.matches(filter, each)))
                    .map(Map.Entry::getKey).toList();
            return !readers.isEmpty() && compact.containsAll(readers);
        });
    }

    private WireForm withAlias(String topic, byte[] stamp) {
        Integer known = aliases.get(topic);
        if (known != null) {
            return new WireForm(stamp, known, false);
        }
        boolean more = aliases.size() < mostAliases;
        if (more) {
            aliases.put(topic, aliases.size() + 1);
        }
        return stamp == null && !more ? WireForm.TEXTS : new WireForm(stamp, more ? aliases.size() : 0, true);
    }
}
