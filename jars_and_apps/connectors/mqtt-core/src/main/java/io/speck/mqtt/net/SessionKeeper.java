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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a connection to one persistent session, and gives it up for good when somebody newer reads it.
 *
 * <p>The fence is read before the session is taken, and once more after. A lost connection is opened again, with growing
 * pauses, until {@link #close} or a failure; the failure is kept for {@link #throwFailure}. Shares the reader's lock and
 * condition: the condition is signalled whenever something changed here.
 */
public final class SessionKeeper implements ConnectionListener {
    private static final Logger LOG = LoggerFactory.getLogger(SessionKeeper.class);
    private static final Duration CONNECT_TRY = Duration.ofSeconds(10);
    private static final long FIRST_BACKOFF_MILLIS = 100;
    private static final long BACKOFF_CAP_MILLIS = 5_000;
    /** A connection that ends sooner is a sign that somebody else takes the session. */
    private static final long SHORT_LIFE_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int SHORT_LIVES_ALLOWED = 6;
    private static final int REQUEST_ID = 2;

    /** Who reads what comes over the connection. */
    public interface Reader {
        /** How many messages the broker must be able to have under way, whatever the setting says; lock held. */
        int held();

        /** The topic filters that the session is to be subscribed to, the reader's own first. */
        List<String> filters();

        /**
         * Checks that this reader may read the session still; lock not held.
         *
         * @throws TakenOverException when the fence names a newer attempt
         * @throws BrokerException when the fence cannot be read
         */
        void checkFence(Duration timeout) throws InterruptedException;

        /** A connection is open, nothing came over it yet, and its fence was not read again yet; lock held. */
        void begin(Connection opened);

        /** The fence still names us: what came over this connection is ours; lock held. */
        void confirmed();

        /** A message came, perhaps over a connection that is not the present one any more; lock not held. */
        void published(Connection from, MqttPublishMessage packet);

        /** The broker has handled all that was written before the ping; lock held. */
        void answered();

        /** Nothing will come any more: {@link #throwFailure} says why; lock held. */
        default void failed() {}
    }

    private final SourceSettings settings;
    private final ReentrantLock lock;
    private final Condition changed;
    private final Reader reader;
    private final Backoff backoff = new Backoff(FIRST_BACKOFF_MILLIS, BACKOFF_CAP_MILLIS);

    private Connection connection;
    private int generation;
    private boolean ready;
    private boolean healing;
    private boolean closed;
    private int shortLives;
    private long openedNanos;
    private long connectionCount;
    private MqttException failure;
    /** Of a request to writers that the broker has not taken yet; null for none. */
    private String request;

    public SessionKeeper(SourceSettings settings, ReentrantLock lock, Condition changed, Reader reader) {
        this.settings = settings;
        this.lock = lock;
        this.changed = changed;
        this.reader = reader;
    }

    /** The present connection, or null; to be asked with the lock held. */
    public Connection connection() {
        return connection;
    }

    /** The number of the present connection, or -1 when there is none: packet ids are valid within one. */
    public int generation() {
        return connection == null ? -1 : generation;
    }

    public boolean connected() {
        return connection != null && ready;
    }

    public long reconnections() {
        return Math.max(0, connectionCount - 1);
    }

    /** Connects for the first time, as often as it takes within the connect time-out. */
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
                            + settings.clientId() + "': " + e.getMessage(), e);
                }
                Thread.sleep(pause);
            }
        }
    }

    private static Duration remaining(long deadline) {
        long left = Math.max(TimeUnit.MILLISECONDS.toNanos(100), deadline - System.nanoTime());
        return left < CONNECT_TRY.toNanos() ? Duration.ofNanos(left) : CONNECT_TRY;
    }

    /** The fence is read before the session is taken, and once more after: whoever was named in between sees us go. */
    private void connect(Duration timeout) throws InterruptedException {
        reader.checkFence(timeout);
        Connection opened = Connection.open(
                settings.login(), Session.kept(settings.clientId(), receiveMaximum()), this, timeout);
        try {
            throwFailure();
            opened.subscribe(reader.filters(), timeout);
            reader.checkFence(timeout);
        } catch (DataLossException e) {
            drop(opened);
            opened.close(true);
            throw e;
        } catch (MqttException | InterruptedException e) {
            drop(opened);
            opened.abandon();
            throw e;
        }
        established(opened);
    }

    private void drop(Connection opened) {
        lock.lock();
        try {
            connection = connection == opened ? null : connection;
        } finally {
            lock.unlock();
        }
    }

    /** A batch that is awaited again must fit, whatever the setting says now. */
    private int receiveMaximum() {
        lock.lock();
        try {
            return Math.min(SourceSettings.LARGEST_RECEIVE_MAXIMUM,
                    Math.max(settings.receiveMaximum(), reader.held()));
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

    /** Has writers send again what the broker lost of the topic, as soon as the session stands; lock held. */
    public void askAgain() {
        request = UUID.randomUUID().toString().replace("-", "");
    }

    private void sendRequest() {
        if (request != null) {
            connection.retain(ResendRequest.TOPICS + request, settings.topic(), ResendRequest.EXPIRY_SECONDS, REQUEST_ID);
        }
    }

    @Override
    public void acknowledged(Connection from, int packetId, int reason) {
        lock.lock();
        try {
            if (from == connection) {
                request = null;
            }
        } finally {
            lock.unlock();
        }
    }

    private void heal() {
        try {
            while (pause(backoff.nextMillis())) {
                try {
                    connect(CONNECT_TRY);
                    return;
                } catch (BrokerException e) {
                    LOG.info("{}: not connected yet: {}", settings.session(), e.getMessage());
                }
            }
        } catch (MqttException e) {
            fail(e);
        } catch (InterruptedException e) {
            fail(new BrokerException(settings.session() + ": interrupted while connecting", e));
        } finally {
            healed();
        }
    }

    private void healed() {
        lock.lock();
        try {
            healing = false;
            if (connection == null && failure == null && !closed) {
                startHealing();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits; false when the reader was closed meanwhile. */
    private boolean pause(long millis) throws InterruptedException {
        lock.lock();
        try {
            long left = TimeUnit.MILLISECONDS.toNanos(millis);
            while (!closed && left > 0) {
                left = changed.awaitNanos(left);
            }
            return !closed;
        } finally {
            lock.unlock();
        }
    }

    private void startHealing() {
        if (!healing) {
            healing = true;
            Runtime.BACKGROUND.execute(this::heal);
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
                ended(reason);
            }
        } finally {
            lock.unlock();
        }
    }

    private void ended(String reason) {
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
            startHealing();
        }
    }

    /** Ends the reading for good; the first cause counts. */
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

    /** Leaves; the broker keeps the session and all that was not acknowledged. */
    public void close() {
        Connection leaving;
        lock.lock();
        try {
            closed = true;
            leaving = connection;
            connection = null;
            ready = false;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        if (leaving != null) {
            leaving.close(false);
        }
    }
}
