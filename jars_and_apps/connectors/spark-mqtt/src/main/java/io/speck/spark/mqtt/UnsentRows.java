package io.speck.spark.mqtt;

import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.failure.OnErrorSink;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * The rows of a task behind the first one for which a session at the broker had no room, or which found the broker away.
 * They go to the driver with the task's result, and the driver publishes them, in the thread of the query: a task that
 * waited for the session's reader, or the broker, would hold its task slot, and on a server with few slots the reader, and
 * all other queries, would get none. So do the rows that are to be parked, at whose broker the same may hold.
 *
 * <p>A task that has more of either than the property {@code speck.sink.unsentMegabytes} of the Java process (a 16th of
 * the heap, at most 64) waits itself.
 */
final class UnsentRows {
    static final long LIMIT = Long.getLong("speck.sink.unsentMegabytes",
            Math.min(64, Runtime.getRuntime().maxMemory() >> 24)) << 20;

    private final List<UnsentMessage> rows = new ArrayList<>();
    private long bytes;

    boolean isEmpty() {
        return rows.isEmpty();
    }

    /** True if the task has to publish them itself. */
    boolean full() {
        return bytes > LIMIT;
    }

    void add(UnsentMessage row) {
        rows.add(row);
        bytes += row.bytes();
    }

    /** Returns the rows, in order, and begins anew. */
    List<UnsentMessage> take() {
        List<UnsentMessage> taken = List.copyOf(rows);
        rows.clear();
        bytes = 0;
        return taken;
    }

    /**
     * Publishes the unsent rows of a batch, and parks those that cannot be written, in the driver; waits for room at a
     * broker, for as long as it takes, and for the broker, until the flush time-out.
     *
     * @return the results of the tasks, and that of the driver
     * @throws io.speck.mqtt.BrokerException as a task
     */
    static WriterCommitMessage[] publish(WriterCommitMessage[] tasks, WriterSettings settings) {
        List<UnsentMessage> rows = collected(tasks, Written::unsent);
        List<RefusedMessage> unparked = collected(tasks, Written::unparked);
        if (rows.isEmpty() && unparked.isEmpty()) {
            return tasks;
        }
        WriterCommitMessage[] all = Arrays.copyOf(tasks, tasks.length + 1);
        try (OnErrorSink sink = rows.isEmpty() ? OnErrorSink.offering(settings.sink(), 0) // needs no connection of its own
                : new OnErrorSink(settings.sink())) {
            sink.park(unparked);
            long bytes = send(sink, rows, settings.jobBytes());
            sink.flush();
            all[tasks.length] = Written.by(sink, rows.size() + unparked.size(), bytes, List.of());
        } catch (InterruptedException e) {
            throw new UncheckedIOException(interrupted(e));
        }
        return all;
    }

    private static <T> List<T> collected(WriterCommitMessage[] tasks, Function<Written, List<T>> part) {
        return Arrays.stream(tasks).filter(Written.class::isInstance)
                .flatMap(task -> part.apply((Written) task).stream()).toList();
    }

    /** Publishes rows; waits for room at the broker. Returns the bytes of their payloads and topics. */
    static long send(OnErrorSink sink, List<UnsentMessage> rows, byte[] job) throws InterruptedException {
        long bytes = 0;
        for (UnsentMessage row : rows) {
            bytes += sink.send(row.topic(), row.payload(), row.key(), job, row.sequence());
        }
        return bytes;
    }

    /** The form of an interruption in which Spark sees the stop of a query, and no failure. */
    static InterruptedIOException interrupted(InterruptedException cause) {
        Thread.currentThread().interrupt();
        InterruptedIOException stopped = new InterruptedIOException("the query was stopped");
        stopped.initCause(cause);
        return stopped;
    }
}
