package io.speck.flink.mqtt;

import io.speck.connector.Brokers;
import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.Utf8;
import io.speck.mqtt.failure.OnErrorSink;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.ToLongFunction;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.metrics.groups.SinkWriterMetricGroup;

/** One subtask that writes. It connects with its first message, as an idle job needs no connection. */
final class MqttSinkWriter<T> implements StatefulSinkWriter<T, Lineage> {
    private final OnErrorSink.Settings settings;
    private final SinkFormat<T> format;
    private final Lineage lineage;
    private final SinkWriterMetricGroup metrics;
    private final String jobName;
    private final byte[] job;
    private final SinkStamps stamps;
    private volatile OnErrorSink sink;
    private volatile boolean closed;

    /** @param job name of the job in the stamps; null for messages without stamps */
    MqttSinkWriter(OnErrorSink.Settings settings, SinkFormat<T> format, String job, Lineage lineage, SinkStamps stamps,
            SinkWriterMetricGroup metrics) {
        this.settings = settings;
        this.format = format;
        this.lineage = lineage;
        this.metrics = metrics;
        this.job = job == null ? null : job.getBytes(StandardCharsets.UTF_8);
        this.stamps = stamps;
        this.jobName = job;
        metrics.gauge("ackMillisMin", () -> acks().leastMillis());
        metrics.gauge("ackMillis", () -> acks().medianMillis());
        metrics.gauge("windowFull", () -> acks().windowFull());
        metrics.gauge("broker", () -> settings.sink().login().toString());
        metrics.gauge("eventLoop", Brokers.of(settings.sink().login())::eventLoop);
        metrics.gauge("skippedResults", () -> leftOut(OnErrorSink::skipped));
        metrics.gauge("parkedResults", () -> leftOut(OnErrorSink::parked));
        if (job != null) {
            metrics.gauge("stamps", stamps::kind);
            metrics.gauge("resent", () -> counts().resent());
            metrics.gauge("retained", () -> counts().retained());
            metrics.gauge("retainedDropped", () -> counts().retainedDropped());
            metrics.gauge("throttledMillis", () -> counts().throttledMillis());
        }
    }

    /** The figures of the connection that this task shares with all others of its process. */
    private AckMetrics acks() {
        OnErrorSink connected = sink;
        return connected == null ? AckMetrics.NONE : connected.acks();
    }

    private long leftOut(ToLongFunction<OnErrorSink> count) {
        OnErrorSink connected = sink;
        return connected == null ? 0 : count.applyAsLong(connected);
    }

    private SinkMetrics counts() {
        return closed ? SinkMetrics.NONE : SinkMetrics.of(jobName, this);
    }

    @Override
    public void write(T element, Context context) throws InterruptedException {
        if (sink == null) {
            sink = new OnErrorSink(settings);
        }
        byte[] value = format.value().apply(element);
        String key = format.key() == null ? null : format.key().apply(element);
        int bytes = sink.send(format.topic().apply(element), value, key == null ? null : Utf8.encode(key), job,
                job == null ? null : sequence(element));
        sink.sendSoon();
        metrics.getNumRecordsSendCounter().inc();
        metrics.getNumBytesSendCounter().inc(bytes);
    }

    private byte[] sequence(T element) {
        return format.sequence() == null ? stamps.next() : stamps.numbered(format.sequence().of(element));
    }

    /** Flink calls this before a checkpoint: the source acknowledges input only after its output was published. */
    @Override
    public void flush(boolean endOfInput) throws InterruptedException {
        if (sink != null) {
            sink.flush();
        }
    }

    @Override
    public List<Lineage> snapshotState(long checkpoint) {
        return List.of(lineage.at(stamps.counted()));
    }

    @Override
    public void close() {
        closed = true;
        if (jobName != null) {
            SinkMetrics.release(jobName, this);
        }
        if (sink != null) {
            sink.close();
        }
    }
}
