package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Backoff;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.ReasonCodes;
import io.speck.mqtt.net.Runtime;
import io.speck.mqtt.net.Session;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one connection of this process to a broker for all that is written there.
 *
 * <p>The session is a passing one: what the broker has not acknowledged is kept here and sent again, in its order, on
 * the next connection, and so is what it took and may have forgotten since ({@link RetransmissionBuffer}, {@link DeliveryMark}). It closes
 * half a minute after the last writer left.
 */
final class Publisher implements ConnectionListener {
    private static final Logger LOG = LoggerFactory.getLogger(Publisher.class);
    private static final Duration CONNECT_TRY = Duration.ofSeconds(10);
    private static final long MARK_MILLIS = 1000;
    private static final int REQUESTS_KNOWN = 1000;
    private static final int WRITE_BYTES = 64 << 10;
    private static final long PROMPT_MILLIS = 1;

    private final Login login;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Outbox queue = new Outbox();
    private final RetransmissionBuffer kept = new RetransmissionBuffer();
    private final DeliveryMark memory = new DeliveryMark();
    private final Set<String> requests = new LinkedHashSet<>();
    private final InflightWindow underWay = new InflightWindow();
    private final Backoff backoff = new Backoff(100, 5_000);
    private long marked;
    private boolean pumping;
    private boolean pumpingSoon;
    private boolean markingSoon;
    private boolean healing;
    private boolean closed;
    private Connection connection;
    private BrokerException lastError;

    /** To be had of {@link Publishers}. */
    Publisher(Login login) {
        this.login = login;
    }

    Login login() {
        return login;
    }

    /** Ends the work of this publisher; returns the connection to be closed, if there is one. */
    Connection leave() {
        lock.lock();
        try {
            Connection leaving = connection;
            if (leaving != null) {
                memory.forget(leaving);
            }
            closed = true;
            connection = null;
            changed.signalAll();
            return leaving;
        } finally {
            lock.unlock();
        }
    }

    // ---- connecting ----

    /** @throws BrokerException when there is no connection in time, or the broker refuses */
    void awaitConnected(Duration timeout) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long left = timeout.toNanos();
            lastError = connection == null && !healing ? null : lastError;
            startHealing();
            while (connection == null) {
                if (left <= 0 || lastError != null && lastError.refused()) {
                    throw new BrokerException("cannot write to broker " + login + ": "
                            + (lastError == null ? "no connection in time" : lastError.getMessage()), lastError);
                }
                left = changed.awaitNanos(left);
            }
        } finally {
            lock.unlock();
        }
    }

    private void startHealing() {
        if (connection == null && !healing && !closed) {
            healing = true;
            Runtime.BACKGROUND.execute(this::heal);
        }
    }

    private void heal() {
        try {
            while (!tryConnect() && pause(backoff.nextMillis())) {
                LOG.debug("broker {}: trying again", login);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            healed();
        }
    }

    private void healed() {
        lock.lock();
        try {
            healing = false;
            startHealing();
        } finally {
            lock.unlock();
        }
    }

    private boolean tryConnect() throws InterruptedException {
        String clientId = "speck-sink-" + UUID.randomUUID().toString().replace("-", "").substring(0, 16);
        memory.begin();
        try {
            Connection opened = Connection.open(login, Session.passing(clientId), this, CONNECT_TRY);
            established(opened, recall(opened, keeps()));
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

    /** Waits; false when nobody needs the connection any more. */
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

    /** Up to which of the messages kept here the broker remembers all. */
    private long recall(Connection opened, boolean wanted) throws InterruptedException {
        try {
            memory.listen(opened, CONNECT_TRY);
            return wanted ? memory.recall(opened, CONNECT_TRY) : 0;
        } catch (BrokerException e) {
            if (!e.refused()) {
                opened.abandon();
                throw e;
            }
            LOG.warn("{}; what it may have lost is sent again whenever the connection was", e.getMessage());
            return 0;
        } catch (InterruptedException e) {
            opened.abandon();
            throw e;
        }
    }

    private boolean keeps() {
        lock.lock();
        try {
            return !kept.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    private void established(Connection opened, long remembered) {
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
            sendAgain(kept.remove(message -> message.keptNumber > remembered), "may have lost them");
            schedulePump();
        } finally {
            lock.unlock();
        }
    }

    private void sendAgain(List<OutgoingMessage> messages, String why) {
        if (!messages.isEmpty()) {
            LOG.info("broker {}: sends {} messages again, since the broker {}", login, messages.size(), why);
            queue.putBack(messages);
            schedulePump();
        }
    }

    /** The broker's mark, or the request of a reader whose session was lost. */
    @Override
    public void published(Connection from, MqttPublishMessage packet) {
        if (memory.takes(packet)) {
            return;
        }
        String filter = packet.payload().toString(StandardCharsets.UTF_8);
        lock.lock();
        try {
            if (!filter.isEmpty() && requests.add(packet.variableHeader().topicName())) {
                sendAgain(kept.remove(message -> TopicFilter.covers(filter, message.topic)),
                        "lost a session that reads '" + filter + "'");
                if (requests.size() > REQUESTS_KNOWN) {
                    requests.remove(requests.iterator().next());
                }
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void answered(Connection from) {
        memory.answered();
    }

    @Override
    public void lost(Connection from, String reason) {
        lock.lock();
        try {
            if (from == connection) {
                LOG.warn("broker {}: connection for writing lost: {}", login, reason);
                connection = null;
                pumping = false;
                pumpingSoon = false;
                takeBack();
                startHealing();
            }
        } finally {
            lock.unlock();
        }
    }

    private void takeBack() {
        queue.putBack(underWay.messages().stream().filter(message -> message.taken || !message.writer.aborted).toList());
        underWay.clear();
    }

    // ---- publishing ----

    void publish(OutgoingMessage message, Duration timeout) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long left = timeout.toNanos();
            while (queue.full()) {
                throwFailure(message.writer);
                if (left <= 0) {
                    throw late(timeout, message.topic);
                }
                left = changed.awaitNanos(left);
            }
            throwFailure(message.writer);
            queue.add(message);
            message.writer.outstanding++;
            if (queue.bytes() >= WRITE_BYTES || queue.full()) {
                schedulePump(); // less than a piece waits for more, or for the flush: fewer and larger writes
            }
        } finally {
            lock.unlock();
        }
    }

    void flush(MqttSink writer, Duration timeout) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long left = timeout.toNanos();
            schedulePump();
            while (writer.outstanding > 0) {
                throwFailure(writer);
                if (left <= 0) {
                    throw late(timeout, topicOf(writer));
                }
                left = changed.awaitNanos(left);
            }
            throwFailure(writer);
        } finally {
            lock.unlock();
        }
    }

    private BrokerException late(Duration timeout, String topic) {
        String state = connection != null ? "connected"
                : lastError == null ? "not connected" : "not connected: " + lastError.getMessage();
        return new BrokerException("broker " + login + " did not take what was written to topic '" + topic
                + "' within " + timeout.toMillis() + " ms (flushTimeout; " + state + ")", false);
    }

    private String topicOf(MqttSink writer) {
        for (Iterable<OutgoingMessage> each : List.of(underWay.messages(), queue.messages())) {
            for (OutgoingMessage message : each) {
                if (message.writer == writer) {
                    return message.topic;
                }
            }
        }
        return "";
    }

    private static void throwFailure(MqttSink writer) {
        if (writer.failure != null) {
            throw writer.failure;
        }
    }

    /** What the writer has not got rid of is forgotten. */
    void abort(MqttSink writer) {
        lock.lock();
        try {
            writer.aborted = true;
            if (writer.outstanding > 0) {
                queue.drop(writer);
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    private void schedulePump() {
        if (!pumping && connection != null && !queue.isEmpty()) {
            pumping = true;
            Connection target = connection;
            target.execute(() -> pump(target));
        }
    }

    /**
     * Sends what there is in a moment, so that what comes until then goes along in the same write.
     */
    void pumpSoon() {
        lock.lock();
        try {
            if (!pumping && !pumpingSoon && connection != null && !queue.isEmpty()) {
                pumpingSoon = true;
                Connection target = connection;
                target.executeLater(() -> pump(target), PROMPT_MILLIS);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Sends as much as the window allows, in pieces that are each one write. */
    private void pump(Connection target) {
        lock.lock();
        try {
            if (target != connection) {
                return;
            }
            pumping = false;
            pumpingSoon = false;
            boolean wasFull = queue.full();
            while (!queue.isEmpty() && underWay.hasRoom(target.receiveMaximum())) {
                send(target);
            }
            target.flush();
            if (wasFull && !queue.full()) {
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    private void send(Connection target) {
        ByteBuf piece = target.buffer(Math.max(WRITE_BYTES, queue.peek().bytes()));
        while (!queue.isEmpty() && underWay.hasRoom(target.receiveMaximum())) {
            OutgoingMessage message = queue.peek();
            int bytes = message.bytes();
            if (bytes > target.maximumPacketBytes()) {
                refuse(queue.remove(), "its " + bytes + " bytes are more than the broker's maximum packet size of "
                        + target.maximumPacketBytes());
                continue;
            }
            if (piece.isReadable() && bytes > piece.writableBytes()) {
                break;
            }
            queue.remove();
            message.encode(underWay.add(message), piece);
        }
        target.write(piece);
    }

    @Override
    public void acknowledged(Connection from, int packetId, int reason) {
        lock.lock();
        try {
            OutgoingMessage message = from == connection ? underWay.remove(packetId) : null;
            if (message == null) {
                return;
            }
            if (reason >= 0x80) {
                refuse(message, ReasonCodes.text(reason));
            } else {
                if (!message.taken) {
                    settle(message);
                }
                keep(message);
            }
            if (underWay.isLow()) {
                schedulePump();
            }
        } finally {
            lock.unlock();
        }
    }

    private void refuse(OutgoingMessage message, String why) {
        if (message.taken) {
            LOG.warn("broker {} does not take a message to topic '{}' again: {}", login, message.topic, why);
            return;
        }
        if (message.writer.failure == null) {
            message.writer.failure = new BrokerException("broker " + login + " does not take a message to topic '"
                    + message.topic + "': " + why, true);
        }
        settle(message);
        changed.signalAll();
    }

    private void keep(OutgoingMessage message) {
        kept.add(message, System.nanoTime());
        if (!markingSoon) {
            markingSoon = true;
            Runtime.LOOPS.schedule(this::mark, MARK_MILLIS, TimeUnit.MILLISECONDS);
        }
    }

    /** Has the broker remember how far it came; and lets go of what it is long since sure to. */
    private void mark() {
        lock.lock();
        try {
            kept.trim(System.nanoTime());
            markingSoon = !kept.isEmpty() && !closed;
            if (markingSoon) {
                Runtime.LOOPS.schedule(this::mark, MARK_MILLIS, TimeUnit.MILLISECONDS);
            }
            if (connection != null && marked < kept.last()) {
                marked = kept.last();
                memory.mark(connection, marked);
            }
        } finally {
            lock.unlock();
        }
    }

    private void settle(OutgoingMessage message) {
        message.writer.outstanding--;
        if (message.writer.outstanding == 0) {
            changed.signalAll();
        }
    }
}
