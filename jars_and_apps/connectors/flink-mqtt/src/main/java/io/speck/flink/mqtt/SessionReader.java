package io.speck.flink.mqtt;

import io.speck.mqtt.DataLossException;
import io.speck.mqtt.MqttException;
import io.speck.mqtt.Received;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.reader.BatchJournal;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.reader.SourceMetrics;
import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.NavigableMap;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.runtime.execution.SuppressRestartsException;

/**
 * Reads a session from where a split stands. What was given out between two checkpoints is one batch: recorded in the
 * state of the second, and acknowledged when that is complete.
 *
 * <p>It connects in a thread of its own, so that a broker out of reach does not keep the task from its checkpoints.
 */
final class SessionReader implements AutoCloseable {
    private static final int PIECE = 500;

    private final SourceSettings settings;
    private final Journal journal;
    private final MqttSource source;
    private final Thread opener;
    private final CompletableFuture<Void> opened = new CompletableFuture<>();
    private final NavigableMap<Long, Long> positions = new TreeMap<>();
    private CompletableFuture<Void> available = CompletableFuture.completedFuture(null);
    private Iterator<Received> piece = Collections.emptyIterator();
    private long committed;
    private long recorded;
    private volatile long position;

    SessionReader(SourceSettings settings, MqttSplit split) {
        this.settings = settings;
        this.journal = new Journal(split.records());
        this.source = MqttSource.streaming(settings, journal);
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
        } catch (Throwable e) { // errors too: nobody else would tell the task
            opened.completeExceptionally(e);
        }
    }

    /**
     * Whether there is a message to give out now.
     *
     * @throws SuppressRestartsException when reading has ended for good: another attempt would find the same
     */
    boolean hasNext() {
        if (!piece.hasNext() && opened.isDone()) {
            piece = translated();
        }
        return piece.hasNext();
    }

    private Iterator<Received> translated() {
        try {
            throwFailure();
            return source.take(PIECE).iterator();
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
        Received next = piece.next();
        position++;
        return next;
    }

    /** Done when {@link #hasNext} is worth asking again; the same until then, since Flink asks often and keeps any. */
    CompletableFuture<Void> available() {
        if (!opened.isDone()) {
            return opened.handle((nothing, failure) -> null);
        }
        if (available.isDone()) {
            CompletableFuture<Void> next = new CompletableFuture<>();
            available = next;
            source.whenAvailable(() -> next.complete(null));
        }
        return available;
    }

    /** The state at a checkpoint. */
    MqttSplit snapshot(long checkpoint) throws IOException {
        if (opened.isDone() && !opened.isCompletedExceptionally()) {
            source.commit(committed); // lets records go whose acknowledgements have arrived meanwhile
            record();
        }
        positions.put(checkpoint, position);
        return new MqttSplit(position, journal.read());
    }

    /** An empty first record says at least that the session exists. */
    private void record() throws IOException {
        if (position > recorded || journal.isEmpty()) {
            source.close(recorded, position, 1);
            recorded = position;
        }
    }

    /** The checkpoint is complete: what was given out before it will never be needed again. */
    void complete(long checkpoint) throws IOException {
        Long done = positions.get(checkpoint);
        positions.headMap(checkpoint, true).clear();
        if (done != null && opened.isDone() && !opened.isCompletedExceptionally()) {
            committed = Math.max(committed, done);
            source.commit(committed);
        }
    }

    SourceMetrics metrics() {
        return source.metrics();
    }

    /** How many messages this task has received and not given out. */
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

    /** The records live in Flink's state, so here they only need to be held. */
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
