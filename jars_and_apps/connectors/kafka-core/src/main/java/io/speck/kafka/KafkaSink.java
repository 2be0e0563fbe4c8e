package io.speck.kafka;

import io.speck.connector.MessageSink;
import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SinkSettings;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RecordTooLargeException;

/**
 * One writer, over the idempotent producer that all writers of this process to this broker share.
 *
 * <p>Not thread-safe, but for what the producer's own thread reports.
 */
final class KafkaSink implements MessageSink {
    private final SinkSettings settings;
    private final boolean lenient;
    private final Producers.Shared shared;
    private boolean open = true;
    private String lastTopic;
    private int lastTopicBytes;

    // Guarded by this object's monitor, which the producer's thread takes too.
    private int outstanding;
    private BrokerException failure;
    private boolean broken;
    private List<RefusedMessage> refused = new ArrayList<>();
    private volatile boolean hasRefused;

    KafkaSink(SinkSettings settings, boolean lenient) throws InterruptedException {
        this.settings = settings;
        this.lenient = lenient;
        try {
            this.shared = Producers.acquire(settings);
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "a writer cannot begin", e);
        }
    }

    @Override
    public int send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        ProducerRecord<byte[], byte[]> record = record(topic, payload, key);
        if (job != null) {
            RecordDecoder.stamp(record.headers(), job, sequence);
        }
        send(record, Map.of());
        return lastTopicBytes + payload.length;
    }

    @Override
    public int offer(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        return send(topic, payload, key, job, sequence); // a reader that is behind fills no session here
    }

    @Override
    public void send(String topic, byte[] payload, byte[] key, Map<String, String> properties)
            throws InterruptedException {
        ProducerRecord<byte[], byte[]> record = record(topic, payload, key);
        properties.forEach((name, value) -> record.headers().add(name, value.getBytes(StandardCharsets.UTF_8)));
        send(record, properties);
    }

    private ProducerRecord<byte[], byte[]> record(String topic, byte[] payload, byte[] key) {
        if (!topic.equals(lastTopic)) {
            lastTopicBytes = Topics.checked(topic).getBytes(StandardCharsets.UTF_8).length;
            lastTopic = topic;
        }
        return new ProducerRecord<>(topic, null, key, payload);
    }

    private void send(ProducerRecord<byte[], byte[]> record, Map<String, String> properties) throws InterruptedException {
        synchronized (this) {
            throwFailure();
            outstanding++;
        }
        long sentNanos = System.nanoTime();
        try {
            shared.producer.send(record, (metadata, error) -> completed(record, properties, sentNanos, error));
        } catch (KafkaException e) {
            synchronized (this) {
                outstanding--;
            }
            throw Clients.translated(settings.login(), "topic '" + record.topic() + "'", e);
        }
    }

    private void completed(ProducerRecord<byte[], byte[]> record, Map<String, String> properties, long sentNanos,
            Exception error) {
        if (error == null) {
            shared.acknowledged(sentNanos);
        }
        synchronized (this) {
            outstanding--;
            if (error instanceof RecordTooLargeException) {
                tooLarge(record, properties, error);
            } else if (error != null && failure == null) {
                broken = true;
                failure = new BrokerException("broker " + settings.login() + ": topic '" + record.topic() + "': "
                        + error.getMessage(), error);
            }
            notifyAll();
        }
    }

    private void tooLarge(ProducerRecord<byte[], byte[]> record, Map<String, String> properties, Exception error) {
        String reason = "a message of " + record.value().length + " bytes to topic '" + record.topic()
                + "' is too large (raise max.message.bytes of the topic): " + error.getMessage();
        if (lenient) {
            refused.add(new RefusedMessage(record.topic(), record.value(), record.key(), properties, -1, reason));
            hasRefused = true;
        } else if (failure == null) {
            failure = new BrokerException("broker " + settings.login() + ": " + reason, true);
        }
    }

    private void throwFailure() {
        if (failure != null) {
            throw new BrokerException(failure.getMessage(), failure.refused());
        }
    }

    @Override
    public boolean hasRefused() {
        return hasRefused;
    }

    @Override
    public synchronized List<RefusedMessage> takeRefused() {
        List<RefusedMessage> taken = refused;
        refused = new ArrayList<>();
        hasRefused = false;
        return taken;
    }

    @Override
    public void sendSoon() {
        // The producer sends within a millisecond.
    }

    @Override
    public synchronized void flush() throws InterruptedException {
        long deadline = System.nanoTime() + settings.flushTimeout().toNanos();
        while (outstanding > 0 && failure == null) {
            long millis = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (millis <= 0) {
                broken = true;
                throw new BrokerException("broker " + settings.login() + " did not acknowledge " + outstanding
                        + " messages within " + settings.flushTimeout().toSeconds() + " s", false);
            }
            wait(millis);
        }
        throwFailure();
    }

    @Override
    public AckMetrics acks() {
        return shared.acks();
    }

    @Override
    public void close() {
        if (open) {
            open = false;
            boolean failed;
            synchronized (this) {
                failed = broken;
            }
            Producers.release(shared, failed);
        }
    }
}
