package io.speck.spark.mqtt;

import io.speck.mqtt.Received;
import io.speck.mqtt.stamp.CurrentInput;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskFailureListener;

/** The rows of the source (see {@link Rows}) in real-time mode. */
final class RealTimeRows {
    private RealTimeRows() {}

    /** The parts of a batch: each task takes the next message when it is done with one. */
    static InputPartition[] partitions(RealTimeFeed feed, int count) {
        InputPartition[] parts = new InputPartition[count];
        for (int i = 0; i < count; i++) {
            parts[i] = new Part(feed.key());
        }
        return parts;
    }

    private record Part(String feed) implements InputPartition {}

    /** The end of a part. That of the batch is the feed's own. */
    private record End(long offset) implements PartitionOffset {}

    record Factory(RowColumns columns, int source) implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            TaskContext task = TaskContext.get();
            if (task != null && task.attemptNumber() > 0) {
                throw new IllegalStateException(
                        "a task of a real-time batch failed; the batch must be run again as a whole");
            }
            Reader reader = new Reader(RealTimeFeeds.of(((Part) partition).feed()), columns, source);
            if (task != null && reader.failures != null) {
                task.addTaskFailureListener((TaskFailureListener) (context, error) -> reader.failed(error));
            }
            return reader;
        }
    }

    /** Names each message as the input of this thread, from which the sink derives its stamps. */
    private static final class Reader implements SupportsRealTimeRead<InternalRow> {
        private final CurrentInput input = CurrentInput.ofThread();
        private final RealTimeFeed feed;
        private final RealTimeFailures failures;
        private final RowColumns columns;
        private final int source;
        private final GenericInternalRow row;
        private String lastTopic;
        /** The message that the task is working on; null for none. */
        private volatile Received current;

        Reader(RealTimeFeed feed, RowColumns columns, int source) {
            this.feed = feed;
            this.failures = feed.failures();
            this.columns = columns;
            this.row = columns.newRow();
            this.source = source;
        }

        @Override
        public RecordStatus nextWithTimeout(Long timeoutMillis) throws IOException {
            passed();
            Received next;
            try {
                next = feed.next(timeoutMillis);
            } catch (InterruptedException e) {
                throw UnsentRows.interrupted(e);
            }
            if (next == null) {
                return RecordStatus.newStatusWithoutArrivalTime(false);
            }
            current = next;
            input.begin(next.stamp(), source, next.offset(), next.hash());
            fill(next);
            return RecordStatus.newStatusWithoutArrivalTime(true);
        }

        private void passed() {
            input.end();
            if (failures != null && current != null) {
                failures.passed();
            }
            current = null;
        }

        private void failed(Throwable error) {
            Received message = current;
            try {
                if (message != null) {
                    failures.failed(message, error);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private void fill(Received next) {
            if (!next.topic().equals(lastTopic)) {
                lastTopic = next.topic();
                row.update(RowColumns.TOPIC, UTF8String.fromString(lastTopic));
            }
            if (feed.isText()) {
                TextMessages.check(next.payload(), next.offset(), next.topic());
            }
            row.update(RowColumns.VALUE, columns.binaryValue() ? next.payload() : UTF8String.fromBytes(next.payload()));
            columns.time(row, next.receivedMillis());
            columns.metadata(row, UTF8String.fromString(next.key()), next.offset());
        }

        @Override
        public boolean next() {
            throw new UnsupportedOperationException("next() is not supported (call nextWithTimeout)");
        }

        @Override
        public InternalRow get() {
            return row;
        }

        @Override
        public PartitionOffset getOffset() {
            return new End(feed.given());
        }

        @Override
        public void close() {
            input.end();
        }
    }
}
