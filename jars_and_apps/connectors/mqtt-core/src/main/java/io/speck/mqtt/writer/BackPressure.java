package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
 * <p>The store has messages that no session waits for as well: those that devices retain. So an answered marker counts
 * further: the session then holds no more than what the broker has received since ({@link #RECEIVED}), from whomever,
 * and all messages are admitted while that is below the limit.
 *
 * <p>A broker that does not publish its store's size is judged by what this process alone has sent. The limit is the
 * property {@code speck.sink.brokerMegabytes} (64) of the Java process; 0 admits everything. Not thread-safe; guarded
 * by the publisher's lock.
 */
final class BackPressure {
    /** The payloads in Mosquitto's store, in bytes; published when it changes, every {@code sys_interval}. */
    static final String STORED = "$SYS/broker/store/messages/bytes";
    /** The payloads that Mosquitto has received since its start, in bytes; published as that. */
    static final String RECEIVED = "$SYS/broker/publish/bytes/received";
    private static final int WINDOWS = 32;
    private static final Logger LOG = LoggerFactory.getLogger(BackPressure.class);
    private static final String MARKERS = "speck/drain/";
    private static final String ANSWERS = "speck/drained/";
    private static final long DEFAULT_MEGABYTES = 64;
    static final int REJECTED = 0x80;
    /** A marker that was not answered for so long may be lost. */
    private static final long MARKER_NANOS = TimeUnit.SECONDS.toNanos(10);
    /** After a rejected marker, another one shows whether it is permitted by then. */
    private static final long REJECTED_NANOS = TimeUnit.SECONDS.toNanos(60);
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
        /** The bytes that the broker had received before the last marker answered on this connection; -1 if unknown. */
        private long readReceived = -1;
        /** True if this process may not send it markers, as far as the last one shows. */
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

    /** A number that the broker publishes, in bytes, and what this process has added to it since. */
    private static final class Report {
        private long value = -1;
        private long sentSince;

        private void reset() {
            value = -1;
            sentSince = 0;
        }

        private void accept(String text, long unsent) {
            if (text.matches("\\d{1,18}")) {
                value = Long.parseLong(text);
                sentSince = unsent;
            }
        }

        private boolean isKnown() {
            return value >= 0;
        }

        private long most() {
            return value + sentSince;
        }
    }

    private final long limit;
    private final String id = UUID.randomUUID().toString().replace("-", "");
    /** Of a marker: bytes sent to the session, the number of the connection, bytes that the broker had received. */
    private final Pattern content = Pattern.compile(id + "/(\\d{1,18})/(\\d{1,9})/(-1|\\d{1,18})");
    private final Delivery markers = new Delivery();
    private Map<String, Session> sessions = new HashMap<>();
    /** The sessions known on earlier connections: their notes may have gone meanwhile. */
    private final Map<String, Session> earlier = new HashMap<>();
    private final Map<String, List<Session>> sessionsOfTopic = new HashMap<>();
    private int connections;
    private final Report stored = new Report();
    private final Report received = new Report();

    BackPressure() {
        this(Long.getLong("speck.sink.brokerMegabytes", DEFAULT_MEGABYTES) << 20);
    }

    BackPressure(long limit) {
        this.limit = limit;
    }

    /** The filters to subscribe to on each connection. */
    List<String> filters() {
        return limit == 0 ? List.of() : List.of(SessionNote.TOPICS + "+", ANSWERS + "+", STORED, RECEIVED);
    }

    /** Prepares for a new connection, before it is opened: all reports come anew, and answers may have been lost. */
    void reset() {
        stored.reset();
        received.reset();
        sessions.values().forEach(session -> {
            session.marked = session.closedToMarkers; // a broker may close each connection at a marker
            session.readReceived = -1;
        });
        connections++; // the broker may begin to count what it receives anew
        earlier.putAll(sessions);
        sessions = new HashMap<>();
        sessionsOfTopic.clear();
    }

    // ---- reports ----

    /**
     * Takes a note, an answer or a report of the broker from a message; false if it is none of these.
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
            stored.accept(text, unsent);
        } else if (topic.equals(RECEIVED)) {
            received.accept(text, unsent);
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
        Matcher found = content.matcher(marker);
        if (session != null && found.matches()) {
            session.marked = false;
            session.answers = true;
            session.holds = false;
            session.read = Math.max(session.read, Long.parseLong(found.group(1)));
            if (Integer.parseInt(found.group(2)) == connections) {
                session.readReceived = Math.max(session.readReceived, Long.parseLong(found.group(3)));
            }
        }
    }

    /**
     * Takes the acknowledgement of a marker; false if the message is none. A marker without a subscriber was dropped, and
     * is sent again later: the session's reader has not begun yet. So is one that was rejected: access rules change.
     */
    boolean acknowledged(OutgoingMessage message, int reason) {
        if (message.delivery != markers) {
            return false;
        }
        boolean rejected = reason >= REJECTED;
        Session session = sessions.get(message.topic.substring(MARKERS.length()));
        if (session != null && session.closedToMarkers != rejected) {
            session.closedToMarkers = rejected;
            if (rejected) {
                LOG.warn("the broker rejects messages to topic '{}', which show if the session is read: writers do not"
                        + " wait before it is full", message.topic);
            } else {
                LOG.info("the broker accepts messages to topic '{}' again: writers wait before the session is full",
                        message.topic);
            }
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
        return most(session) >= limit
                && !(stored.isKnown() && session.answers && unread(session) < limit / WINDOWS);
    }

    /** The most bytes that a session may hold, as far as this process can tell. */
    private long most(Session session) {
        if (!stored.isKnown()) {
            return unread(session);
        }
        boolean counted = received.isKnown() && session.readReceived >= 0;
        return counted ? Math.min(stored.most(), received.most() - session.readReceived) : stored.most();
    }

    private void logOnce(Session session, String topic) {
        if (!session.holds) {
            session.holds = true;
            LOG.warn("the broker stores {} MB (limit: {}): nothing is written to topic '{}' before the reader of session"
                    + " '{}' has caught up", stored.most() >> 20, limit >> 20, topic, session.name);
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
        stored.sentSince += bytes;
        received.sentSince += bytes;
        for (Session session : receivers(message.topic)) {
            session.sent += bytes;
        }
    }

    /** Returns the markers to send behind the messages added so far; most often none. */
    List<OutgoingMessage> markers(String topic, long nowNanos) {
        List<OutgoingMessage> due = new ArrayList<>();
        for (Session session : limit == 0 ? List.<Session>of() : receivers(topic)) {
            boolean filling = most(session) >= limit / 2;
            long pauseNanos = session.closedToMarkers ? REJECTED_NANOS : MARKER_NANOS;
            boolean waits = session.marked && nowNanos - session.markedNanos < pauseNanos;
            boolean hasBacklog = !session.answers || unread(session) >= limit / WINDOWS / 4;
            if (filling && hasBacklog && !waits) {
                session.marked = true;
                session.markedNanos = nowNanos;
                due.add(marker(session));
            }
        }
        return due;
    }

    private OutgoingMessage marker(Session session) {
        String topic = MARKERS + session.name;
        // Of what the broker has received without what was sent since: its size on the wire is larger than counted there.
        byte[] text = "%s/%d/%d/%d".formatted(id, session.sent, connections, received.value)
                .getBytes(StandardCharsets.UTF_8);
        return new OutgoingMessage(markers, topic, topic.getBytes(StandardCharsets.UTF_8), text, null, null, null);
    }
}
