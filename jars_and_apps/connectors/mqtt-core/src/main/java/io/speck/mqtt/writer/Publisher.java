package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.SinkMetrics;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.Runtime;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one connection of this process to a broker for all its writers.
 *
 * <p>Its session is temporary: the publisher holds all unacknowledged messages and sends them again, in order, on the
 * next connection, together with acknowledged ones that the broker may have lost since ({@link Retention}).
 */
final class Publisher implements WriterConnection.Owner {
    private static final Logger LOG = LoggerFactory.getLogger(Publisher.class);
    private static final int WRITE_BYTES = 64 << 10;
    private static final long PROMPT_MILLIS = 1;
    private static final long SLICE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final Login login;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Outbox outbox = new Outbox();
    private final Retention retention;
    private final BackPressure backPressure = new BackPressure();
    private final WireForms forms = new WireForms();
    private final InflightWindow inflight = new InflightWindow();
    private final NewestRetained newestRetained = new NewestRetained();
    private final CautiousSending caution = new CautiousSending();
    private final RefusedForNow refusedForNow = new RefusedForNow(lock, outbox, this::schedulePump);
    private final WriterConnection connection;
    private final Takeover takeover;
    private boolean pumping;
    private boolean pumpScheduled;

    /** Called by {@link Publishers} only. */
    Publisher(Login login) {
        this.login = login;
        this.retention = new Retention(lock, login);
        this.connection = new WriterConnection(login, lock, changed, retention, backPressure, forms, this);
        this.takeover = new Takeover(lock, login, retention, newestRetained, connection, this::forgetConnection);
    }

    Takeover takeover() {
        return takeover;
    }

    /** Another publisher may have left messages since, and the broker may have lost them now. */
    @Override
    public void connecting() {
        takeover.again();
    }

    Login login() {
        return login;
    }

    private <T> T locked(Supplier<T> action) {
        lock.lock();
        try {
            return action.get();
        } finally {
            lock.unlock();
        }
    }

    AckMetrics acks() {
        return locked(() -> inflight.metrics(login.toString()));
    }

    /** See {@link Retention#lastMark}. */
    CompletableFuture<Void> lastMark() {
        return locked(retention::lastMark);
    }

    /** Shuts this publisher down; returns the connection to close, or null. */
    Connection shutDown() {
        Connection closing;
        Runnable rest;
        lock.lock();
        try {
            rest = retention.end();
            closing = connection.shutDown();
        } finally {
            lock.unlock();
        }
        rest.run();
        return closing;
    }

    // ---- connecting ----

    /** @throws BrokerException if there is no connection in time, or the broker refuses the client */
    void awaitConnected(Duration timeout) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            connection.await(timeout);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public boolean holdsMessages() {
        return locked(() -> !retention.isEmpty() || !outbox.isEmpty());
    }

    @Override
    public void opened(Connection opened, long delivered) {
        if (caution.opened(System.nanoTime())) {
            opened.executeLater(opened::ping, CautiousSending.PROOF_MILLIS);
        }
        forms.opened(opened.topicAliasMaximum());
        resend(retention.connected(opened, delivered));
        schedulePump();
    }

    private void resend(List<OutgoingMessage> messages) {
        if (!messages.isEmpty()) {
            LOG.info("broker {}: sends {} messages again, which the broker may have lost", login, messages.size());
            messages.forEach(message -> SinkMetrics.counters(message.job).resent.increment());
            outbox.addFirst(messages);
            schedulePump();
        }
    }

    /** Receives the mark, a report about sessions, or the request of a reader whose session was lost. */
    @Override
    public void published(Connection from, MqttPublishMessage packet) {
        from.acknowledge(packet);
        if (retention.acceptMark(packet)) {
            return;
        }
        lock.lock();
        try {
            if (!connection.isLatest(from) || forms.accept(packet)) {
                return;
            }
            if (backPressure.accept(packet, outbox.bytes())) {
                changed.signalAll();
            } else if (!retention.acceptReport(packet)) {
                List<OutgoingMessage> requested = retention.requested(packet);
                requested.forEach(message -> message.forSession = true);
                resend(requested);
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void answered(Connection from) {
        lock.lock();
        try {
            if (from == connection.current()) {
                retention.answered();
                if (caution.pinged(System.nanoTime())) {
                    schedulePump();
                }
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void lost(Connection from, String reason) {
        lock.lock();
        try {
            if (from == connection.current()) {
                LOG.warn("broker {}: connection for writing lost: {}", login, reason);
                List<OutgoingMessage> unanswered = forgetConnection();
                OutgoingMessage cause = caution.closed(unanswered, System.nanoTime());
                if (cause != null && outbox.peek() == cause) {
                    reject(outbox.remove(), Refusal.byEndOfConnection(reason));
                }
                connection.open();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Returns the messages that were in flight, which are queued again. */
    private List<OutgoingMessage> forgetConnection() {
        connection.drop();
        retention.disconnected();
        pumping = false;
        pumpScheduled = false;
        List<OutgoingMessage> unanswered = inflight.clear();
        outbox.addFirst(unanswered);
        outbox.messages().forEach(message -> message.forSession = false); // the broker may have lost all
        return unanswered;
    }

    // ---- publishing ----

    /** Waits for room in the outbox, until a time-out, and for room at the broker, for as long as it takes. */
    void publish(OutgoingMessage message, Duration timeout) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (!awaitRoom(message, timeout, true)) {
                awaitReaders(message);
            }
            queue(message);
        } finally {
            lock.unlock();
        }
    }

    /**
     * As {@link #publish}, but returns false, without the message queued, if there is no room at the broker, or it is away.
     */
    boolean offer(OutgoingMessage message, Duration timeout) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            boolean room = connection.awaitUnlessAway() && awaitRoom(message, timeout, false);
            if (room) {
                queue(message);
            }
            return room;
        } finally {
            lock.unlock();
        }
    }

    private void queue(OutgoingMessage message) {
        if (message.delivery.retain) {
            newestRetained.add(message);
        }
        outbox.add(message);
        backPressure.add(message);
        message.delivery.outstanding++;
        sendMarkers(message.topic);
        if (outbox.bytes() >= WRITE_BYTES || outbox.full()) {
            schedulePump(); // a smaller amount waits for more, or for the flush: fewer and larger writes
        }
    }

    /**
     * Waits for room in the outbox, and for the disk, until a time-out; false as soon as there is no room at the broker.
     *
     * @param patient false to wait for no broker that is away
     */
    private boolean awaitRoom(OutgoingMessage message, Duration timeout, boolean patient) throws InterruptedException {
        long remainingNanos = timeout.toNanos();
        throwFailure(message.delivery);
        while (backPressure.admits(message) && (patient || !connection.isAway())) {
            if (!outbox.full() && !retention.isBehindAtDisk()) {
                return true;
            }
            if (remainingNanos <= 0) {
                throw timedOut(timeout, message.topic);
            }
            remainingNanos = awaitChange(remainingNanos);
            throwFailure(message.delivery);
        }
        return false;
    }

    /** Waits for a change, for a second at most; returns what remains of the time then. */
    private long awaitChange(long remainingNanos) throws InterruptedException {
        long slice = Math.min(remainingNanos, SLICE_NANOS);
        return remainingNanos - slice + changed.awaitNanos(slice);
    }

    private void awaitReaders(OutgoingMessage message) throws InterruptedException {
        long begin = System.nanoTime();
        sendMarkers(message.topic);
        schedulePump();
        changed.awaitNanos(SLICE_NANOS);
        SinkMetrics.counters(message.job).throttledNanos.add(System.nanoTime() - begin);
    }

    private void sendMarkers(String topic) {
        backPressure.markers(topic, System.nanoTime()).forEach(outbox::add);
    }

    /** Waits until the broker has acknowledged the messages of a writer, and they are on disk as far as they are held. */
    void flush(Delivery writer, Duration timeout) throws InterruptedException {
        awaitAcknowledged(writer, timeout, true);
        retention.force();
    }

    /** As {@link #flush}, but drops and returns what the broker has not acknowledged as soon as it is away. */
    List<UnsentMessage> flushUnlessAway(Delivery writer, Duration timeout) throws InterruptedException {
        List<UnsentMessage> unsent = awaitAcknowledged(writer, timeout, false);
        retention.force();
        return unsent;
    }

    private List<UnsentMessage> awaitAcknowledged(Delivery writer, Duration timeout, boolean patient)
            throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long remainingNanos = timeout.toNanos();
            schedulePump();
            while (writer.outstanding > 0 && (patient || !connection.isAway())) {
                throwFailure(writer);
                if (remainingNanos <= 0) {
                    throw timedOut(timeout, topicOf(writer));
                }
                remainingNanos = awaitChange(remainingNanos);
            }
            throwFailure(writer);
            return writer.outstanding == 0 ? List.of() : withdraw(writer);
        } finally {
            lock.unlock();
        }
    }

    /** Drops and returns the unacknowledged messages of a writer; without a connection, all of them wait to be sent. */
    private List<UnsentMessage> withdraw(Delivery writer) {
        List<UnsentMessage> unsent = outbox.drop(writer).stream().map(OutgoingMessage::unsent).toList();
        caution.drop(writer);
        writer.outstanding = 0;
        changed.signalAll();
        return unsent;
    }

    private BrokerException timedOut(Duration timeout, String topic) {
        return new BrokerException("broker " + login + " did not acknowledge the messages to topic '" + topic
                + "' within " + timeout.toMillis() + " ms (flushTimeout; " + connection.state()
                + (retention.isBehindAtDisk() ? "; the disk of the spool is too slow)" : ")"), false);
    }

    private String topicOf(Delivery writer) {
        return Stream.of(inflight.messages(), outbox.messages()).flatMap(Collection::stream)
                .filter(each -> each.delivery == writer).map(each -> each.topic).findFirst().orElse("");
    }

    private static void throwFailure(Delivery writer) {
        if (writer.failure != null) {
            throw writer.failure;
        }
    }

    List<RefusedMessage> takeRefused(Delivery writer) {
        return locked(writer::takeRefused);
    }

    /** Drops the unacknowledged messages of a writer. */
    void abort(Delivery writer) {
        lock.lock();
        try {
            writer.aborted = true;
            caution.drop(writer);
            if (writer.outstanding > 0) {
                outbox.drop(writer);
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    private void schedulePump() {
        Connection target = connection.current();
        if (!pumping && target != null && !outbox.isEmpty()) {
            pumping = true;
            target.execute(() -> pump(target));
        }
    }

    /** Sends the queued messages after a moment, together with those that are queued until then. */
    void pumpSoon() {
        lock.lock();
        try {
            Connection target = connection.current();
            if (!pumping && !pumpScheduled && target != null && !outbox.isEmpty()) {
                pumpScheduled = true;
                target.executeLater(() -> pump(target), PROMPT_MILLIS);
            }
        } finally {
            lock.unlock();
        }
    }

    /** Sends as many messages as the window allows, each chunk in one write. */
    private void pump(Connection target) {
        lock.lock();
        try {
            if (target != connection.current()) {
                return;
            }
            pumping = false;
            pumpScheduled = false;
            boolean wasFull = outbox.full();
            while (!outbox.isEmpty() && inflight.hasRoom(caution.window(target.receiveMaximum(), outbox.peek()))) {
                send(target);
            }
            inflight.holdsBack(!outbox.isEmpty());
            target.flush();
            if (wasFull && !outbox.full()) {
                changed.signalAll();
            }
        } finally {
            lock.unlock();
        }
    }

    private void send(Connection target) {
        ByteBuf chunk = target.buffer(Math.max(WRITE_BYTES, outbox.peek().bytes()));
        while (!outbox.isEmpty() && inflight.hasRoom(caution.window(target.receiveMaximum(), outbox.peek()))) {
            OutgoingMessage message = outbox.peek();
            int bytes = message.bytes();
            if (bytes > target.maximumPacketBytes()) {
                reject(outbox.remove(), Refusal.tooLarge(target.maximumPacketBytes()));
                continue;
            }
            if (chunk.isReadable() && bytes > chunk.writableBytes()) {
                break;
            }
            outbox.remove();
            boolean retained = newestRetained.retains(message);
            WireForm form = forms.of(message, retained, target.maximumPacketBytes() - bytes);
            message.encode(inflight.add(message), retained, form, chunk);
            Runtime.LOOP_COST.count();
        }
        target.write(chunk);
    }

    @Override
    public void acknowledged(Connection from, int packetId, int reason) {
        lock.lock();
        try {
            OutgoingMessage message = from == connection.current() ? inflight.remove(packetId) : null;
            if (message == null) {
                return;
            }
            retention.answered();
            caution.answered(message);
            if (backPressure.acknowledged(message, reason)) {
                LOG.debug("broker {}: marker for '{}' acknowledged", login, message.topic);
            } else if (reason >= 0x80) {
                reject(message, Refusal.by(reason));
            } else {
                if (!message.acknowledged) {
                    complete(message);
                }
                message.forSession = false;
                retention.hold(message);
            }
            if (inflight.isLow()) {
                schedulePump();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Takes a message out that the broker does not accept. */
    private void reject(OutgoingMessage message, Refusal refusal) {
        if (backPressure.acknowledged(message, BackPressure.REJECTED)) {
            return;
        }
        if (message.acknowledged) {
            if (refusal.ofMessage() || !refusedForNow.add(message)) {
                LOG.warn("broker {} rejected {}, which was sent again: {}", login, message.description(),
                        refusal.why());
                retention.refused(message);
            }
            return;
        }
        String text = "broker " + login + " rejected " + message.description() + ": " + refusal.why();
        if (refusal.ofMessage() && message.delivery.lenient) {
            message.delivery.refuse(message.refused(refusal.maximumPacketBytes(), text));
        } else if (message.delivery.failure == null) {
            message.delivery.failure = new BrokerException(text, true);
        }
        complete(message);
        changed.signalAll();
    }

    private void complete(OutgoingMessage message) {
        message.delivery.outstanding--;
        if (message.delivery.outstanding == 0) {
            changed.signalAll();
        }
    }
}
