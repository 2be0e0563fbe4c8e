package io.speck.mqtt.net;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a connection to one persistent session, and gives it up for good when a newer reader takes the session.
 *
 * <p>The reader checks the fence before the session is taken, and once more after. A lost connection is opened again,
 * with growing pauses, until {@link #close} or a failure; {@link #throwFailure} throws that failure. Shares the
 * reader's lock and condition, and signals the condition at each change of its state.
 */
public final class SessionKeeper implements ConnectionListener {
    private static final Logger LOG = LoggerFactory.getLogger(SessionKeeper.class);
    private static final Duration CONNECT_TRY = Duration.ofSeconds(10);
    private static final long FIRST_BACKOFF_MILLIS = 100;
    private static final long BACKOFF_CAP_MILLIS = 5_000;
    /** A connection that ends sooner is a sign of another client that takes the session. */
    private static final long SHORT_LIFE_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int SHORT_LIVES_ALLOWED = 6;
    private static final int REQUEST_ID = 2;
    private static final int NOTE_ID = 3;
    /** Reason codes from this one on are refusals (MQTT 5, 2.4). */
    private static final int REFUSED = 0x80;
    private static final long FIRST_REPETITION_MILLIS = 1_000;
    private static final long REPETITION_CAP_MILLIS = 30_000;

    /** A reader that the broker refuses for so long, in seconds, ends: a job that reads nothing must not seem to run. */
    private static final String REFUSED_SECONDS = "speck.source.refusedSeconds";
    private static final int DEFAULT_REFUSED_SECONDS = 60;

    /** The reader of the session. */
    public interface Reader {
        /** The number of messages that the broker must be able to have in flight in any case; lock held. */
        int unacknowledged();

        /** The topic filters of the session's subscription, the reader's own first. */
        List<String> filters();

        /** True if topics may come as numbers on the next connection; lock not held. */
        boolean permitsTopicAliases(Duration timeout) throws InterruptedException;

        /**
         * Checks that this reader may still read the session; lock not held.
         *
         * @throws TakenOverException if the fence names a newer attempt, or the session's deletion
         * @throws BrokerException if the fence cannot be read
         */
        void checkFence(Duration timeout) throws InterruptedException;

        /**
         * Checks that a session that the broker did not have may be made; lock not held.
         *
         * @param asking true if writers are to fill it: until they are asked, its note says so to the next reader
         * @throws TakenOverException if the session was deleted
         * @throws BrokerException if that cannot be read
         */
        void checkNote(boolean asking, Duration timeout) throws InterruptedException;

        /** A connection is open; no message has arrived on it, and the fence was not checked again yet; lock held. */
        void begin(Connection opened);

        /** The fence still admits this reader, and with it the messages of this connection; lock held. */
        void confirmed();

        /** A message has arrived, perhaps on a connection that is no longer the present one; lock not held. */
        void published(Connection from, MqttPublishMessage packet);

        /** The broker has handled all packets written before the ping; lock held. */
        void answered();

        /** Reading has ended for good: {@link #throwFailure} throws the cause; lock held. */
        default void failed() {}
    }

    private final SourceSettings settings;
    private final ReentrantLock lock;
    private final Condition changed;
    private final Reader reader;
    private final Backoff backoff = new Backoff(FIRST_BACKOFF_MILLIS, BACKOFF_CAP_MILLIS);
    private final Backoff requestBackoff = new Backoff(FIRST_REPETITION_MILLIS, REPETITION_CAP_MILLIS);

    private Connection connection;
    private int generation;
    private boolean ready;
    private boolean reconnecting;
    private boolean closed;
    private int shortLives;
    private long openedNanos;
    private long connectionCount;
    private MqttException failure;
    /** When the broker began to refuse this reader, in {@link System#nanoTime}; null while it does not. */
    private Long refusedSinceNanos;
    /** The id of a request to resend that the broker has not accepted yet; null for none. */
    private volatile String resendRequest;
    private boolean requestRefused;
    /** A refused request is repeated at this time of {@link System#nanoTime}, also on a connection opened meanwhile. */
    private long repetitionNanos;
    private Supplier<RetainedText> noteBehindRequest;

    public SessionKeeper(SourceSettings settings, ReentrantLock lock, Condition changed, Reader reader) {
        this.settings = settings;
        this.lock = lock;
        this.changed = changed;
        this.reader = reader;
    }

    /** The present connection, or null; lock held. */
    public Connection connection() {
        return connection;
    }

    /** The number of the present connection, or -1 for none; packet ids are valid within one connection. */
    public int generation() {
        return connection == null ? -1 : generation;
    }

    public boolean connected() {
        return connection != null && ready;
    }

    public long reconnections() {
        return Math.max(0, connectionCount - 1);
    }

    /** Connects for the first time, and retries until the connect time-out. */
    public void connectFirst() throws InterruptedException {
        long deadline = System.nanoTime() + settings.connectTimeout().toNanos();
        while (true) {
            try {
                connect(remaining(deadline));
                return;
            } catch (BrokerException e) {
                long pause = backoff.nextMillis();
                if (e.refused() || System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause) > deadline) {
                    throw new BrokerException("cannot read topic '" + settings.topic() + "' as client '"
                            + settings.clientId() + "': " + e.getMessage(), e.refused());
                }
                Thread.sleep(pause);
            }
        }
    }

    private static Duration remaining(long deadline) {
        long remainingNanos = Math.max(TimeUnit.MILLISECONDS.toNanos(100), deadline - System.nanoTime());
        return remainingNanos < CONNECT_TRY.toNanos() ? Duration.ofNanos(remainingNanos) : CONNECT_TRY;
    }

    /** Checks the fence before and after taking the session, and so yields to a newer attempt named in between. */
    private void connect(Duration timeout) throws InterruptedException {
        reader.checkFence(timeout);
        boolean aliases = reader.permitsTopicAliases(timeout);
        Session session = Session.persistent(settings.clientId(), receiveMaximum());
        Connection opened = Connection.open(
                settings.login(), aliases ? session.withTopicAliases() : session, this, timeout);
        try {
            throwFailure();
            if (!opened.sessionPresent()) {
                reader.checkNote(isAsking(), timeout);
            }
            subscribe(opened, timeout);
            reader.checkFence(timeout);
        } catch (DataLossException e) {
            drop(opened);
            opened.closeAndEndSession();
            throw e;
        } catch (TakenOverException e) {
            drop(opened);
            end(opened);
            throw e;
        } catch (MqttException | InterruptedException e) {
            drop(opened);
            opened.abandon();
            throw e;
        }
        established(opened);
    }

    private void subscribe(Connection opened, Duration timeout) throws InterruptedException {
        if (settings.topic() == null) {
            return;
        }
        if (opened.sessionPresent()) {
            opened.subscribeBehindMessages(reader.filters(), this::fail);
        } else {
            opened.subscribe(reader.filters(), timeout);
        }
    }

    /** Ends a session that this connection has made, since nobody would delete it; leaves another as it is. */
    private static void end(Connection opened) {
        if (opened.sessionPresent()) {
            opened.abandon();
        } else {
            opened.closeAndEndSession();
        }
    }

    private void drop(Connection opened) {
        lock.lock();
        try {
            connection = connection == opened ? null : connection;
        } finally {
            lock.unlock();
        }
    }

    /** A batch to be redelivered must fit, even if the setting is lower now. */
    private int receiveMaximum() {
        lock.lock();
        try {
            return Math.min(SourceSettings.LARGEST_RECEIVE_MAXIMUM,
                    Math.max(settings.receiveMaximum(), reader.unacknowledged()));
        } finally {
            lock.unlock();
        }
    }

    private void established(Connection opened) {
        lock.lock();
        try {
            if (connection != opened) {
                throw new BrokerException(settings.session() + ": the connection was lost at once", false);
            }
            ready = true;
            connectionCount++;
            sendRequest();
            reader.confirmed();
            changed.signalAll();
            if (closed) {
                opened.abandon();
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Asks writers to send the lost messages of the topic again once the session is established; lock held.
     *
     * @param note gives what the note of the session says once they are asked; null if it says so already
     */
    public void requestResend(Supplier<RetainedText> note) {
        noteBehindRequest = note;
        resendRequest = UUID.randomUUID().toString().replace("-", "");
    }

    /** True while the broker has not accepted a request to resend. */
    public boolean isAsking() {
        return resendRequest != null;
    }

    private void sendRequest() {
        if (resendRequest == null) {
            return;
        }
        long pauseNanos = requestRefused ? repetitionNanos - System.nanoTime() : 0;
        if (pauseNanos > 0) { // some brokers end the connection as well: the reader has to read in between
            Connection present = connection;
            present.executeLater(() -> repeatRequest(present), TimeUnit.NANOSECONDS.toMillis(pauseNanos) + 1);
            return;
        }
        connection.retain(ResendRequest.TOPICS + resendRequest, settings.topic(),
                ResendRequest.EXPIRY_SECONDS, REQUEST_ID);
    }

    /** The note stays pending until the broker has accepted the request, so that the next reader would ask as well. */
    @Override
    public void acknowledged(Connection from, int packetId, int reason) {
        lock.lock();
        try {
            if (from != connection || packetId != REQUEST_ID || resendRequest == null) {
                return;
            }
            if (reason >= REFUSED) {
                repeatLater(reason);
                return;
            }
            resendRequest = null;
            requestRefused = false;
            requestBackoff.reset();
            RetainedText note = noteBehindRequest.get();
            if (note != null) {
                from.retain(note.topic(), note.text(), 0, NOTE_ID);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Repeats a refused request after growing pauses: a right may be granted, and a quota be free again; lock held. */
    private void repeatLater(int reason) {
        if (!requestRefused) {
            requestRefused = true;
            LOG.warn("{}: broker {} refuses the request at '{}{}' to send the messages of the lost session again: {}"
                    + " (expected the right to write to '{}+'); it is repeated until it is accepted",
                    settings.session(), settings.login(), ResendRequest.TOPICS, resendRequest, ReasonCodes.text(reason),
                    ResendRequest.TOPICS);
        }
        repetitionNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(requestBackoff.nextMillis());
        sendRequest();
    }

    private void repeatRequest(Connection from) {
        lock.lock();
        try {
            if (from == connection && ready) {
                sendRequest();
            }
        } finally {
            lock.unlock();
        }
    }

    private void reconnect() {
        try {
            while (backoff.pause(lock, changed, () -> closed)) {
                try {
                    connect(CONNECT_TRY);
                    refusedSinceNanos = null;
                    return;
                } catch (BrokerException e) {
                    LOG.info("{}: not connected yet: {}", settings.session(), e.getMessage());
                    checkRefusal(e);
                }
            }
        } catch (MqttException e) {
            fail(e);
        } catch (InterruptedException e) {
            fail(new BrokerException(settings.session() + ": interrupted while connecting", e));
        } finally {
            reconnectEnded();
        }
    }

    /**
     * Notes a refusal, as after a change of the password. One that goes on ends the reader, so that its engine shows it.
     *
     * @throws BrokerException if the broker has refused the reader for too long
     */
    private void checkRefusal(BrokerException answer) {
        if (!answer.refused()) {
            refusedSinceNanos = null;
            return;
        }
        long now = System.nanoTime();
        refusedSinceNanos = refusedSinceNanos == null ? Long.valueOf(now) : refusedSinceNanos;
        int limit = Integer.getInteger(REFUSED_SECONDS, DEFAULT_REFUSED_SECONDS);
        if (now - refusedSinceNanos >= TimeUnit.SECONDS.toNanos(limit)) {
            throw new BrokerException(settings.session() + " is refused since " + limit + " s: " + answer.getMessage(),
                    true);
        }
    }

    private void reconnectEnded() {
        lock.lock();
        try {
            reconnecting = false;
            if (connection == null && failure == null && !closed) {
                startReconnecting();
            }
        } finally {
            lock.unlock();
        }
    }

    private void startReconnecting() {
        if (!reconnecting) {
            reconnecting = true;
            Runtime.BACKGROUND.execute(this::reconnect);
        }
    }

    @Override
    public void opened(Connection opened) {
        lock.lock();
        try {
            connection = opened;
            generation++;
            openedNanos = System.nanoTime();
            reader.begin(opened);
        } catch (DataLossException e) {
            fail(e);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void published(Connection from, MqttPublishMessage packet) {
        reader.published(from, packet);
    }

    @Override
    public void answered(Connection from) {
        lock.lock();
        try {
            if (from == connection) {
                reader.answered();
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void lost(Connection from, String reason) {
        lock.lock();
        try {
            if (from == connection) {
                connectionEnded(reason);
            }
        } finally {
            lock.unlock();
        }
    }

    private void connectionEnded(String reason) {
        boolean established = ready;
        connection = null;
        ready = false;
        LOG.warn("{}: connection lost: {}", settings.session(), reason);
        changed.signalAll();
        if (System.nanoTime() - openedNanos > SHORT_LIFE_NANOS) {
            shortLives = 0;
            backoff.reset();
        } else {
            shortLives++;
        }
        if (settings.fenceTopic() == null && (reason.startsWith(ReasonCodes.text(ReasonCodes.TAKEN_OVER))
                || shortLives > SHORT_LIVES_ALLOWED)) {
            fail(new TakenOverException("the session of " + settings.session() + " was taken over by another client"
                    + " (" + reason + ")"));
        } else if (established && failure == null && !closed) {
            startReconnecting();
        }
    }

    /** Ends reading for good; the first cause counts. */
    public void fail(MqttException cause) {
        lock.lock();
        try {
            failure = failure == null ? cause : failure;
            changed.signalAll();
            reader.failed();
        } finally {
            lock.unlock();
        }
    }

    public boolean failed() {
        return failure != null;
    }

    public void throwFailure() {
        lock.lock();
        try {
            if (failure != null) {
                throw failure;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Disconnects; the broker keeps the session with all unacknowledged messages. */
    public void close() {
        Connection closing;
        lock.lock();
        try {
            closed = true;
            closing = connection;
            connection = null;
            ready = false;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        if (closing != null) {
            closing.close();
        }
    }
}
