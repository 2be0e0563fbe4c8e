package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stops writers before a session at their broker is full: Mosquitto drops what exceeds the limit of a session
 * ({@code max_queued_bytes}), and reports success to the writer.
 *
 * <p>No session holds more than the broker's whole store, whose size Mosquitto publishes ({@link #STORED}). While the
 * store is smaller than the limit of this class, all messages are admitted. Beyond, a message is admitted only if the
 * readers of all its sessions keep up with this process: a marker behind its messages ({@code speck/drain/<session>})
 * is answered by the reader once it has committed them, and a 32nd of the limit may follow the last one answered. So
 * writers go on where messages are read, and wait where they are not, for as long as the reader is away.
 *
 * <p>A broker that does not publish its store's size is judged by what this process alone has sent. The limit is the
 * property {@code speck.sink.brokerMegabytes} (64) of the Java process; 0 admits everything. Not thread-safe; guarded
 * by the publisher's lock.
 */
final class BackPressure {
    /** The payloads in Mosquitto's store, in bytes; published when it changes, every {@code sys_interval}. */
    static final String STORED = "$SYS/broker/store/messages/bytes";
    private static final int WINDOWS = 32;
    private static final Logger LOG = LoggerFactory.getLogger(BackPressure.class);
    private static final String MARKERS = "speck/drain/";
    private static final String ANSWERS = "speck/drained/";
    private static final long DEFAULT_MEGABYTES = 64;
    private static final int REJECTED = 0x80;
    /** A marker that was not answered for so long may be lost. */
    private static final long MARKER_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final int TOPICS_REMEMBERED = 1000;

    private static final class Session {
        private final String name;
        private final List<String> filters;
        /** Bytes sent to it by this process, and those of them that its reader has committed for certain. */
        private long sent;
        private long read;
        /** True once it has answered a marker of this process. */
        private boolean answers;
        private boolean marked;
        private long markedNanos;
        /** True if this process may not send it markers. */
        private boolean closedToMarkers;
        /** True while a writer waits for its reader. */
        private boolean holds;

        private Session(String name, List<String> filters) {
            this.name = name;
            this.filters = filters;
        }

        private boolean receives(String topic) {
            return filters.stream().anyMatch(filter -> TopicFilter.matches(filter, topic));
        }
    }

    private final long limit;
    private final String id = UUID.randomUUID().toString().replace("-", "");
    private final Delivery markers = new Delivery();
    private Map<String, Session> sessions = new HashMap<>();
    /** The sessions known on earlier connections: their notes may have gone meanwhile. */
    private final Map<String, Session> earlier = new HashMap<>();
    private final Map<String, List<Session>> sessionsOfTopic = new HashMap<>();
    private long stored = -1;
    private long sentSince;

    BackPressure() {
        this(Long.getLong("speck.sink.brokerMegabytes", DEFAULT_MEGABYTES) << 20);
    }

    BackPressure(long limit) {
        this.limit = limit;
    }

    /** The filters to subscribe to on each connection. */
    List<String> filters() {
        return limit == 0 ? List.of() : List.of(SessionNote.TOPICS + "+", ANSWERS + "+", STORED);
    }

    /** Prepares for a new connection, before it is opened: all reports come anew, and answers may have been lost. */
    void reset() {
        stored = -1;
        sentSince = 0;
        sessions.values().forEach(session -> session.marked = false);
        earlier.putAll(sessions);
        sessions = new HashMap<>();
        sessionsOfTopic.clear();
    }

    // ---- reports ----

    /**
     * Takes a note, an answer or the store's size from a message; false if it is none of these.
     *
     * @param unsent bytes of messages added that were not sent yet
     */
    boolean accept(MqttPublishMessage packet, long unsent) {
        String topic = packet.variableHeader().topicName();
        String text = packet.payload().toString(StandardCharsets.UTF_8);
        if (topic.startsWith(SessionNote.TOPICS)) {
            note(topic.substring(SessionNote.TOPICS.length()), SessionNote.filters(text));
        } else if (topic.startsWith(ANSWERS)) {
            answered(topic.substring(ANSWERS.length()), text);
        } else if (topic.equals(STORED)) {
            if (text.matches("\\d{1,18}")) {
                stored = Long.parseLong(text);
                sentSince = unsent;
            }
        } else {
            return false;
        }
        return true;
    }

    private void note(String name, List<String> filters) {
        Session known = sessions.getOrDefault(name, earlier.remove(name));
        sessions.remove(name);
        if (!filters.isEmpty()) {
            sessions.put(name, known != null && known.filters.equals(filters) ? known : new Session(name, filters));
        }
        sessionsOfTopic.clear();
    }

    private void answered(String name, String marker) {
        Session session = sessions.get(name);
        if (session != null && marker.matches(id + "/\\d{1,18}")) {
            session.marked = false;
            session.answers = true;
            session.holds = false;
            session.read = Math.max(session.read, Long.parseLong(marker.substring(id.length() + 1)));
        }
    }

    /**
     * Takes the acknowledgement of a marker; false if the message is none. A marker without a subscriber was dropped, and
     * is sent again later: the session's reader has not begun yet.
     */
    boolean acknowledged(OutgoingMessage message, int reason) {
        if (message.delivery != markers) {
            return false;
        }
        Session session = sessions.get(message.topic.substring(MARKERS.length()));
        if (session != null && reason >= REJECTED && !session.closedToMarkers) {
            session.closedToMarkers = true;
            LOG.warn("the broker rejects messages to topic '{}', which show if the session is read: writers do not"
                    + " wait before it is full", message.topic);
        }
        return true;
    }

    // ---- messages ----

    /** True if the sessions that receive the message have room for it. */
    boolean admits(OutgoingMessage message) {
        for (Session session : limit == 0 ? List.<Session>of() : receivers(message.topic)) {
            if (full(session)) {
                logOnce(session, message.topic);
                return false;
            }
        }
        return true;
    }

    private boolean full(Session session) {
        if (session.closedToMarkers) {
            return false;
        }
        if (stored < 0) {
            return unread(session) >= limit;
        }
        return stored + sentSince >= limit && !(session.answers && unread(session) < limit / WINDOWS);
    }

    private void logOnce(Session session, String topic) {
        if (!session.holds) {
            session.holds = true;
            LOG.warn("the broker stores {} MB (limit: {}): nothing is written to topic '{}' before the reader of session"
                    + " '{}' has caught up", stored >> 20, limit >> 20, topic, session.name);
        }
    }

    private static long unread(Session session) {
        return session.sent - session.read;
    }

    private List<Session> receivers(String topic) {
        if (sessionsOfTopic.size() > TOPICS_REMEMBERED) {
            sessionsOfTopic.clear();
        }
        return sessionsOfTopic.computeIfAbsent(topic, each -> {
            List<Session> found = new ArrayList<>();
            sessions.values().stream().filter(session -> session.receives(each)).forEach(found::add);
            return found;
        });
    }

    /** Counts a message that was admitted. */
    void add(OutgoingMessage message) {
        int bytes = message.bytes();
        sentSince += bytes;
        for (Session session : receivers(message.topic)) {
            session.sent += bytes;
        }
    }

    /** Returns the markers to send behind the messages added so far; most often none. */
    List<OutgoingMessage> markers(String topic, long nowNanos) {
        List<OutgoingMessage> due = new ArrayList<>();
        for (Session session : limit == 0 ? List.<Session>of() : receivers(topic)) {
            boolean filling = (stored < 0 ? unread(session) : stored + sentSince) >= limit / 2;
            boolean waits = session.marked && nowNanos - session.markedNanos < MARKER_NANOS;
            boolean wanted = !session.answers || unread(session) >= limit / WINDOWS / 4;
            if (filling && wanted && !waits && !session.closedToMarkers) {
                session.marked = true;
                session.markedNanos = nowNanos;
                due.add(marker(session));
            }
        }
        return due;
    }

    private OutgoingMessage marker(Session session) {
        String topic = MARKERS + session.name;
        byte[] content = (id + "/" + session.sent).getBytes(StandardCharsets.UTF_8);
        return new OutgoingMessage(markers, topic, topic.getBytes(StandardCharsets.UTF_8), content, null, null, null);
    }
}
