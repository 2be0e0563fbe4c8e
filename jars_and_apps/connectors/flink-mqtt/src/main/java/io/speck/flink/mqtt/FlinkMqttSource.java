package io.speck.flink.mqtt;

import io.speck.mqtt.Received;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.failure.OnError;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.types.Row;
import org.apache.flink.util.function.SerializableFunction;

/**
 * Reads an MQTT 5 topic through a persistent session, and acknowledges a message once a checkpoint that reflects it is
 * complete. Checkpoints must therefore be on, and after 65535 unacknowledged messages it waits for the next one.
 *
 * <p>A session has one reader: set the source's parallelism to 1. With more, the first subtask reads and the others
 * finish at once. The timestamp of a record is its time of receipt, which changes when the message is redelivered.
 *
 * @param <T> type of the records
 */
public final class FlinkMqttSource<T> implements Source<T, MqttSplit, Boolean>, ResultTypeQueryable<T> {
    private static final long serialVersionUID = 1L;
    private static final TypeInformation<Row> ROWS = Types.ROW_NAMED(
            new String[] {"topic", "value", "key", "timestamp"}, Types.STRING,
            PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, Types.STRING, Types.LONG);

    private final SourceSettings settings;
    private final TypeInformation<T> type;
    private final SerializableFunction<Received, T> format;
    private final OnError onError;
    private final SinkSettings parking;
    private final CheckpointNames checkpoints;

    FlinkMqttSource(SourceSettings settings, TypeInformation<T> type, SerializableFunction<Received, T> format,
            OnError onError, SinkSettings parking, CheckpointNames checkpoints) {
        this.checkpoints = checkpoints;
        this.settings = settings;
        this.type = type;
        this.format = format;
        this.onError = onError;
        this.parking = parking;
    }

    /** Builds a source of the messages' contents as text; a content that is not UTF-8 is an error of its message. */
    public static FlinkMqttSourceBuilder<String> texts() {
        return of(Types.STRING, Received::text);
    }

    /** Builds a source of the messages' contents, as they are. */
    public static FlinkMqttSourceBuilder<byte[]> bytes() {
        return of(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, Received::payload);
    }

    /**
     * Builds a source of rows: {@code topic} (text), {@code value} (bytes), {@code key} (text, null for none) and
     * {@code timestamp} (time of receipt, milliseconds since 1970).
     */
    public static FlinkMqttSourceBuilder<Row> rows() {
        return of(ROWS, each -> Row.of(each.topic(), each.payload(), each.key(), each.receivedMillis()));
    }

    /** Builds a source of whole messages: topic, content, key and time of receipt. */
    public static FlinkMqttSourceBuilder<Received> messages() {
        return of(Types.POJO(Received.class), received -> received);
    }

    /** Builds a source of the records that {@code format} returns for each message. */
    public static <T> FlinkMqttSourceBuilder<T> of(TypeInformation<T> type, SerializableFunction<Received, T> format) {
        return new FlinkMqttSourceBuilder<>(type, format);
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<T, MqttSplit> createReader(SourceReaderContext context) {
        return new MqttSourceReader<>(settings, format, onError, parking, checkpoints, context);
    }

    @Override
    public SplitEnumerator<MqttSplit, Boolean> createEnumerator(SplitEnumeratorContext<MqttSplit> context) {
        return new SessionEnumerator(context, false);
    }

    @Override
    public SplitEnumerator<MqttSplit, Boolean> restoreEnumerator(
            SplitEnumeratorContext<MqttSplit> context, Boolean assigned) {
        return new SessionEnumerator(context, assigned);
    }

    @Override
    public SimpleVersionedSerializer<MqttSplit> getSplitSerializer() {
        return new MqttSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
        return new SessionEnumerator.Serializer();
    }

    @Override
    public TypeInformation<T> getProducedType() {
        return type;
    }
}
