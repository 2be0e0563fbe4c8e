package io.speck.mqtt.reader;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.reader.FenceText;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.RetainedText;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.net.TopicAliases;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The retained message that names the attempt allowed to read a session, and which process of it.
 *
 * <p>An engine may run an attempt twice: it restarts a task while the old one lives, cut off. So each process claims
 * the fence when it begins, above the claim it finds: the last to write reads, the others end at their next look.
 *
 * <p>A broker that was killed may restart without the fence, or with an older one; the reader then writes it again. A
 * process that begins meanwhile knows no claim to exceed, and its clock may be behind. So a process gives way to each
 * claim above the one that it found when it began: that is of a later process, be it lower than its own. One that found
 * no fence when it began gives way to higher claims than its own. A fence that names the deletion of the session ends the
 * reader, which must not make it anew.
 */
final class Fence {
    private static final String TOPICS = "speck/fence/";
    private static final String NOTES = "speck/session/";
    /**
     * A broker may send retained messages after its answer to the ping that follows the subscription. One that has sent its
     * version before that sends them in order; another one may read them from its storage meanwhile, as HiveMQ does. What is
     * missed counts as gone: an older attempt would raise its own fence again, over a newer one.
     */
    private static final long GRACE_MILLIS = 100;
    private static final long LONG_GRACE_MILLIS = 2000;
    private static final int WRITE_ID = 2;
    private static final Pattern PENDING = Pattern.compile(",\\s*\"pending\"\\s*:\\s*true");

    private final SourceSettings settings;
    private final String nonce = randomId();
    /** Unix time, ms. */
    private final LongSupplier clock;
    private final BooleanSupplier compact;
    /** 0 until this process has claimed the fence. */
    private long claim;
    /** The highest claim of the processes that began before this one. */
    private long earlier;
    private String owner = "";
    /** True once the broker had no fence: it has lost its memory, or nobody has fenced the session. */
    private volatile boolean forgotten;
    /** The session's note at the last look; null for none. */
    private volatile String note;

    /** @param compact true while this process reads stamps in their binary form, which its claim tells the writers */
    Fence(SourceSettings settings, BooleanSupplier compact) {
        this(settings, System::currentTimeMillis, compact);
    }

    Fence(SourceSettings settings, LongSupplier clock) {
        this(settings, clock, () -> false);
    }

    private Fence(SourceSettings settings, LongSupplier clock, BooleanSupplier compact) {
        this.settings = settings;
        this.clock = clock;
        this.compact = compact;
    }

    private static String randomId() {
        return UUID.randomUUID().toString().replace("-", "");
    }

    /**
     * Reads fence and note, claims the fence at the first call, and raises one that is missing or too low.
     * @throws TakenOverException if it names a newer attempt, a later process of this one, or the session's deletion
     * @throws BrokerException if it cannot be read
     */
    void check(Duration timeout) throws InterruptedException {
        String topic = settings.fenceTopic();
        if (topic == null) {
            return;
        }
        String noteTopic = noteTopic();
        Map<String, String> retained = retained(noteTopic == null ? List.of(topic) : List.of(topic, noteTopic), timeout);
        String text = retained.get(topic);
        note = noteTopic == null ? null : retained.get(noteTopic);
        FenceText found = text == null ? null : FenceText.parse(text, topic, settings.attempt());
        if (found == null) {
            forgotten = true;
            restoreNote(timeout);
        }
        if (isToBeRaised(found)) {
            FenceText raised = new FenceText(settings.attempt(), claim, nonce, owner, false, compact.getAsBoolean());
            retain(topic, raised.toJson(), timeout);
        }
    }

    private boolean isToBeRaised(FenceText found) {
        if (found != null) {
            owner = found.owner().isEmpty() ? owner : found.owner();
            rejectDeleted(found);
            rejectNewer(found);
        }
        boolean same = found != null && found.attempt() == settings.attempt();
        if (claim == 0) {
            // The time orders processes that both found no fence, as far as their clocks agree.
            claim = Math.max(same ? found.claim() + 1 : 1, clock.getAsLong());
            earlier = same ? found.claim() : claim - 1;
        }
        return !same || found.claim() < claim;
    }

    private void rejectDeleted(FenceText found) {
        if (found.deleted() && found.attempt() >= settings.attempt()) {
            throw new TakenOverException("the session of " + settings.session() + " was deleted");
        }
    }

    private void rejectNewer(FenceText found) {
        String taken = "the session of " + settings.session() + " was taken over by ";
        if (found.attempt() > settings.attempt()) {
            throw new TakenOverException(taken + "attempt " + found.attempt() + " (this is attempt "
                    + settings.attempt() + ")");
        }
        boolean same = found.attempt() == settings.attempt() && claim > 0;
        if (same && found.claim() > earlier && !found.nonce().equals(nonce)) {
            throw new TakenOverException(taken + "a later process of attempt " + settings.attempt()
                    + " (the engine has started it again)");
        }
    }

    /**
     * Checks that a session that the broker does not have may be made: its note is there, or the broker has lost both
     * note and fence. If writers are to be asked for its messages ({@code asking}), the note is pending from then on: the
     * broker has the session by now, so that nothing else would let a later process ask, should this one end before.
     *
     * @throws TakenOverException if the note is gone
     */
    void checkNote(boolean asking, Duration timeout) throws InterruptedException {
        String topic = noteTopic();
        if (topic != null && !forgotten && retained(topic, timeout) == null) {
            throw new TakenOverException("the session of " + settings.session()
                    + " was deleted (there is no message at '" + topic + "')");
        }
        String last = note;
        int end = last == null ? -1 : last.lastIndexOf('}');
        if (asking && end > 0 && !isNotePending()) {
            note = last.substring(0, end) + ", \"pending\": true}";
            retain(topic, note, timeout);
        }
    }

    /**
     * Writes the note again, before the session is made. It is pending: what the session has collected is not known. A
     * process that has seen no owner names none.
     */
    private void restoreNote(Duration timeout) throws InterruptedException {
        if (noteTopic() != null && settings.topic() != null && note == null) {
            String named = owner.isEmpty() ? "" : ", \"owner\": \"" + owner + "\"";
            note = "{\"topics\": [" + quoted(settings.topic()) + "]" + named + ", \"pending\": true}";
            retain(noteTopic(), note, timeout);
        }
    }

    /**
     * True if the session may not have collected all of its topic: the broker saved it, or its maker ended, before it was
     * complete.
     */
    boolean isNotePending() {
        String last = note;
        return last != null && PENDING.matcher(last).find();
    }

    /** True if a session that the broker does not have was lost with its fence, or before it was complete. */
    boolean tellsOfLoss() {
        return forgotten || isNotePending();
    }

    /** The note of the session once it is complete; null if it is not pending. */
    RetainedText completeNote() {
        return isNotePending() ? new RetainedText(noteTopic(), PENDING.matcher(note).replaceFirst("")) : null;
    }

    /** The topic of the session's note; null for a fence that is not of a session of SpecK. */
    private String noteTopic() {
        String topic = settings.fenceTopic();
        return topic != null && topic.startsWith(TOPICS) ? NOTES + topic.substring(TOPICS.length()) : null;
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        text.codePoints().forEach(each -> {
            if (each == '"' || each == '\\') {
                quoted.append('\\').appendCodePoint(each);
            } else if (each < 0x20) {
                quoted.append(String.format("\\u%04x", each));
            } else {
                quoted.appendCodePoint(each);
            }
        });
        return quoted.append('"').toString();
    }

    // ---- requests, each over a connection of its own ----

    /** Returns the retained message of a topic; null if there is none. */
    String retained(String topic, Duration timeout) throws InterruptedException {
        return retained(List.of(topic), timeout).get(topic);
    }

    /** Returns the retained messages of topics, by topic. */
    private Map<String, String> retained(List<String> topics, Duration timeout) throws InterruptedException {
        Reader reader = new Reader(topics);
        Connection connection = open(reader, timeout);
        try {
            connection.subscribe(Stream.concat(topics.stream(), Stream.of(TopicAliases.BROKER_VERSION)).distinct().toList(),
                    timeout);
            connection.ping();
            return reader.texts(timeout);
        } finally {
            connection.closeAndEndSession();
        }
    }

    private void retain(String topic, String text, Duration timeout) throws InterruptedException {
        Reader reader = new Reader(List.of());
        Connection connection = open(reader, timeout);
        try {
            connection.retain(topic, text, 0, WRITE_ID);
            reader.awaitWritten(timeout);
        } finally {
            connection.closeAndEndSession();
        }
    }

    private Connection open(Reader reader, Duration timeout) throws InterruptedException {
        return Connection.open(settings.login(), Session.temporary("fence-" + randomId()), reader, timeout);
    }

    private static final class Reader implements ConnectionListener {
        private final List<String> awaited;
        private final Map<String, String> texts = new ConcurrentHashMap<>();
        private final CompletableFuture<Void> complete = new CompletableFuture<>();
        private final CompletableFuture<Void> answered = new CompletableFuture<>();
        private final CompletableFuture<Void> written = new CompletableFuture<>();

        Reader(List<String> awaited) {
            this.awaited = awaited;
        }

        @Override
        public void published(Connection connection, MqttPublishMessage message) {
            connection.acknowledge(message); // HiveMQ may send the others after that
            texts.put(message.variableHeader().topicName(), message.payload().toString(StandardCharsets.UTF_8));
            if (texts.keySet().containsAll(awaited)) {
                complete.complete(null);
            }
        }

        @Override
        public void answered(Connection connection) {
            answered.complete(null);
        }

        @Override
        public void lost(Connection connection, String reason) {
            BrokerException end = new BrokerException("broker " + connection.login() + ": " + reason, false);
            complete.completeExceptionally(end);
            answered.completeExceptionally(end);
            written.completeExceptionally(end);
        }

        /** Completes on a refusal too: a reader that may not raise the fence reads without one. */
        @Override
        public void acknowledged(Connection connection, int packetId, int reason) {
            written.complete(null);
        }

        void awaitWritten(Duration timeout) throws InterruptedException {
            try {
                written.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            } catch (TimeoutException | ExecutionException e) {
                throw new BrokerException("the fence cannot be raised: " + e.getMessage(), e);
            }
        }

        Map<String, String> texts(Duration timeout) throws InterruptedException {
            try {
                CompletableFuture.anyOf(complete, answered).get(timeout.toMillis(), TimeUnit.MILLISECONDS);
                boolean ordered = texts.containsKey(TopicAliases.BROKER_VERSION);
                complete.get(ordered ? GRACE_MILLIS : LONG_GRACE_MILLIS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                if (!answered.isDone()) {
                    throw new BrokerException("the broker did not send the fence in time", false);
                }
            } catch (ExecutionException e) {
                throw new BrokerException("the fence cannot be read: " + e.getCause().getMessage(), e.getCause());
            }
            return texts;
        }
    }
}
