package io.speck.spark.mqtt;

import io.speck.mqtt.InvalidSettingException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;

/** Writes in every output mode: each row becomes a message; "complete" sends the whole result each time. */
final class MqttWriteBuilder implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
    private static final int RUN_LENGTH = 8;

    private final StructType schema;
    private final String queryId;
    private final WriteOptions options;
    private final WriteCounts counts;
    private boolean truncated;

    /** @param counts receives the mode of each batch, and what it wrote */
    MqttWriteBuilder(StructType schema, String queryId, WriteOptions options, WriteCounts counts) {
        this.schema = schema;
        this.queryId = queryId;
        this.options = options;
        this.counts = counts;
    }

    @Override
    public WriteBuilder truncate() {
        truncated = true;
        return this;
    }

    /**
     * Spark does not tell a sink if its rows have the same order when a batch is run again, as is the case only without
     * a shuffle. A counted stamp that then belonged to another row would make readers drop rows that they never
     * received, so counted rows are sorted unless the option {@code order} says otherwise.
     */
    @Override
    public Write build() {
        RowLayout layout = RowLayout.of(schema, options.topic() != null);
        boolean sorted = options.order() == null ? truncated || options.job() != null : options.order().equals("value");
        WriterSettings settings = new WriterSettings(options.sink(), options.topic(), options.job(),
                run(".", options.incarnationNumber()), run(".o", options.originNumber()), StampMode.COUNTED, false,
                sorted, layout);
        return new TopicWrite(settings, counts);
    }

    /** The lineage in the stamps: by default the query's id, since that stays with its checkpoint. */
    private String run(String mark, long number) {
        String whole = options.incarnation() != null ? options.incarnation() : queryId.replace("-", "");
        boolean given = options.incarnation() != null || whole.length() < RUN_LENGTH;
        return (given ? whole : whole.substring(0, RUN_LENGTH)) + (number == 0 ? "" : mark + number);
    }

    private record TopicWrite(WriterSettings settings, WriteCounts counts) implements Write {
        @Override
        public String description() {
            return "mqtt " + settings.topic() + " at " + settings.sink().sink().login();
        }

        @Override
        public BatchWrite toBatch() {
            return new TopicBatchWrite(settings);
        }

        @Override
        public StreamingWrite toStreaming() {
            return new TopicStreamingWrite(settings, counts);
        }
    }

    private record Factory(WriterSettings settings) implements DataWriterFactory, StreamingDataWriterFactory {
        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return new MqttDataWriter(settings, partition, 0);
        }

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
            return new MqttDataWriter(settings, partition, epoch);
        }
    }

    /** Publishes what tasks left. */
    private record TopicBatchWrite(WriterSettings settings) implements BatchWrite {
        @Override
        public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
            return new Factory(settings);
        }

        @Override
        public boolean useCommitCoordinator() {
            return false;
        }

        @Override
        public void commit(WriterCommitMessage[] messages) {
            UnsentRows.publish(messages, settings);
        }

        @Override
        public void abort(WriterCommitMessage[] messages) {}
    }

    private record TopicStreamingWrite(WriterSettings settings, WriteCounts counts) implements StreamingWrite {
        /** Called for each batch, in the thread of the query. */
        @Override
        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
            SparkPlan plan = StampMode.runningPlan();
            StampMode mode = StampMode.of(plan);
            boolean realTime = StampMode.isRealTime(plan);
            ReadAhead.note(SparkSession.active().sparkContext(), plan);
            if (realTime && settings.job() != null && mode == StampMode.COUNTED) {
                throw new InvalidSettingException("mqtt sink: a real-time query whose rows do not each come from the message"
                        + " read last has no stamps that a repetition would have again (expected a query of projections,"
                        + " filters and generators, or one in micro-batches)");
            }
            counts.mode(settings.job() == null ? null : mode);
            return new Factory(settings.with(mode, realTime).grouped(plan == null ? 0 : StampMode.grouping(plan)));
        }

        @Override
        public boolean useCommitCoordinator() {
            return false;
        }

        /** Publishes what tasks left, and counts all messages. */
        @Override
        public void commit(long epoch, WriterCommitMessage[] messages) {
            counts.add(UnsentRows.publish(messages, settings));
        }

        @Override
        public void abort(long epoch, WriterCommitMessage[] messages) {}
    }
}
