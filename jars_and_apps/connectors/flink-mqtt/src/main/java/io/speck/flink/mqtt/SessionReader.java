package io.speck.flink.mqtt;

import io.speck.connector.Brokers;
import io.speck.connector.MessageSource;
import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.SourceMetrics;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.NavigableMap;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.runtime.execution.SuppressRestartsException;

/**
 * Reads a session from the position of a split. The messages emitted between two checkpoints are one batch: recorded in
 * the state of the second checkpoint, and acknowledged when that is complete.
 *
 * <p>It connects in a thread of its own, so that an unreachable broker does not keep the task from its checkpoints.
 */
final class SessionReader implements AutoCloseable {
    private static final int CHUNK = 500;

    private final SourceSettings settings;
    private final Journal journal;
    private final MessageSource source;
    private final Thread opener;
    private final CompletableFuture<Void> opened = new CompletableFuture<>();
    private final NavigableMap<Long, Long> positions = new TreeMap<>();
    private CompletableFuture<Void> available = CompletableFuture.completedFuture(null);
    private Iterator<Received> chunk = Collections.emptyIterator();
    private long committed;
    private long recorded;
    private volatile long position;

    SessionReader(SourceSettings settings, MqttSplit split) {
        this.settings = settings;
        this.journal = new Journal(split.records());
        this.source = Brokers.of(settings.login()).streaming(settings, journal);
        this.position = split.position();
        this.recorded = position;
        this.committed = position;
        this.opener = new Thread(this::open, "mqtt-open-" + settings.clientId());
        opener.setDaemon(true);
        opener.start();
    }

    private void open() {
        try {
            source.open(position, position);
            opened.complete(null);
        } catch (Throwable e) { // errors too: the task would not learn of them otherwise
            opened.completeExceptionally(e);
        }
    }

    /**
     * True if there is a message to emit now.
     *
     * @throws SuppressRestartsException if reading has ended for good, so that another attempt would fail the same way
     */
    boolean hasNext() {
        if (!chunk.hasNext() && opened.isDone()) {
            chunk = translated();
        }
        return chunk.hasNext();
    }

    private Iterator<Received> translated() {
        try {
            throwFailure();
            return source.take(CHUNK).iterator();
        } catch (TakenOverException | DataLossException e) {
            throw new SuppressRestartsException(e);
        }
    }

    private void throwFailure() {
        if (opened.isCompletedExceptionally()) {
            Throwable cause = opened.handle((nothing, failure) -> failure).join();
            if (cause instanceof MqttException failure) {
                throw failure;
            }
            throw new IllegalStateException("client '" + settings.clientId() + "' could not begin to read", cause);
        }
    }

    Received next() {
        Received next = chunk.next();
        position++;
        return next;
    }

    /**
     * Completes when {@link #hasNext} may be true; the same future until then, since Flink asks often and keeps each.
     *
     * @param paused true to wait for {@link #wake}, whatever comes
     */
    CompletableFuture<Void> available(boolean paused) {
        if (!opened.isDone()) {
            return opened.handle((nothing, failure) -> null);
        }
        if (available.isDone()) {
            CompletableFuture<Void> next = new CompletableFuture<>();
            available = next;
            if (!paused) {
                source.whenAvailable(() -> next.complete(null));
            }
        }
        return available;
    }

    /** Lets Flink ask again, although no message has come. */
    void wake() {
        available.complete(null);
    }

    /** The number of messages that were emitted. */
    long position() {
        return position;
    }

    /** True if outputs of messages may wait for those of later ones. */
    boolean mayHold() {
        return source.mayEndBefore();
    }

    /** True if a drain waits for the outputs of the messages so far. */
    boolean isDrained() {
        return source.isDrained(position);
    }

    /**
     * The state at a checkpoint.
     *
     * @param held position of the first message whose outputs wait: a restart returns it again, and those behind it
     * @param waitEnd of {@link MqttSplit}
     */
    MqttSplit snapshot(long checkpoint, long held, long waitEnd) throws IOException {
        long end = Math.min(position, held);
        if (opened.isDone() && !opened.isCompletedExceptionally()) {
            source.commit(committed); // deletes records whose acknowledgements have arrived meanwhile
            record(end);
        }
        positions.put(checkpoint, end);
        return new MqttSplit(end, waitEnd, journal.read());
    }

    /** Writes an empty first record too, which shows that the session exists. */
    private void record(long end) throws IOException {
        if (end > recorded || journal.isEmpty()) {
            source.close(recorded, end, 1);
            recorded = end;
        }
    }

    /** Acknowledges the messages emitted before a checkpoint, which is complete. */
    void complete(long checkpoint) throws IOException {
        Long completedPosition = positions.get(checkpoint);
        positions.headMap(checkpoint, true).clear();
        if (completedPosition != null && opened.isDone() && !opened.isCompletedExceptionally()) {
            committed = Math.max(committed, completedPosition);
            source.commit(committed);
        }
    }

    SourceMetrics metrics() {
        return source.metrics();
    }

    /** The number of messages that this task has received and not emitted. */
    long pending() {
        return Math.max(0, source.metrics().received() - position);
    }

    @Override
    public void close() {
        opener.interrupt();
        try {
            opener.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            source.close();
        }
    }

    /** Holds the records in memory, since Flink stores them with its state. */
    private static final class Journal implements BatchJournal {
        private final SortedMap<Long, byte[]> records;

        Journal(SortedMap<Long, byte[]> records) {
            this.records = new TreeMap<>(records);
        }

        boolean isEmpty() {
            return records.isEmpty();
        }

        @Override
        public SortedMap<Long, byte[]> read() {
            return new TreeMap<>(records);
        }

        @Override
        public void write(long start, byte[] record) {
            records.put(start, record);
        }

        @Override
        public void delete(long start) {
            records.remove(start);
        }
    }
}
