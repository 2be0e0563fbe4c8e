package io.speck.mqtt;

import io.netty.buffer.ByteBufUtil;
import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttProperties.MqttProperty;
import io.netty.handler.codec.mqtt.MqttProperties.StringPair;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads one topic through a persistent session, and gives its messages out under increasing offsets.
 *
 * <p>A message is acknowledged when the engine has committed the batch that holds it, never before. Each batch is
 * recorded in the engine's own state before the engine hears of it, so that after a crash the same batch is given out
 * again, and what was committed is not. A lost connection heals by itself for as long as the reader lives.
 *
 * <p>One thread of the engine calls {@link #open}, {@link #await}, {@link #close(long, long, int)},
 * {@link #messages} and {@link #commit}; {@link #close()} and {@link #metrics} may be called from any.
 */
public final class MqttSource implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(MqttSource.class);
    private static final Duration CONNECT_TRY = Duration.ofSeconds(10);
    private static final long FIRST_BACKOFF_MILLIS = 100;
    private static final long BACKOFF_CAP_MILLIS = 5_000;
    /** A connection that ends sooner is a sign that somebody else takes the session. */
    private static final long SHORT_LIFE_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final int SHORT_LIVES_ALLOWED = 6;
    private static final long QUIET_NANOS = TimeUnit.SECONDS.toNanos(2);

    private final SourceSettings settings;
    private final BatchJournal journal;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Inbox inbox = new Inbox();
    private final Acknowledgements acknowledgements = new Acknowledgements();
    private final Backoff backoff = new Backoff(FIRST_BACKOFF_MILLIS, BACKOFF_CAP_MILLIS);
    private final SortedMap<Long, Long> records = new TreeMap<>();
    private final Listener listener = new Listener();

    private Connection connection;
    private int generation;
    private boolean ready;
    /** What came over a connection whose fence was not read for the second time is not given out yet. */
    private long trustedEnd = Long.MAX_VALUE;
    private boolean healing;
    private boolean closed;
    private boolean paused;
    private boolean sessionExpected;
    private int shortLives;
    private long openedNanos;
    private long lastArrivalNanos;
    private Redelivery redelivery;
    private MqttException failure;
    private long committed;
    private long wakeAt = Long.MAX_VALUE;
    private long receivedCount;
    private long redeliveredCount;
    private long duplicateCount;
    private long connectionCount;
    private String lastTopic = "";
    private byte[] lastTopicBytes = new byte[0];

    public MqttSource(SourceSettings settings, BatchJournal journal) {
        this.settings = settings;
        this.journal = journal;
    }

    /**
     * Continues where the engine stands, and connects.
     *
     * @param committedOffset all below it is committed
     * @param uncommittedEnd end of the batch that the engine will ask for again; the same offset when there is none
     * @throws BrokerException when the broker cannot be reached in time, or refuses
     * @throws DataLossException when the broker cannot have what is still needed
     * @throws TakenOverException when a newer attempt reads the session
     */
    public void open(long committedOffset, long uncommittedEnd) throws IOException, InterruptedException {
        committed = committedOffset;
        recover(committedOffset, uncommittedEnd);
        connectFirst();
    }

    private void recover(long start, long end) throws IOException {
        BatchRecord awaited = null;
        StampMarks marks = new StampMarks();
        List<Message> earlier = new ArrayList<>();
        for (Map.Entry<Long, byte[]> entry : journal.read().entrySet()) {
            BatchRecord record = BatchRecord.decode(entry.getValue());
            if (record.end() <= start) {
                marks = record.marks();
                addEarlier(record, earlier);
            } else if (record.start() == start && record.end() == end) {
                awaited = record;
                marks = record.marks();
            }
            records.put(record.start(), record.end());
        }
        acknowledgements.restore(earlier);
        inbox.restore(start, marks, awaited(awaited, start, end));
        if (awaited == null && end > start) {
            inbox.restore(end, marks, List.of());
        }
    }

    private void addEarlier(BatchRecord record, List<Message> earlier) {
        if (!record.clientId().equals(settings.clientId())) {
            earlier.clear();
            sessionExpected = false;
            return;
        }
        sessionExpected = record.broker().equals(settings.login().address().toString());
        long offset = record.start();
        for (Message message : record.messages()) {
            message.offset = offset;
            offset += message.duplicate ? 0 : 1;
            earlier.add(message);
        }
    }

    private List<Message> awaited(BatchRecord record, long start, long end) {
        if (end <= start) {
            return List.of();
        }
        if (record == null) {
            reportLoss("there is no record of the uncommitted batch [" + start + ", " + end + ")");
            return List.of();
        }
        if (!record.clientId().equals(settings.clientId())) {
            reportLoss("the uncommitted batch [" + start + ", " + end + ") is of client '" + record.clientId()
                    + "' at broker " + record.broker());
            return List.of();
        }
        sessionExpected = true;
        return record.messages();
    }

    /** Messages are gone for good: an error, or a line in the log, as the user wishes. */
    private void reportLoss(String what) {
        String text = settings.session() + ": " + what + "; messages are lost"
                + " (set failOnDataLoss to false to go on without them)";
        if (settings.failOnDataLoss()) {
            throw new DataLossException(text);
        }
        LOG.warn("{}", text);
    }

    // ---- connecting ----

    private void connectFirst() throws InterruptedException {
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
        Fence.check(settings, timeout);
        Connection opened = Connection.open(
                settings.login(), Session.kept(settings.clientId(), receiveMaximum()), listener, timeout);
        try {
            throwFailure();
            opened.subscribe(settings.topic(), timeout);
            Fence.check(settings, timeout);
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
            int held = inbox.size() + acknowledgements.unconfirmed().size();
            return Math.min(SourceSettings.LARGEST_RECEIVE_MAXIMUM, Math.max(settings.receiveMaximum(), held));
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
            trustedEnd = Long.MAX_VALUE;
            sessionExpected = true;
            connectionCount++;
            changed.signalAll();
            if (closed) {
                opened.abandon();
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

    private void fail(MqttException cause) {
        lock.lock();
        try {
            failure = failure == null ? cause : failure;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void throwFailure() {
        lock.lock();
        try {
            if (failure != null) {
                throw failure;
            }
        } finally {
            lock.unlock();
        }
    }

    // ---- what the connection reports ----

    private final class Listener implements ConnectionListener, Redelivery.Outcome {
        @Override
        public void opened(Connection opened) {
            lock.lock();
            try {
                begin(opened);
            } catch (DataLossException e) {
                fail(e);
            } finally {
                lock.unlock();
            }
        }

        private void begin(Connection opened) {
            connection = opened;
            generation++;
            trustedEnd = Math.min(trustedEnd, inbox.next());
            paused = false;
            openedNanos = System.nanoTime();
            lastArrivalNanos = openedNanos;
            acknowledgements.reconnected();
            if (opened.sessionPresent()) {
                redelivery = new Redelivery(acknowledgements.unconfirmed(), inbox.messages());
                return;
            }
            acknowledgements.forget();
            redelivery = new Redelivery(List.of(), List.of());
            if (inbox.missing() > 0 || sessionExpected) {
                reportLoss("the broker has no such session any more");
                inbox.dropMissing();
            }
        }

        @Override
        public void published(Connection from, MqttPublishMessage packet) {
            Message message = message(packet);
            lock.lock();
            try {
                if (from == connection && failure == null) {
                    lastArrivalNanos = System.nanoTime();
                    boolean leading = redelivery.leading();
                    redelivery.offer(message, packet.fixedHeader().isDup(), this);
                    if (leading && !redelivery.leading()) {
                        acknowledgements.repetitionOver();
                    }
                    afterArrival();
                }
            } catch (DataLossException e) {
                fail(e);
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void repeatedAcknowledged(Message incoming) {
            redeliveredCount++;
            acknowledgements.repeatOf(incoming, connection);
        }

        @Override
        public void repeatedInHand(Message known, Message incoming) {
            redeliveredCount++;
            known.connection = generation;
            if (known.missing() && known.offset >= committed) {
                inbox.fill(known, incoming);
            } else if (known.offset < committed) {
                acknowledgements.repeatOf(known, connection);
            }
        }

        @Override
        public void fresh(Message message) {
            message.connection = message.packetId == 0 ? 0 : generation;
            boolean repeated = inbox.repeats(message);
            duplicateCount += repeated ? 1 : 0;
            if (repeated && (inbox.missing() > 0 || inbox.size() == 0)) {
                acknowledgements.send(List.of(message), connection, generation);
                return;
            }
            if (inbox.missing() > 0) {
                reportLoss("the broker does not hold " + inbox.missing() + " messages of the uncommitted batch any more");
                inbox.dropMissing();
            }
            receivedCount += repeated ? 0 : 1;
            inbox.add(message, repeated);
        }

        @Override
        public void answered(Connection from) {
            lock.lock();
            try {
                if (from == connection) {
                    acknowledgements.answered();
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
    }

    private void afterArrival() {
        if (!paused && inbox.bytes() > settings.bufferBytes() && inbox.missing() == 0) {
            paused = true;
            connection.reading(false);
        }
        if (inbox.next() >= wakeAt && inbox.missing() == 0) {
            wakeAt = Long.MAX_VALUE;
            changed.signalAll();
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
        if (settings.fenceTopic() == null && (reason.startsWith(Reasons.text(Reasons.TAKEN_OVER))
                || shortLives > SHORT_LIVES_ALLOWED)) {
            fail(new TakenOverException("the session of " + settings.session() + " was taken over by another client"
                    + " (" + reason + ")"));
        } else if (established && failure == null && !closed) {
            startHealing();
        }
    }

    private Message message(MqttPublishMessage packet) {
        String topic = packet.variableHeader().topicName();
        if (!topic.equals(lastTopic)) {
            lastTopic = topic;
            lastTopicBytes = topic.getBytes(StandardCharsets.UTF_8);
        }
        byte[] payload = ByteBufUtil.getBytes(packet.payload());
        String job = null;
        String sequence = null;
        for (MqttProperty<?> each : packet.variableHeader().properties()
                .getProperties(MqttProperties.USER_PROPERTY)) {
            StringPair pair = (StringPair) each.value();
            job = Stamp.JOB.equals(pair.key) ? pair.value : job;
            sequence = Stamp.SEQUENCE.equals(pair.key) ? pair.value : sequence;
        }
        int id = packet.fixedHeader().qosLevel().value() == 0 ? 0 : packet.variableHeader().packetId();
        return new Message(id, Message.hash(lastTopicBytes, payload, job, sequence), lastTopic, payload,
                System.currentTimeMillis(), Stamp.parse(job, sequence));
    }

    // ---- what the engine asks ----

    /**
     * Waits until so many messages are there, or the time is over.
     *
     * @return the offset after the last message that can be given out
     */
    public long await(long wantedEnd, long nanos) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long left = nanos;
            while (available() < wantedEnd && left > 0) {
                throwFailure();
                wakeAt = wantedEnd;
                long step = settleRow(left);
                left -= step - changed.awaitNanos(step);
            }
            throwFailure();
            return available();
        } finally {
            wakeAt = Long.MAX_VALUE;
            lock.unlock();
        }
    }

    private long available() {
        return inbox.missing() > 0 ? committed : Math.min(inbox.next(), trustedEnd);
    }

    /** Decides on messages held back when the broker sends no more; returns how long to wait at most. */
    private long settleRow(long nanos) {
        if (redelivery == null || !redelivery.undecided() || connection == null) {
            return nanos;
        }
        long quiet = System.nanoTime() - lastArrivalNanos;
        if (quiet >= QUIET_NANOS) {
            redelivery.settle(listener);
            acknowledgements.repetitionOver();
            return nanos;
        }
        return Math.min(nanos, QUIET_NANOS - quiet + 1);
    }

    /**
     * Waits until a batch of before the restart is whole again.
     *
     * @throws DataLossException when the broker does not send it within the connect time-out
     */
    public void awaitWhole() throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (inbox.missing() > 0) {
                throwFailure();
                long quiet = System.nanoTime() - lastArrivalNanos;
                long left = settings.connectTimeout().toNanos() - quiet;
                if (connection != null && left <= 0) {
                    reportLoss("the broker did not send " + inbox.missing() + " messages of the uncommitted batch again");
                    inbox.dropMissing();
                    return;
                }
                wakeAt = inbox.next();
                changed.awaitNanos(settleRow(connection == null ? TimeUnit.SECONDS.toNanos(1) : left));
            }
            throwFailure();
        } finally {
            wakeAt = Long.MAX_VALUE;
            lock.unlock();
        }
    }

    /**
     * Records the batch [start, end) so that it can be given out again after a crash; to be called before the engine
     * hears of its end.
     *
     * @param partitions into how many parts the engine will split it
     */
    public void close(long start, long end, int partitions) throws IOException {
        BatchRecord record;
        lock.lock();
        try {
            List<Message> messages = inbox.record(end);
            record = new BatchRecord(settings.clientId(), settings.login().address().toString(), start, end,
                    partitions, messages, inbox.recordedMarks());
        } finally {
            lock.unlock();
        }
        journal.write(start, record.encode());
        records.put(start, end);
    }

    /** Into how many parts the batch that starts here was split, by its record; 0 when there is none. */
    public int recordedPartitions(long start) throws IOException {
        byte[] record = journal.read().get(start);
        return record == null ? 0 : BatchRecord.decode(record).partitions();
    }

    /** The messages of a batch, in order. */
    public List<Message> messages(long start, long end) {
        lock.lock();
        try {
            return inbox.between(start, end);
        } finally {
            lock.unlock();
        }
    }

    /** Takes note that the engine has committed all below the offset: acknowledges it, in order. */
    public void commit(long offset) throws IOException {
        long confirmed;
        lock.lock();
        try {
            committed = Math.max(committed, offset);
            List<Message> done = inbox.removeUntil(committed);
            acknowledgements.send(done, connection, connection == null ? -1 : generation);
            if (connection != null) {
                acknowledgements.ask(connection);
                resume();
            }
            confirmed = acknowledgements.confirmedOffset(committed);
        } finally {
            lock.unlock();
        }
        forgetRecords(confirmed);
    }

    private void resume() {
        if (paused && inbox.bytes() <= settings.bufferBytes() / 2) {
            paused = false;
            connection.reading(true);
        }
    }

    /** The last committed record stays, for its marks, and those whose acknowledgements are not certain. */
    private void forgetRecords(long confirmed) throws IOException {
        List<Long> done = new ArrayList<>();
        long last = -1;
        for (Map.Entry<Long, Long> record : records.entrySet()) {
            if (record.getValue() > confirmed) {
                break;
            }
            if (last >= 0) {
                done.add(last);
            }
            last = record.getKey();
        }
        for (long start : done) {
            journal.delete(start);
            records.remove(start);
        }
    }

    public SourceMetrics metrics() {
        lock.lock();
        try {
            return new SourceMetrics(inbox.next() - committed, inbox.next(), receivedCount, redeliveredCount,
                    duplicateCount, Math.max(0, connectionCount - 1), connection != null && ready);
        } finally {
            lock.unlock();
        }
    }

    /** Leaves; the broker keeps the session and all that was not acknowledged. */
    @Override
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
