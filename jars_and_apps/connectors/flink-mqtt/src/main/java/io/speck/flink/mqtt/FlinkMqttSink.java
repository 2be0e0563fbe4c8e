package io.speck.flink.mqtt;

import io.speck.mqtt.Utf8;
import io.speck.mqtt.failure.OnErrorSink;
import java.util.Collection;
import java.util.List;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreWriteTopology;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.util.function.SerializableFunction;

/**
 * Writes messages at QoS 1, each with a stamp by which readers recognise its repetition.
 *
 * <p>A checkpoint waits until the broker has acknowledged all messages written before it. After a failure the work
 * since the last checkpoint is repeated. Where each message comes from one message of an mqtt source, by maps, filters,
 * flatMaps and process functions in the same chain, its stamp is derived from that one's: then it is the same in any
 * order, and in any other form of the job.
 *
 * <p>Elsewhere the n-th message of a subtask gets its old stamp. That is correct if it <em>is</em> the old message: each
 * subtask must get the same elements in the same order again. It does if every operator upstream has one input channel
 * (from a source of parallelism 1, over maps, filters, or one keyBy) and reads no clock. For other programs, number the
 * messages in another way ({@link Sequence}), or write without stamps.
 */
public final class FlinkMqttSink<T> implements Sink<T>, SupportsWriterState<T, Lineage>,
        SupportsPreWriteTopology<T> {
    private static final long serialVersionUID = 1L;

    private final OnErrorSink.Settings settings;
    private final SinkFormat<T> format;
    private final String job;
    private final LineageSettings lineage;
    private boolean rowByRow;

    FlinkMqttSink(OnErrorSink.Settings settings, SinkFormat<T> format, String job, LineageSettings lineage) {
        this.settings = settings;
        this.format = format;
        this.job = job;
        this.lineage = lineage;
    }

    /** Builds a sink of contents, as they are. */
    public static FlinkMqttSinkBuilder<byte[]> bytes() {
        return of(bytes -> bytes);
    }

    /** Builds a sink of texts. */
    public static FlinkMqttSinkBuilder<String> texts() {
        return of(Utf8::encode);
    }

    /** Builds a sink of the payloads that {@code format} returns for each element. */
    public static <T> FlinkMqttSinkBuilder<T> of(SerializableFunction<T, byte[]> format) {
        return new FlinkMqttSinkBuilder<>(format);
    }

    OnErrorSink.Settings settings() {
        return settings;
    }

    /** Adds nothing: Flink calls it when it has the whole graph before the sink, which decides the kind of stamps. */
    @Override
    public DataStream<T> addPreWriteTopology(DataStream<T> input) {
        rowByRow = format.sequence() == null && RowByRow.is(input.getTransformation());
        return input;
    }

    @Override
    public StatefulSinkWriter<T, Lineage> createWriter(WriterInitContext context) {
        return restoreWriter(context, List.of());
    }

    @Override
    public StatefulSinkWriter<T, Lineage> restoreWriter(WriterInitContext context, Collection<Lineage> restored) {
        LibraryRelease.register(context.getUserCodeClassLoader());
        Lineage begun = Lineage.begin(context, restored, lineage);
        SinkStamps stamps = new SinkStamps(begun, lineage.edgeRun(begun.run()), rowByRow);
        return new MqttSinkWriter<>(settings, format, job, begun, stamps, context.metricGroup());
    }

    @Override
    public SimpleVersionedSerializer<Lineage> getWriterStateSerializer() {
        return new Lineage.Serializer();
    }
}
