package io.speck.spark.mqtt;

import io.speck.connector.reader.Message;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.util.TaskFailureListener;

/** The rows of the source, with the columns of {@link RowColumns}. */
final class Rows {
    private Rows() {}

    /**
     * Packs messages into one array, which is sent to the executors at the cost of copying bytes: topics and streams of
     * stamps once, then for each message (number of its stream, epoch, index and fingerprint of its stamp, offset, topic
     * number, time in milliseconds, length, payload, and with metadata the key). For a message without a stamp, index and
     * fingerprint are its offset and its hash.
     *
     * @param content returns the content of a message for the task
     * @param watched true if the task should note its success
     * @param behind true if it should wait for the success of another one
     */
    static InputPartition pack(List<Message> messages, RowColumns columns, Function<Message, byte[]> content,
            boolean watched, boolean behind) {
        Map<String, Integer> topics = new LinkedHashMap<>();
        Map<Stream, Integer> streams = new LinkedHashMap<>();
        int bytes = 0;
        for (Message message : messages) {
            topics.putIfAbsent(message.topic(), topics.size());
            streams.putIfAbsent(Stream.of(message), streams.size());
            bytes += 52 + content.apply(message).length + columns.keySize(columns.key(message));
        }
        ByteBuffer packed = ByteBuffer.allocate(bytes);
        for (Message message : messages) {
            Stamp stamp = message.stamp();
            packed.putInt(streams.get(Stream.of(message)));
            packed.putLong(stamp == null ? 0 : stamp.epoch()).putLong(stamp == null ? message.offset() : stamp.index());
            packed.putLong(stamp == null ? message.hash() : stamp.fingerprint());
            packed.putLong(message.offset());
            packed.putInt(topics.get(message.topic())).putLong(message.receivedMillis());
            byte[] payload = content.apply(message);
            packed.putInt(payload.length).put(payload);
            columns.putKey(packed, columns.key(message));
        }
        return new Packed(topics.keySet().toArray(new String[0]), streams.keySet().toArray(new Stream[0]),
                messages.size(), packed.array(), messages.isEmpty() ? -1 : messages.get(0).offset(),
                messages.isEmpty() ? -1 : messages.get(messages.size() - 1).offset(), watched && !messages.isEmpty(),
                behind);
    }

    /** The common part of the stamps of one stream; all null for messages without a stamp, named after their offsets. */
    private record Stream(String job, String run, int partition, String path) implements Serializable {
        private static final Stream UNSTAMPED = new Stream(null, null, 0, null);

        static Stream of(Message message) {
            Stamp stamp = message.stamp();
            return stamp == null ? UNSTAMPED : new Stream(stamp.job(), stamp.run(), stamp.partition(), stamp.path());
        }

        Stamp at(long epoch, long index, long fingerprint) {
            return job == null ? null : new Stamp(job, run, partition, epoch, index, path, fingerprint);
        }
    }

    /** @param first offset of the first message; that of the others only grows, up to {@code last} */
    private record Packed(String[] topics, Stream[] streams, int count, byte[] bytes, long first, long last,
            boolean watched, boolean behind) implements InputPartition {}

    /**
     * @param failures where failed tasks note their messages; null for nowhere
     * @param run of the query; null without such a place
     */
    record Factory(RowColumns columns, int source, FailedRanges failures, String run)
            implements PartitionReaderFactory {
        /** A task that waits for another one holds a place that the other may need to be tried again. */
        private static final long LONGEST_WAIT_NANOS = TimeUnit.SECONDS.toNanos(60);
        private static final long POLL_MILLIS = 100;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            Packed packed = (Packed) partition;
            Reader reader = new Reader(packed, columns, source);
            TaskContext task = TaskContext.get();
            if (failures != null && task != null && packed.count() > 0) {
                task.addTaskFailureListener((TaskFailureListener) (context, error) ->
                        note(packed, ReadAhead.isIn(context) ? -1 : reader.current, error));
                if (packed.watched()) {
                    task.addTaskCompletionListener((TaskCompletionListener) this::notePassed);
                }
                if (packed.behind()) {
                    awaitPassed();
                }
            }
            return reader;
        }

        private void notePassed(TaskContext task) {
            try {
                if (!task.isFailed() && !task.isInterrupted()) {
                    failures.addPassed(run);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private void awaitPassed() {
            long end = System.nanoTime() + LONGEST_WAIT_NANOS;
            try {
                while (!failures.hasPassed(run) && System.nanoTime() < end) {
                    Thread.sleep(POLL_MILLIS);
                }
            } catch (InterruptedException e) {
                throw new UncheckedIOException(UnsentRows.interrupted(e));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private void note(Packed partition, long current, Throwable error) {
            try {
                failures.add(run, partition.first(), partition.last(), current, TaskError.of(error));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** Names each message as the input of this thread, from which the sink derives its stamps. */
    private static final class Reader implements PartitionReader<InternalRow> {
        private final CurrentInput input = CurrentInput.ofThread();
        private final Stream[] streams;
        private final int source;
        private final UTF8String[] topics;
        private final ByteBuffer packed;
        private final RowColumns columns;
        private final GenericInternalRow row;
        private int remaining;
        /** Offset of the present message; -1 before the first and after the last. */
        private volatile long current = -1;

        Reader(Packed partition, RowColumns columns, int source) {
            this.streams = partition.streams();
            this.source = source;
            this.topics = Arrays.stream(partition.topics()).map(UTF8String::fromString).toArray(UTF8String[]::new);
            this.packed = ByteBuffer.wrap(partition.bytes());
            this.remaining = partition.count();
            this.columns = columns;
            this.row = columns.newRow();
        }

        @Override
        public boolean next() {
            if (remaining == 0) {
                input.end();
                current = -1;
                return false;
            }
            remaining--;
            Stream stream = streams[packed.getInt()];
            long epoch = packed.getLong();
            long index = packed.getLong();
            long fingerprint = packed.getLong();
            Stamp stamp = stream.at(epoch, index, fingerprint);
            input.begin(stamp, source, index, (int) fingerprint);
            long offset = packed.getLong();
            current = offset;
            row.update(RowColumns.TOPIC, topics[packed.getInt()]);
            columns.time(row, packed.getLong());
            row.update(RowColumns.VALUE, value(packed.getInt()));
            columns.metadata(row, columns.takeKey(packed), offset);
            if (stamp == null) {
                input.mayWait(this::isFollowed);
            }
            return true;
        }

        /** True if another message without a stamp follows; the number of its stream is its first field. */
        private boolean isFollowed() {
            return remaining > 0 && streams[packed.getInt(packed.position())].job() == null;
        }

        private Object value(int length) {
            int at = packed.position();
            packed.position(at + length);
            if (columns.binaryValue()) {
                return Arrays.copyOfRange(packed.array(), at, at + length);
            }
            return UTF8String.fromBytes(packed.array(), at, length); // any bytes: see TextUse
        }

        @Override
        public InternalRow get() {
            return row;
        }

        @Override
        public void close() {
            input.end();
        }
    }
}
