package io.speck.spark.mqtt;

import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.failure.OnErrorSink;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.stamp.SequenceBytes;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes one partition of one batch. A derived stamp of a row comes from the message that this task is reading. A
 * counted one is the row's position among the rows, so the rows must have the same order when the batch is run again:
 * the input order without a shuffle, sorted by their bytes after one.
 */
final class MqttDataWriter implements DataWriter<InternalRow> {
    private record Row(String topic, byte[] key, byte[] value) {
        static final Comparator<Row> BY_BYTES = Comparator.comparing(Row::value, Arrays::compareUnsigned)
                .thenComparing(Row::topic)
                .thenComparing(Row::key, Comparator.nullsFirst(Arrays::compareUnsigned));
    }

    private final WriterSettings settings;
    private final List<Row> buffered = new ArrayList<>();
    private final UnsentRows unsent = new UnsentRows();
    private final byte[] job;
    private final byte[] prefix;
    private final CurrentInput input = CurrentInput.ofThread();
    private OnErrorSink sink;
    private long index;
    private long messages;
    private long bytes;
    private UTF8String lastTopic;
    private String lastTopicText;

    MqttDataWriter(WriterSettings settings, int partition, long epoch) {
        this.settings = settings;
        this.job = settings.jobBytes();
        this.prefix = Stamp.prefix(settings.run(), partition, epoch).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void write(InternalRow row) throws IOException {
        Row converted = new Row(topic(row), settings.layout().keyOf(row), settings.layout().valueOf(row));
        if (settings.sorted()) {
            buffered.add(converted);
        } else {
            send(converted);
        }
    }

    private String topic(InternalRow row) {
        UTF8String topic = settings.layout().topicOf(row);
        if (topic == null) {
            if (settings.topic() == null) {
                throw new InvalidSettingException("mqtt sink: a row has no topic, and there is no option 'topic'");
            }
            return settings.topic();
        }
        if (!topic.equals(lastTopic)) {
            lastTopic = topic.clone();
            lastTopicText = topic.toString();
        }
        return lastTopicText;
    }

    private void send(Row row) throws IOException {
        byte[] sequence = job == null ? null : sequence();
        try {
            if (sink == null) {
                sink = settings.realTime() ? new OnErrorSink(settings.sink())
                        : OnErrorSink.offering(settings.sink(), UnsentRows.LIMIT);
            }
            if (settings.realTime()) {
                bytes += sink.send(row.topic(), row.value(), row.key(), job, sequence);
                messages++;
                sink.sendSoon();
                return;
            }
            int size = unsent.isEmpty() ? sink.offer(row.topic(), row.value(), row.key(), job, sequence) : -1;
            if (size >= 0) {
                bytes += size;
                messages++;
            } else {
                defer(new UnsentMessage(row.topic(), row.value(), row.key(), sequence));
            }
        } catch (InterruptedException e) {
            throw UnsentRows.interrupted(e);
        }
    }

    private void defer(UnsentMessage row) throws InterruptedException {
        unsent.add(row);
        if (unsent.full()) {
            List<UnsentMessage> rows = unsent.take();
            bytes += UnsentRows.send(sink, rows, job);
            messages += rows.size();
        }
    }

    private byte[] sequence() {
        return settings.mode() == StampMode.DERIVED
                ? input.nextSequence(settings.edgeRun()) : SequenceBytes.counted(prefix, index++);
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        buffered.sort(Row.BY_BYTES);
        for (Row row : buffered) {
            send(row);
        }
        buffered.clear();
        if (sink == null) {
            return new Written(messages, bytes, AckMetrics.NONE, unsent.take(), List.of(), 0, 0);
        }
        List<UnsentMessage> all = new ArrayList<>(flush());
        all.addAll(unsent.take());
        return Written.by(sink, messages, bytes, all);
    }

    /** Returns what was sent and not acknowledged before the broker went away. */
    private List<UnsentMessage> flush() throws IOException {
        try {
            if (settings.realTime()) {
                sink.flush();
                return List.of();
            }
            List<UnsentMessage> left = sink.flushUnlessAway();
            messages -= left.size();
            for (UnsentMessage each : left) {
                bytes -= each.topic().getBytes(StandardCharsets.UTF_8).length + each.payload().length;
            }
            return left;
        } catch (InterruptedException e) {
            throw UnsentRows.interrupted(e);
        }
    }

    @Override
    public void abort() {
        buffered.clear();
    }

    @Override
    public void close() {
        if (sink != null) {
            sink.close();
        }
    }
}
