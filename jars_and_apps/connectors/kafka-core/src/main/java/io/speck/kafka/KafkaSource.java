package io.speck.kafka;

import io.speck.connector.MessageSource;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Losses;
import io.speck.connector.reader.Message;
import io.speck.connector.reader.ReaderCounts;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.connector.reader.Repetitions;
import io.speck.connector.reader.SourceMetrics;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;

/**
 * Reads one topic from the place of its session: the offsets in the record of the engine's last committed batch, or else
 * those committed to the group that has the session's name.
 *
 * <p>The record of a batch names its messages by their offsets, so that they are read again for a batch that is run again.
 * The engine's state alone decides where reading continues; the offsets committed to the group are for the coordinator and
 * for the tools of Kafka. One thread polls ({@link Poller}).
 */
final class KafkaSource implements MessageSource {
    private final SourceSettings settings;
    private final Losses losses;
    private final Records records;
    private final Repetitions repetitions;
    private final ReaderCounts counts = new ReaderCounts();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final ReceiveBuffer buffer;
    private final Control control;
    private Poller poller;

    /** The places behind what is recorded, and behind what is committed. */
    private Place recordedPlace;
    private Place committedPlace;
    private long committed;
    private boolean commitDue;
    private MqttException failure;
    private Runnable waiter;

    KafkaSource(SourceSettings settings, BatchJournal journal, boolean streaming) {
        this.settings = settings;
        this.losses = new Losses(settings);
        this.records = new Records(settings, journal);
        this.repetitions = new Repetitions(settings);
        this.buffer = new ReceiveBuffer(streaming);
        this.control = new Control(settings);
    }

    @Override
    public void open(long committedOffset, long uncommittedEnd) throws IOException, InterruptedException {
        Opening opening = new Opening(settings, control);
        try {
            opening.connect();
            Records.Recovered recovered = records.recover(committedOffset, uncommittedEnd, opening.topicId());
            repetitions.restore(recovered.writers());
            committed = committedOffset;
            committedPlace = opening.place(recovered);
            recordedPlace = committedPlace.copy();
            if (recovered.madeAnew()) {
                losses.report(Losses.SESSION, 0, "topic '" + settings.topic() + "' was made anew");
            }
            KafkaBatchRecord again = recovered.uncommitted();
            buffer.restore(committedOffset, again == null ? recovered.seen() : again.seen());
            if (again != null) {
                repetitions.restore(again.writers());
                opening.readAgain(again, new RecordDecoder()).forEach(this::returnAgain);
                recordedPlace = again.after().copy();
            }
            takeWriters();
            commitDue = true; // shows that this attempt reads
            poller = opening.begin(new Arrivals(), recordedPlace);
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "topic '" + settings.topic() + "'", e);
        } finally {
            opening.close();
        }
    }

    /** Adds a message of the batch of before a restart, with the fate that it had. */
    private void returnAgain(Opening.Again again) {
        KafkaMessage message = again.message();
        if (!again.run().named()) {
            message.disbelieve();
        }
        counts.addRedelivered(1);
        buffer.add(message, again.run().duplicate());
    }

    // ---- events of the poller ----

    /** The calls of the poller, in its thread. */
    private final class Arrivals implements Poller.Reader {
        @Override
        public void control(ConsumerRecord<byte[], byte[]> record) {
            lock.lock();
            try {
                control.take(record);
                takeWriters();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public boolean needsWriters(KafkaMessage message) {
            return message.stamp != null && !repetitions.writers().believes(message.stamp);
        }

        @Override
        public void arrived(List<KafkaMessage> messages) {
            Runnable notified;
            lock.lock();
            try {
                messages.forEach(KafkaSource.this::newMessage);
                changed.signalAll();
                notified = takeWaiter();
            } finally {
                lock.unlock();
            }
            if (notified != null) {
                notified.run();
            }
        }

        @Override
        public boolean full() {
            lock.lock();
            try {
                return buffer.bytes() > settings.bufferBytes();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public Map<Integer, Long> takeCommit() {
            lock.lock();
            try {
                Map<Integer, Long> due = commitDue ? committedPlace.copy().offsets() : null;
                commitDue = false;
                return due;
            } finally {
                lock.unlock();
            }
        }

        @Override
        public long messages() {
            lock.lock();
            try {
                return committed;
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void commitFailed() {
            lock.lock();
            try {
                commitDue = true;
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void lost(String reason, long count, String cause) {
            losses.report(reason, count, cause);
        }

        /** Passes what is no message, such as the marks of transactions, where nothing waits for a commit. */
        @Override
        public void reached(int partition, long offset) {
            lock.lock();
            try {
                if (buffer.size() == 0 && committedPlace.of(partition) < offset) {
                    committedPlace.advance(partition, offset);
                    recordedPlace.advance(partition, offset);
                    commitDue = true;
                }
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void failed(MqttException error) {
            Runnable notified;
            lock.lock();
            try {
                failure = failure == null ? error : failure;
                changed.signalAll();
                notified = takeWaiter();
            } finally {
                lock.unlock();
            }
            if (notified != null) {
                notified.run();
            }
        }
    }

    private void takeWriters() {
        byte[] list = control.takeWriters();
        if (list != null) {
            repetitions.extend(list);
        }
    }

    private void newMessage(KafkaMessage message) {
        boolean dropped = repetitions.drops(message, buffer);
        if (dropped && buffer.size() == 0) { // nothing before it waits for a commit
            recordedPlace.pass(message);
            committedPlace.pass(message);
            commitDue = true;
            return;
        }
        if (!dropped) {
            counts.addReceived(message);
        }
        buffer.add(message, dropped);
    }

    private Runnable takeWaiter() {
        boolean due = failure != null || buffer.hasWaiting(Long.MAX_VALUE);
        Runnable found = due ? waiter : null;
        waiter = due ? null : waiter;
        return found;
    }

    private void throwFailure() {
        if (failure != null) {
            throw failure;
        }
    }

    // ---- calls of an engine that works on a stream ----

    @Override
    public void whenAvailable(Runnable callback) {
        Runnable notified;
        lock.lock();
        try {
            waiter = callback;
            notified = takeWaiter();
        } finally {
            lock.unlock();
        }
        if (notified != null) {
            notified.run();
        }
    }

    @Override
    public List<Received> take(int limit) {
        lock.lock();
        try {
            throwFailure();
            return buffer.take(limit, Long.MAX_VALUE);
        } finally {
            lock.unlock();
        }
    }

    /** True for an order to drain, and if the messages that wait for a commit leave no room for others. */
    @Override
    public boolean commitIsDue(long offset) {
        lock.lock();
        try {
            boolean nothingWaits = !buffer.hasWaiting(Long.MAX_VALUE);
            return nothingWaits && (!control.drain().isEmpty() || buffer.bytes() > settings.bufferBytes() / 2);
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
            while (buffer.next() < targetEnd && remainingNanos > 0) {
                throwFailure();
                remainingNanos = changed.awaitNanos(remainingNanos);
            }
            throwFailure();
            return buffer.next();
        } finally {
            lock.unlock();
        }
    }

    /** The batch was read again when the reader opened. */
    @Override
    public void awaitWhole() {
        lock.lock();
        try {
            throwFailure();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void close(long start, long end, int partitions) throws IOException {
        KafkaBatchRecord record;
        lock.lock();
        try {
            List<KafkaMessage> messages = buffer.record(start, end).stream().map(KafkaMessage.class::cast).toList();
            Place before = recordedPlace.copy();
            messages.forEach(recordedPlace::pass);
            record = new KafkaBatchRecord(settings.clientId(), settings.topic(), poller.topicId(), start, end, partitions,
                    before, recordedPlace.copy(), KafkaBatchRecord.runs(messages),
                    buffer.recordedStamps().copy(SeenStamps.RECORDED_HASHES), repetitions.writers());
        } finally {
            lock.unlock();
        }
        records.write(record);
    }

    @Override
    public int recordedPartitions(long start) {
        return records.parts(start);
    }

    @Override
    public List<Message> messages(long start, long end) {
        lock.lock();
        try {
            return buffer.between(start, end);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void commit(long offset) throws IOException {
        lock.lock();
        try {
            if (poller == null) {
                return;
            }
            committed = Math.max(committed, offset);
            List<Message> done = buffer.removeUntil(committed);
            done.forEach(each -> committedPlace.pass((KafkaMessage) each));
            commitDue |= !done.isEmpty();
            if (!control.drain().isEmpty() && committedPlace.reaches(control.drain())) {
                control.drained();
            }
        } finally {
            lock.unlock();
        }
        records.deleteCommitted(committed);
    }

    @Override
    public SourceMetrics metrics() {
        lock.lock();
        try {
            boolean connected = poller != null && failure == null && poller.connected();
            return counts.metrics(committed, buffer.next(), repetitions.counts(), losses, 0, connected);
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void close() {
        if (poller != null) {
            poller.close();
        }
    }
}
