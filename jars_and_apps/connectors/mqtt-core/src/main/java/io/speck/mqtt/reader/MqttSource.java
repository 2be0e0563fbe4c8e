package io.speck.mqtt.reader;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Runtime;
import io.speck.mqtt.net.SessionKeeper;
import io.speck.mqtt.stamp.DedupWatermarks;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
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
 * <p>An engine that works in batches asks with {@link #await} and {@link #messages}, as often as it has to; one that
 * works on a stream uses {@link #streaming}, {@link #whenAvailable} and {@link #take}, and calls a batch what it took
 * between two of its checkpoints.
 *
 * <p>One thread of the engine at a time calls {@link #open}, {@link #await}, {@link #close(long, long, int)},
 * {@link #messages}, {@link #take} and {@link #commit}; the others may be called from any.
 */
public final class MqttSource implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(MqttSource.class);
    private static final long QUIET_NANOS = TimeUnit.SECONDS.toNanos(2);
    /** For so long after a session was lost, writers may send again what was written before. */
    private static final long LOOSE_NANOS = TimeUnit.SECONDS.toNanos(4 * ResendRequest.RETENTION_SECONDS);

    private final SourceSettings settings;
    private final RecordedBatches records;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final ReceiveBuffer inbox;
    private final Acknowledgements acknowledgements = new Acknowledgements();
    private final Arrivals arrivals = new Arrivals();
    private final SessionKeeper keeper;

    /** What came over a connection whose fence was not read for the second time is not given out yet. */
    private long trustedEnd = Long.MAX_VALUE;
    private boolean paused;
    private boolean sessionExpected;
    private long lastArrivalNanos;
    private long lastFoundNanos;
    private long loosenedNanos;
    private RedeliveryMatcher redelivery;
    private long committed;
    private long wakeAt = Long.MAX_VALUE;
    private Runnable waiter;
    private long receivedCount;
    private long redeliveredCount;
    private long duplicateCount;
    private long lostSessions;

    public MqttSource(SourceSettings settings, BatchJournal journal) {
        this(settings, journal, false);
    }

    private MqttSource(SourceSettings settings, BatchJournal journal, boolean streaming) {
        this.settings = settings;
        this.inbox = new ReceiveBuffer(streaming);
        this.records = new RecordedBatches(settings, journal, this::reportLoss);
        this.keeper = new SessionKeeper(settings, lock, changed, arrivals);
    }

    /**
     * A reader that gives each message out once in its life, as it comes, by {@link #take}. It has no uncommitted batch
     * after a restart: what was taken after the offset at which it opens comes again as if it were new.
     */
    public static MqttSource streaming(SourceSettings settings, BatchJournal journal) {
        return new MqttSource(settings, journal, true);
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
        RecordedBatches.Recovered found = records.recover(committedOffset, uncommittedEnd);
        sessionExpected = found.sessionExpected();
        acknowledgements.restore(found.committed());
        if (found.awaited() == null) {
            inbox.restore(uncommittedEnd, found.marks(), List.of());
        } else {
            inbox.restore(committedOffset, found.marks(), found.awaited());
        }
        keeper.connectFirst();
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

    // ---- what the connection brings ----

    private final class Arrivals implements SessionKeeper.Reader, RedeliveryMatcher.Outcome {
        private final MessageDecoder packets = new MessageDecoder();

        @Override
        public int unacknowledged() {
            return inbox.size() + acknowledgements.unconfirmed().size();
        }

        @Override
        public List<String> filters() {
            return Drain.filters(settings);
        }

        @Override
        public void checkFence(Duration timeout) throws InterruptedException {
            Fence.check(settings, timeout);
        }

        @Override
        public void begin(Connection opened) {
            trustedEnd = Math.min(trustedEnd, inbox.next());
            paused = false;
            lastArrivalNanos = System.nanoTime();
            lastFoundNanos = lastArrivalNanos;
            acknowledgements.reconnected();
            if (opened.sessionPresent()) {
                redelivery = new RedeliveryMatcher(acknowledgements.unconfirmed(), inbox.messages());
                return;
            }
            acknowledgements.forget();
            redelivery = new RedeliveryMatcher(List.of(), List.of());
            if (inbox.missing() > 0 || sessionExpected) {
                reportLoss("the broker has no such session any more");
                requestResend();
            }
        }

        /** The session is made anew, and empty: what writers of ours still have of it comes into it, late. */
        private void requestResend() {
            lostSessions++;
            loosenedNanos = lastArrivalNanos;
            inbox.beginReordering();
            keeper.requestResend();
            if (!patient()) {
                inbox.dropMissing();
            }
        }

        @Override
        public void confirmed() {
            trustedEnd = Long.MAX_VALUE;
            sessionExpected = true;
            tellWaiter();
        }

        @Override
        public void failed() {
            tellWaiter();
        }

        @Override
        public void published(Connection from, MqttPublishMessage packet) {
            Message message = packets.read(packet);
            lock.lock();
            try {
                if (from == keeper.connection() && !keeper.failed()) {
                    lastArrivalNanos = System.nanoTime();
                    sort(message, packet.fixedHeader().isDup());
                    afterArrival();
                }
            } catch (DataLossException e) {
                keeper.fail(e);
            } finally {
                lock.unlock();
            }
        }

        private void sort(Message message, boolean dup) {
            boolean leading = redelivery.leading();
            redelivery.offer(message, dup, this);
            if (leading && !redelivery.leading()) {
                acknowledgements.repetitionOver();
            }
            if (redelivery.over()) {
                acknowledgements.allRepeated();
            }
        }

        @Override
        public void repeatedAcknowledged(List<Message> known) {
            redeliveredCount += known.size();
            acknowledgements.repeat(known, keeper.connection());
        }

        @Override
        public void repeatedInHand(Message known, Message incoming) {
            redeliveredCount++;
            known.connection = keeper.generation();
            if (known.offset < committed) {
                acknowledgements.repeat(List.of(known), keeper.connection());
            } else if (known.missing() && inbox.missing() > 0) {
                found(known, incoming);
            } else if (known.missing()) {
                fresh(incoming); // it was given up already
            }
        }

        @Override
        public void fresh(Message message) {
            message.connection = message.packetId == 0 ? 0 : keeper.generation();
            Message awaited = patient() ? inbox.awaitedLike(message) : null;
            if (awaited != null) {
                awaited.comesAs(message);
                found(awaited, message);
                return;
            }
            boolean repeated = message.marker == null && inbox.repeats(message);
            boolean dropped = repeated || message.marker != null;
            duplicateCount += repeated ? 1 : 0;
            if (dropped && (inbox.missing() > 0 || inbox.size() == 0)) {
                message.offset = inbox.next();
                boolean drained = inbox.missing() == 0;
                acknowledge(List.of(message), drained);
                return;
            }
            if (inbox.missing() > 0 && !patient()) {
                reportLoss("the broker does not hold " + inbox.missing() + " messages of the uncommitted batch any more");
                inbox.dropMissing();
            }
            receivedCount += dropped ? 0 : 1;
            inbox.add(message, dropped);
        }

        private void found(Message awaited, Message incoming) {
            lastFoundNanos = lastArrivalNanos;
            inbox.fill(awaited, incoming);
        }

        @Override
        public void answered() {
            acknowledgements.answered();
        }
    }

    /** Whether a batch that the broker has lost is worth waiting for: its writers may send it again. */
    private boolean patient() {
        return !settings.failOnDataLoss() && inbox.stamped();
    }

    private void afterArrival() {
        if (!paused && inbox.bytes() > settings.bufferBytes() && inbox.missing() == 0) {
            paused = true;
            keeper.connection().setReading(false);
        }
        if (inbox.next() >= wakeAt && inbox.missing() == 0) {
            wakeAt = Long.MAX_VALUE;
            changed.signalAll();
        }
        if (inbox.waits(trustedEnd)) {
            tellWaiter();
        }
    }

    /** In another thread, since whoever waits may take locks of its own. */
    private void tellWaiter() {
        if (waiter != null) {
            Runtime.LOOPS.execute(waiter);
            waiter = null;
        }
    }

    // ---- what an engine asks that works on a stream ----

    /** Calls {@code then} once, in any thread, when {@link #take} has something to give, or to throw. */
    public void whenAvailable(Runnable then) {
        lock.lock();
        try {
            waiter = then;
            if (keeper.failed() || inbox.waits(trustedEnd)) {
                tellWaiter();
            }
        } finally {
            lock.unlock();
        }
    }

    /** The next messages, so many at most, which are not given out again; none when there are none. */
    public List<Received> take(int most) {
        lock.lock();
        try {
            keeper.throwFailure();
            List<Received> taken = inbox.take(most, trustedEnd);
            if (keeper.connection() != null) {
                resume(keeper.connection());
            }
            return taken;
        } finally {
            lock.unlock();
        }
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
                keeper.throwFailure();
                wakeAt = wantedEnd;
                long step = settleRow(left);
                left -= step - changed.awaitNanos(step);
            }
            keeper.throwFailure();
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
        if (redelivery == null || !redelivery.undecided() || keeper.connection() == null) {
            return nanos;
        }
        long quiet = System.nanoTime() - lastArrivalNanos;
        if (quiet >= QUIET_NANOS) {
            redelivery.settle(arrivals);
            acknowledgements.repetitionOver();
            return nanos;
        }
        return Math.min(nanos, QUIET_NANOS - quiet + 1);
    }

    /**
     * Waits until a batch of before the restart is whole again.
     *
     * @throws DataLossException when the broker does not send the next of its messages within the connect time-out
     */
    public void awaitWhole() throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (inbox.missing() > 0) {
                keeper.throwFailure();
                long quiet = System.nanoTime() - lastFoundNanos;
                long left = settings.connectTimeout().toNanos() - quiet;
                if (keeper.connection() != null && left <= 0) {
                    reportLoss("the broker did not send " + inbox.missing() + " messages of the uncommitted batch again");
                    inbox.dropMissing();
                    return;
                }
                wakeAt = inbox.next();
                changed.awaitNanos(settleRow(keeper.connection() == null ? TimeUnit.SECONDS.toNanos(1) : left));
            }
            keeper.throwFailure();
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
        List<Message> messages;
        DedupWatermarks marks;
        lock.lock();
        try {
            messages = inbox.record(start, end);
            marks = inbox.recordedMarks();
        } finally {
            lock.unlock();
        }
        records.write(start, end, partitions, messages, marks);
    }

    /** Into how many parts the batch that starts here was split, by its record; 0 when there is none. */
    public int recordedPartitions(long start) {
        return records.partitions(start);
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
            if (lostSessions > 0 && System.nanoTime() - loosenedNanos > LOOSE_NANOS) {
                inbox.endReordering();
            }
            List<Message> done = inbox.removeUntil(committed);
            Connection connection = keeper.connection();
            acknowledge(done, true);
            if (connection != null) {
                settleRow(0);
                acknowledgements.ask(connection);
                resume(connection);
            }
            confirmed = acknowledgements.confirmedOffset(committed);
        } finally {
            lock.unlock();
        }
        records.forget(confirmed);
    }

    private void acknowledge(List<Message> done, boolean drained) {
        acknowledgements.send(done, keeper.connection(), keeper.generation());
        if (drained && keeper.connection() != null) {
            Drain.answer(done, keeper.connection(), settings.clientId());
        }
    }

    private void resume(Connection connection) {
        if (paused && inbox.bytes() <= settings.bufferBytes() / 2) {
            paused = false;
            connection.setReading(true);
        }
    }

    public SourceMetrics metrics() {
        lock.lock();
        try {
            return new SourceMetrics(inbox.next() - committed, inbox.next(), receivedCount, redeliveredCount,
                    duplicateCount, keeper.reconnections(), lostSessions, keeper.connected());
        } finally {
            lock.unlock();
        }
    }

    /** Leaves; the broker keeps the session and all that was not acknowledged. */
    @Override
    public void close() {
        keeper.close();
    }
}
