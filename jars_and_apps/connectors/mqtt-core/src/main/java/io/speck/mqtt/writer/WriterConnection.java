package io.speck.mqtt.writer;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Backoff;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Runtime;
import io.speck.mqtt.net.Session;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connection of a {@link Publisher}: opened in the background, with growing pauses between the tries, and subscribed
 * to what the broker reports before it is used. Shares the publisher's lock and condition; its callers hold the lock
 * unless said otherwise.
 */
final class WriterConnection {
    private static final Logger LOG = LoggerFactory.getLogger(WriterConnection.class);
    private static final Duration CONNECT_TRY = Duration.ofSeconds(10);
    /** A broker without a connection for this time is away. */
    private static final long AWAY_NANOS = TimeUnit.SECONDS.toNanos(3);

    /** The publisher, as its connection sees it. */
    interface Owner extends ConnectionListener {
        /** A connection is about to be opened. */
        void connecting();

        /** True if the broker may still lose messages that it has acknowledged. */
        boolean holdsMessages();

        /**
         * A connection is open.
         *
         * @param delivered the number up to which the broker has all messages of the retransmission buffer
         */
        void opened(Connection opened, long delivered);
    }

    private final Login login;
    private final ReentrantLock lock;
    private final Condition changed;
    private final Retention retention;
    private final BackPressure backPressure;
    private final WireForms forms;
    private final Owner owner;
    private final Backoff backoff = new Backoff(100, 5_000);
    private boolean reconnecting;
    /** When the tries began, while there are any. */
    private long reconnectingSince;
    private boolean closed;
    private Connection connection;
    /** The one opened last, whose reports count: they begin before it is the present one. */
    private Connection latest;
    private BrokerException lastError;

    WriterConnection(Login login, ReentrantLock lock, Condition changed, Retention retention, BackPressure backPressure,
            WireForms forms, Owner owner) {
        this.login = login;
        this.lock = lock;
        this.changed = changed;
        this.retention = retention;
        this.backPressure = backPressure;
        this.forms = forms;
        this.owner = owner;
    }

    /** The present connection, or null. */
    Connection current() {
        return connection;
    }

    boolean isClosed() {
        return closed;
    }

    /** True if this is the connection that was opened last. */
    boolean isLatest(Connection from) {
        return from == latest;
    }

    /** Forgets the present connection, and returns it; null if there is none. */
    Connection drop() {
        Connection former = connection;
        connection = null;
        return former;
    }

    /** Ends all tries; returns the connection to close, or null. */
    Connection shutDown() {
        closed = true;
        changed.signalAll();
        return drop();
    }

    /** The state in words, for errors. */
    String state() {
        return connection != null ? "connected"
                : lastError == null ? "not connected" : "not connected: " + lastError.getMessage();
    }

    /**
     * Waits for a connection.
     *
     * @throws BrokerException if there is none in time, or the broker refuses the client
     */
    void await(Duration timeout) throws InterruptedException {
        long remainingNanos = timeout.toNanos();
        while (isMissing()) {
            if (remainingNanos <= 0) {
                throw failure();
            }
            remainingNanos = changed.awaitNanos(remainingNanos);
        }
    }

    /** True if there is no connection, which is being opened then; throws the error of a broker that refuses the client. */
    private boolean isMissing() {
        lastError = connection == null && !reconnecting ? null : lastError;
        open();
        if (connection == null && lastError != null && lastError.refused()) {
            throw failure();
        }
        return connection == null;
    }

    private BrokerException failure() {
        return new BrokerException("cannot write to broker " + login + ": "
                + (lastError == null ? "no connection in time" : lastError.getMessage()),
                lastError != null && lastError.refused());
    }

    /**
     * Waits for a connection; false as soon as the broker is away.
     *
     * @throws BrokerException if the broker refuses the client
     */
    boolean awaitUnlessAway() throws InterruptedException {
        while (isMissing()) {
            long remainingNanos = AWAY_NANOS - (System.nanoTime() - reconnectingSince);
            if (remainingNanos <= 0) {
                return false;
            }
            changed.awaitNanos(remainingNanos);
        }
        return true;
    }

    /** True if the broker has not been reached for some time. */
    boolean isAway() {
        return connection == null && !closed && System.nanoTime() - reconnectingSince >= AWAY_NANOS;
    }

    /** Begins to connect, unless there is a connection. */
    void open() {
        if (connection == null && !reconnecting && !closed) {
            reconnecting = true;
            reconnectingSince = System.nanoTime();
            Runtime.BACKGROUND.execute(this::reconnect);
        }
    }

    // ---- in the background, the lock not held ----

    private void reconnect() {
        try {
            while (!tryConnect() && backoff.pause(lock, changed, () -> closed)) {
                LOG.debug("broker {}: connecting again", login);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            reconnectEnded();
        }
    }

    private void reconnectEnded() {
        lock.lock();
        try {
            reconnecting = false;
            open();
        } finally {
            lock.unlock();
        }
    }

    private boolean tryConnect() throws InterruptedException {
        String clientId = "speck-sink-" + UUID.randomUUID().toString().replace("-", "").substring(0, 16);
        owner.connecting();
        prepare();
        try {
            Connection opened = Connection.open(login, Session.temporary(clientId), owner, CONNECT_TRY);
            begin(opened);
            established(opened, readMark(opened, owner.holdsMessages()));
            return true;
        } catch (BrokerException e) {
            LOG.info("{}", e.getMessage());
            lock.lock();
            try {
                lastError = e;
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            return false;
        }
    }

    private void prepare() {
        lock.lock();
        try {
            retention.reset();
            backPressure.reset();
            forms.reset();
        } finally {
            lock.unlock();
        }
    }

    private void begin(Connection opened) {
        lock.lock();
        try {
            latest = opened;
        } finally {
            lock.unlock();
        }
    }

    /** A broker may refuse all but the first. */
    private List<String> filters() {
        List<String> filters = new ArrayList<>(retention.filters());
        filters.addAll(forms.filters());
        filters.addAll(backPressure.filters());
        return filters;
    }

    /** Returns the number up to which the broker has all messages of the retransmission buffer. */
    private long readMark(Connection opened, boolean needed) throws InterruptedException {
        try {
            opened.subscribe(filters(), CONNECT_TRY);
            return retention.readMark(opened, needed, CONNECT_TRY);
        } catch (BrokerException e) {
            if (!e.refused()) {
                opened.abandon();
                throw e;
            }
            LOG.warn("{}; messages that it may have lost are sent again after each lost connection", e.getMessage());
            return 0;
        } catch (InterruptedException e) {
            opened.abandon();
            throw e;
        }
    }

    private void established(Connection opened, long delivered) {
        lock.lock();
        try {
            if (closed || !opened.active()) {
                opened.abandon();
                throw new BrokerException("broker " + login + ": the connection was lost at once", false);
            }
            connection = opened;
            lastError = null;
            backoff.reset();
            changed.signalAll();
            owner.opened(opened, delivered);
        } finally {
            lock.unlock();
        }
    }
}
