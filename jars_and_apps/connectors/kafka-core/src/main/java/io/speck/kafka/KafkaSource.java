package io.speck.kafka;

import io.speck.connector.BufferedSource;
import io.speck.connector.RecordedBatch;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Losses;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;
import java.util.List;
import java.util.Map;
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
class KafkaSource extends BufferedSource {
    private final Uncommitted uncommitted;
    private final Room room;
    private final BatchJournal journal;
    private final Records records;
    private final Control control;
    private Poller poller;

    /** The topic that both places are in; messages of former ones of the same name may still wait for a commit. */
    private String topicId;
    private long timesMadeAnew;

    /** The places behind what is recorded, and behind what is committed. */
    private Place recordedPlace;
    private Place committedPlace;
    private boolean commitDue;
    private MqttException failure;
    private Runnable waiter;

    KafkaSource(SourceSettings settings, BatchJournal journal, boolean streaming) {
        super(settings, streaming, new Losses(settings));
        this.uncommitted = new Uncommitted(buffer, streaming);
        this.room = new Room(lock.newCondition(), buffer, uncommitted, settings.bufferBytes());
        this.journal = journal;
        this.records = new Records(settings, journal);
        this.control = new Control(settings);
    }

    Opening opening() {
        return new Opening(settings, control);
    }

    @Override
    public void open(long committedOffset, long uncommittedEnd) throws IOException, InterruptedException {
        Opening opening = opening();
        try {
            opening.connect();
            Records.Recovered recovered = records.recover(committedOffset, uncommittedEnd, opening.topicId());
            committed = committedOffset;
            topicId = opening.topicId();
            committedPlace = opening.place(recovered);
            committedPlace.begin(opening.partitions());
            recordedPlace = committedPlace.copy();
            if (recovered.madeAnew()) {
                reportMadeAnew();
            }
            restoreUncommitted(recovered, uncommittedEnd, opening);
            takeWriters();
            commitDue = true; // shows that this attempt reads
            poller = opening.begin(new Arrivals(), recordedPlace);
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "topic '" + settings.topic() + "'", e);
        } finally {
            opening.close();
        }
    }

    private void reportMadeAnew() {
        report(Losses.SESSION, 0, "topic '" + settings.topic() + "' was made anew");
    }

    private void report(String reason, long count, String cause) {
        if (reason.equals(Losses.SESSION)) {
            lock.lock();
            try {
                counts.addLostSession();
            } finally {
                lock.unlock();
            }
        }
        losses.report(reason, count, cause);
    }

    /** Makes the batch of before a restart ready, which the engine will request first; without one, [end, end). */
    private void restoreUncommitted(Records.Recovered recovered, long end, Opening opening)
            throws IOException, InterruptedException {
        RecordedBatch left = recovered.former();
        if (left != null) {
            openFormer(left, journal);
        }
        KafkaBatchRecord again = recovered.uncommitted();
        if (again != null && recovered.madeAnew()) {
            losses.report(Losses.BATCH, end - committed, "topic '" + settings.topic()
                    + "' was made anew, without the uncommitted batch [" + committed + ", " + end + ")");
        }
        if (again == null || recovered.madeAnew()) {
            buffer.restore(end, hasFormer() ? left.seen() : recovered.seen());
            repetitions.restore(hasFormer() ? left.writers() : recovered.writers());
            return;
        }
        buffer.restore(committed, again.seen());
        repetitions.restore(again.writers());
        List<Opening.Again> messages = opening.readAgain(again, losses);
        messages.forEach(each -> each.addTo(buffer));
        counts.addRedelivered((int) messages.stream().filter(each -> each.message() != null).count());
        recordedPlace = again.after().copy();
        recordedPlace.begin(opening.partitions());
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
            change(() -> {
                messages.forEach(KafkaSource.this::newMessage);
                changed.signalAll();
            });
        }

        @Override
        public boolean awaitRoom(long nanos) throws InterruptedException {
            lock.lockInterruptibly();
            try {
                return room.await(nanos);
            } finally {
                lock.unlock();
            }
        }

        @Override
        public Place takeCommit() {
            lock.lock();
            try {
                Place due = commitDue ? committedPlace.copy() : null;
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
            report(reason, count, cause);
        }

        @Override
        public void madeAnew(String id, long times, Map<Integer, Long> begins) {
            reportMadeAnew();
            lock.lock();
            try {
                topicId = id;
                timesMadeAnew = times;
                recordedPlace.beginAnew(begins, times);
                committedPlace.beginAnew(begins, times);
                commitDue = true;
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void added(List<Integer> partitions) {
            lock.lock();
            try {
                recordedPlace.begin(partitions);
                committedPlace.begin(partitions);
                commitDue = true; // shows the tools of Kafka what is unread there
            } finally {
                lock.unlock();
            }
        }

        /**
         * Passes what is no message, such as the marks of transactions, where nothing waits for a commit: in a partition
         * alone, since others may never be without such messages.
         */
        @Override
        public void reached(int partition, long offset) {
            lock.lock();
            try {
                if (committedPlace.of(partition) < offset && !uncommitted.has(partition)) {
                    committedPlace.passMarks(partition, offset);
                    recordedPlace.passMarks(partition, offset);
                    commitDue = true;
                }
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void failed(MqttException error) {
            change(() -> {
                failure = failure == null ? error : failure;
                changed.signalAll();
            });
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
        if (dropped && uncommitted.isEmpty()) {
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

    /** Changes the state, and then calls an engine that waits for what is due by now. */
    private void change(Runnable change) {
        Runnable callback;
        lock.lock();
        try {
            change.run();
            callback = takeWaiter();
        } finally {
            lock.unlock();
        }
        if (callback != null) {
            callback.run(); // without the lock, since it may take locks of its own
        }
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
        change(() -> waiter = callback);
    }

    @Override
    public List<Received> take(int limit) {
        lock.lock();
        try {
            throwFailure();
            List<Received> taken = uncommitted.take(limit);
            room.changed();
            return taken;
        } finally {
            lock.unlock();
        }
    }

    /**
     * True for an order to drain, and if the messages that wait for a commit leave no room for others. Not without such
     * messages: an order may wait for the end of another program's transaction, and no commit brings that about.
     */
    @Override
    public boolean commitIsDue(long offset) {
        lock.lock();
        try {
            boolean allTaken = !uncommitted.isEmpty() && !buffer.hasWaiting(Long.MAX_VALUE);
            return allTaken && (!control.drain().isEmpty() || uncommitted.bytes() > settings.bufferBytes() / 2);
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

    /** A batch of this session was read again when the reader opened. */
    @Override
    public void awaitWhole() throws IOException, InterruptedException {
        awaitFormer();
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
            List<KafkaBatchRecord.Run> runs = uncommitted.batch(start, end);
            Place before = recordedPlace.copy();
            runs.forEach(each -> recordedPlace.advance(each.partition(), each.epoch(), each.end()));
            runs.replaceAll(each -> Epochs.timesMadeAnew(each.epoch()) < timesMadeAnew ? each.gone() : each);
            record = new KafkaBatchRecord(settings.clientId(), settings.login().address().toString(), settings.topic(),
                    topicId, start, end, partitions, before, recordedPlace.copy(), runs,
                    buffer.recordedStamps().copy(SeenStamps.RECORDED_HASHES), repetitions.writers());
        } finally {
            lock.unlock();
        }
        records.write(record);
    }

    @Override
    public int recordedPartitions(long start) {
        return records.extents().parts(start);
    }

    @Override
    public void commit(long offset) throws IOException {
        commitFormer(offset);
        lock.lock();
        try {
            if (poller == null) {
                return;
            }
            committed = Math.max(committed, offset);
            commitDue |= uncommitted.removeUntil(committed, committedPlace);
            room.changed();
            if (!control.drain().isEmpty() && committedPlace.reaches(control.drain())) {
                control.drained();
            }
        } finally {
            lock.unlock();
        }
        records.extents().deleteUntil(committed);
    }

    @Override
    protected boolean connected() {
        return poller != null && failure == null && poller.connected();
    }

    /** The client connects again by itself, and does not count. */
    @Override
    protected long reconnections() {
        return 0;
    }

    @Override
    public void close() {
        closeFormer();
        if (poller != null) {
            poller.close();
        }
    }
}
