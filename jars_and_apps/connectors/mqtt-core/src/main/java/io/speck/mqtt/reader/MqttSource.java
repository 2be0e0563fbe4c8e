package io.speck.mqtt.reader;

import io.netty.handler.codec.mqtt.MqttFixedHeader;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.connector.BufferedSource;
import io.speck.connector.RecordedBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.SessionKeeper;
import io.speck.mqtt.net.TopicAliases;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Reads one topic through a persistent session of MQTT 5, whose broker redelivers what is not acknowledged. */
public final class MqttSource extends BufferedSource {
    private static final long PROBE_NANOS = TimeUnit.MILLISECONDS.toNanos(500);
    /** Four times as many messages as wait together. */
    private static final int LEAST_WINDOW = 64;

    private final BatchJournal journal;
    private final RecordedBatches records;
    private final Acknowledgements acknowledgements = new Acknowledgements();
    private final Redelivery redelivery;
    private final RedeliveryWait redeliveryWait = new RedeliveryWait();
    private final ReadPause pause;
    private final Waiter waiter = new Waiter();
    private final SessionKeeper keeper;
    private final Fence fence;

    /** Messages from this offset on are held back until the fence is checked for the second time. */
    private long trustedEnd = Long.MAX_VALUE;
    private boolean sessionExpected;
    private long wakeAt = Long.MAX_VALUE;

    public MqttSource(SourceSettings settings, BatchJournal journal) {
        this(settings, journal, false, new Losses(settings));
    }

    private MqttSource(SourceSettings settings, BatchJournal journal, boolean streaming, Losses losses) {
        super(settings, streaming, losses);
        this.journal = journal;
        this.pause = new ReadPause(settings.bufferBytes());
        this.records = new RecordedBatches(settings, journal, losses);
        this.fence = new Fence(settings, repetitions::resolvesNames);
        Arrivals arrivals = new Arrivals();
        this.redelivery = new Redelivery(acknowledgements, arrivals);
        this.keeper = new SessionKeeper(settings, lock, changed, arrivals);
    }

    /**
     * Creates a reader that returns each message once, as it arrives, by {@link #take}. It has no uncommitted batch
     * after a restart: messages taken after the offset at which it opens are returned again like new ones.
     */
    public static MqttSource streaming(SourceSettings settings, BatchJournal journal) {
        return new MqttSource(settings, journal, true, new Losses(settings));
    }

    /** Creates a reader that empties a session which its job has left, and fails if the session is gone. */
    static MqttSource ofFormerSession(SourceSettings settings, BatchJournal journal, Losses losses) {
        return new MqttSource(settings, journal, false, losses);
    }

    @Override
    public void open(long committedOffset, long uncommittedEnd) throws IOException, InterruptedException {
        committed = committedOffset;
        RecordedBatches.Recovered recovered = records.recover(committedOffset, uncommittedEnd);
        RecordedBatch left = recovered.former();
        if (left != null) {
            openFormer(left, journal);
        }
        SeenStamps seen = hasFormer() ? left.seen() : recovered.seen();
        sessionExpected = recovered.sessionExpected();
        repetitions.restore(hasFormer() ? left.writers() : recovered.writers());
        acknowledgements.restore(recovered.committed());
        if (recovered.awaited() == null) {
            buffer.restore(uncommittedEnd, seen);
        } else {
            buffer.restore(committedOffset, recovered.before(), seen, recovered.awaited());
        }
        keeper.connectFirst();
    }

    // ---- events of the connection ----

    private final class Arrivals implements SessionKeeper.Reader, RedeliveryMatcher.Outcome {
        private final MessageDecoder decoder = new MessageDecoder(settings, repetitions::named);

        @Override
        public int unacknowledged() {
            return buffer.size() + acknowledgements.unconfirmed().size();
        }

        @Override
        public List<String> filters() {
            return OwnTopics.filters(settings);
        }

        /** Only with the binary form of stamps; a broker that does not tell its version, or denies it, sends topics. */
        @Override
        public boolean permitsTopicAliases(Duration timeout) throws InterruptedException {
            try {
                return CompactForm.permitted()
                        && TopicAliases.trusted(fence.retained(TopicAliases.BROKER_VERSION, timeout));
            } catch (BrokerException e) {
                return false;
            }
        }

        @Override
        public void checkFence(Duration timeout) throws InterruptedException {
            repetitions.lookUp(() -> fence.retained(KnownWriters.topic(settings), timeout));
            fence.check(timeout);
        }

        @Override
        public void checkNote(boolean asking, Duration timeout) throws InterruptedException {
            fence.checkNote(asking, timeout);
        }

        @Override
        public void begin(Connection opened) {
            trustedEnd = Math.min(trustedEnd, buffer.next());
            pause.reset();
            redeliveryWait.connected(System.nanoTime());
            acknowledgements.reconnected();
            if (opened.sessionPresent()) {
                redelivery.begin(buffer.messages());
                if (settings.topic() != null && fence.isNotePending() && !keeper.isAsking()) {
                    askWriters();
                }
                return;
            }
            acknowledgements.clear();
            redelivery.beginEmpty();
            if (settings.topic() == null) {
                throw new DataLossException(settings.session() + ": the broker has no such session any more");
            }
            if (buffer.missing() > 0 || sessionExpected) {
                losses.report(Losses.SESSION, awaitsResend() ? 0 : buffer.missing(),
                        "the broker has no such session any more");
                requestResend();
            } else if (fence.tellsOfLoss()) {
                askWriters();
            }
        }

        /** Asks writers to send the messages of the lost session again; they arrive late in the new, empty one. */
        private void requestResend() {
            askWriters();
            if (!awaitsResend()) {
                buffer.dropMissing();
            }
        }

        private void askWriters() {
            counts.addLostSession();
            keeper.requestResend(fence::completeNote);
        }

        @Override
        public void confirmed() {
            trustedEnd = Long.MAX_VALUE;
            sessionExpected = true;
            waiter.wake();
        }

        @Override
        public void failed() {
            waiter.wake();
        }

        @Override
        public void published(Connection from, MqttPublishMessage packet) {
            Message message = decoder.decode(packet);
            lock.lock();
            try {
                if (from == keeper.connection() && !keeper.failed()) {
                    redelivery.arrived();
                    classify(message, packet.fixedHeader());
                    afterArrival();
                }
            } catch (DataLossException e) {
                keeper.fail(e);
            } finally {
                lock.unlock();
            }
        }

        private void classify(Message message, MqttFixedHeader header) {
            if (message.marker != null && header.isRetain() && !header.isDup()) {
                newMessage(message); // in answer to the subscription, perhaps amid the redelivery
            } else {
                redelivery.offer(message, header.isDup());
            }
        }

        @Override
        public void redeliveredAcknowledged(List<Message> known) {
            counts.addRedelivered(known.size());
            acknowledgements.acknowledgeAgain(known, keeper.connection());
        }

        @Override
        public void redeliveredUnacknowledged(Message known, Message incoming) {
            counts.addRedelivered(1);
            known.connection = keeper.generation();
            if (known.givenUp) {
                newMessage(incoming);
            } else if (known.offset < committed) {
                acknowledgements.acknowledgeAgain(List.of(known), keeper.connection());
            } else if (known.missing()) {
                fillAwaited(known, incoming);
            }
        }

        @Override
        public void newMessage(Message message) {
            message.connection = message.packetId == 0 ? 0 : keeper.generation();
            Message awaited = awaitsResend() ? buffer.findAwaited(message) : null;
            if (awaited != null) {
                awaited.adoptPacketId(message);
                fillAwaited(awaited, message);
                return;
            }
            repetitions.update(message);
            boolean dropped = message.marker != null || repetitions.drops(message, buffer);
            if (dropped && (buffer.missing() > 0 || buffer.size() == 0)) {
                message.offset = buffer.next();
                boolean drained = buffer.missing() == 0;
                repetitions.settle(List.of(message));
                acknowledge(List.of(message), drained);
                return;
            }
            if (buffer.missing() > 0 && !awaitsResend()) {
                losses.report(Losses.REDELIVERY, buffer.missing(), "the broker does not hold " + buffer.missing()
                        + " messages of the uncommitted batch any more");
                buffer.dropMissing();
            }
            if (!dropped) {
                counts.addReceived(message);
            }
            buffer.add(message, dropped);
        }

        private void fillAwaited(Message awaited, Message incoming) {
            redeliveryWait.restart();
            buffer.fill(awaited, incoming);
        }

        @Override
        public void answered() {
            redeliveryWait.answered(System.nanoTime());
            acknowledgements.answered();
        }
    }

    /** True if the reader waits for the messages of a batch that the broker lost: writers may send them again. */
    private boolean awaitsResend() {
        return !settings.failOnDataLoss() && buffer.hasStamps();
    }

    private void afterArrival() {
        pause.beginIfFull(buffer.missing() > 0 ? 0 : buffer.bytes(), keeper.connection());
        if (buffer.next() >= wakeAt && buffer.missing() == 0) {
            wakeAt = Long.MAX_VALUE;
            changed.signalAll();
        }
        if (buffer.hasWaiting(trustedEnd)) {
            waiter.wake();
        }
    }

    // ---- calls of an engine that works on a stream ----

    @Override
    public void whenAvailable(Runnable callback) {
        lock.lock();
        try {
            waiter.set(callback);
            if (keeper.failed() || buffer.hasWaiting(trustedEnd)) {
                waiter.wake();
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public List<Received> take(int limit) {
        lock.lock();
        try {
            keeper.throwFailure();
            List<Received> taken = buffer.take(limit, trustedEnd);
            pause.endIfLow(buffer.bytes(), keeper.connection());
            return taken;
        } finally {
            lock.unlock();
        }
    }

    /** A small window would be full of messages that wait for others. */
    @Override
    public boolean mayEndBefore() {
        return settings.receiveMaximum() >= LEAST_WINDOW;
    }

    @Override
    public boolean isDrained(long offset) {
        lock.lock();
        try {
            return buffer.hasMarkerBehind(offset);
        } finally {
            lock.unlock();
        }
    }

    /**
     * True if messages taken should be committed soon: a drain marker waits for the commit of those below the offset, or
     * they, and the repetitions among them, fill the half of the window that a batch may take, with nothing behind them.
     */
    @Override
    public boolean commitIsDue(long offset) {
        lock.lock();
        try {
            return buffer.hasMarkerBehind(offset)
                    || buffer.size() >= settings.receiveMaximum() / 2 && !buffer.hasWaiting(Long.MAX_VALUE);
        } finally {
            lock.unlock();
        }
    }

    // ---- calls of an engine that works in batches ----

    @Override
    public long await(long targetEnd, long nanos) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long remainingNanos = nanos;
            while (available() < targetEnd && remainingNanos > 0) {
                keeper.throwFailure();
                wakeAt = targetEnd;
                long stepNanos = resolveHeldBack(remainingNanos);
                remainingNanos -= stepNanos - changed.awaitNanos(stepNanos);
            }
            keeper.throwFailure();
            return available();
        } finally {
            wakeAt = Long.MAX_VALUE;
            lock.unlock();
        }
    }

    private long available() {
        return buffer.missing() > 0 ? committed : Math.min(buffer.next(), trustedEnd);
    }

    /** See {@link Redelivery#resolveHeldBack}; without a connection, nothing is decided. */
    private long resolveHeldBack(long nanos) {
        return keeper.connection() == null ? nanos : redelivery.resolveHeldBack(nanos);
    }

    /**
     * Waits until the uncommitted batch of before a restart is complete, or is recorded without the messages that do not
     * come.
     *
     * @throws DataLossException if the broker does not send its next message within the connect time-out, during which
     *     it answers: a broker that is away or stalls may have the message yet
     */
    @Override
    public void awaitWhole() throws IOException, InterruptedException {
        awaitFormer();
        lock.lockInterruptibly();
        try {
            while (buffer.missing() > 0) {
                keeper.throwFailure();
                if (redeliveryWait.longerThan(settings.connectTimeout())) {
                    losses.report(Losses.REDELIVERY, buffer.missing(), "the broker did not send " + buffer.missing()
                            + " messages of the uncommitted batch again");
                    buffer.dropMissing();
                    break;
                }
                wakeAt = buffer.next();
                if (keeper.connection() != null) {
                    acknowledgements.probe(keeper.connection());
                }
                changed.awaitNanos(resolveHeldBack(PROBE_NANOS));
            }
            keeper.throwFailure();
        } finally {
            wakeAt = Long.MAX_VALUE;
            lock.unlock();
        }
        recordShortened();
    }

    /** Replaces the record of a batch from which messages were dropped: they count as not seen, also after a restart. */
    private void recordShortened() throws IOException {
        List<Message> shortened;
        SeenStamps seen;
        KnownWriters writers;
        lock.lock();
        try {
            shortened = buffer.shortened();
            seen = buffer.recordedStamps().copy(SeenStamps.RECORDED_HASHES);
            writers = repetitions.writersBehind(buffer.markersUntil(buffer.restoredEnd()));
        } finally {
            lock.unlock();
        }
        if (shortened != null) {
            long start = committed;
            records.write(start, buffer.restoredEnd(), records.extents().parts(start), shortened, seen, writers);
        }
    }

    @Override
    public void close(long start, long end, int partitions) throws IOException {
        List<Message> messages;
        SeenStamps seen;
        KnownWriters writers;
        lock.lock();
        try {
            messages = buffer.record(start, end);
            seen = buffer.recordedStamps();
            writers = repetitions.writersBehind(buffer.markersUntil(end)); // lists that came behind the batch may come again
        } finally {
            lock.unlock();
        }
        records.write(start, end, partitions, messages, seen, writers);
    }

    @Override
    public int recordedPartitions(long start) {
        return records.extents().parts(start);
    }

    @Override
    public void commit(long offset) throws IOException {
        commitFormer(offset);
        long confirmed;
        lock.lock();
        try {
            committed = Math.max(committed, offset);
            List<Message> committedMessages = buffer.removeUntil(committed);
            repetitions.settle(committedMessages);
            Connection connection = keeper.connection();
            acknowledge(committedMessages, true);
            if (connection != null) {
                resolveHeldBack(0);
                acknowledgements.requestConfirmation(connection);
                pause.endIfLow(buffer.bytes(), connection);
            }
            confirmed = acknowledgements.confirmedOffset(committed);
        } finally {
            lock.unlock();
        }
        records.extents().deleteUntil(confirmed);
    }

    private void acknowledge(List<Message> messages, boolean drained) {
        acknowledgements.send(messages, keeper.connection(), keeper.generation());
        if (drained && keeper.connection() != null) {
            Drain.answer(messages, keeper.connection(), settings.clientId());
        }
    }

    @Override
    protected boolean connected() {
        return keeper.connected();
    }

    @Override
    protected boolean bufferFull() {
        return pause.isOn() || buffer.size() >= settings.receiveMaximum();
    }

    @Override
    protected long reconnections() {
        return keeper.reconnections();
    }

    /** Disconnects; the broker keeps the session with all unacknowledged messages. */
    @Override
    public void close() {
        closeFormer();
        keeper.close();
    }
}
