package io.speck.kafka;

import io.speck.connector.MessageSink;
import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SinkSettings;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * One writer, over the idempotent producer that all writers of this process to this broker share; an {@link OfferingSink}
 * has one of its own.
 *
 * <p>Not thread-safe, but for what the producer's own thread reports. That thread takes no lock for a message which the
 * broker has accepted, unless a flush waits for it.
 */
class KafkaSink implements MessageSink {
    /** New partitions of a topic are used after this time at the latest. */
    private static final long COUNT_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** A wait for answers looks after this time if the broker is away. */
    private static final long SLICE_MILLIS = 500;

    private static final long NOT_TIMED = Long.MIN_VALUE;

    final SinkSettings settings;
    private final boolean lenient;
    private Producers.Shared shared;
    private boolean open = true;
    private String lastTopic;
    private int lastTopicBytes;
    /** The topic whose partitions were counted last, their number, and when. */
    private String countedTopic;
    private int partitions;
    private long countedNanos;
    private long sent;
    /** True while a message is under way whose acknowledgement is timed; for the others, no clock is read. */
    private volatile boolean timing;

    /** The messages that the broker has acknowledged or refused. */
    private final AtomicLong answered = new AtomicLong();
    /** The answers that a flush waits for. */
    private volatile long awaited = Long.MAX_VALUE;
    /** The first failure; set under this object's monitor. */
    private volatile BrokerException failure;
    private volatile boolean broken;
    private volatile boolean hasRefused;
    private List<RefusedMessage> refused = new ArrayList<>(); // guarded by this object's monitor

    KafkaSink(SinkSettings settings, boolean lenient) throws InterruptedException {
        this(settings, lenient, shared(settings));
    }

    /** Creates a writer over a producer. */
    KafkaSink(SinkSettings settings, boolean lenient, Producers.Shared shared) {
        this.settings = settings;
        this.lenient = lenient;
        this.shared = shared;
    }

    private static Producers.Shared shared(SinkSettings settings) throws InterruptedException {
        try {
            return Producers.acquire(settings);
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "a writer cannot begin", e);
        }
    }

    @Override
    public int send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        send(stamped(topic, payload, key, job, sequence), Map.of());
        return lastTopicBytes + payload.length;
    }

    /** Returns a record with its partition, and with its stamp if it has a job. */
    final ProducerRecord<byte[], byte[]> stamped(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence)
            throws InterruptedException {
        ProducerRecord<byte[], byte[]> record = record(topic, payload, key, job);
        if (job != null) {
            RecordDecoder.stamp(record.headers(), job, sequence);
        }
        return record;
    }

    /** The size of the topic of the record made last, in bytes. */
    final int topicBytes() {
        return lastTopicBytes;
    }

    @Override
    public int offer(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        return send(topic, payload, key, job, sequence); // a reader that is behind fills no session here
    }

    @Override
    public void send(String topic, byte[] payload, byte[] key, Map<String, String> properties)
            throws InterruptedException {
        ProducerRecord<byte[], byte[]> record = record(topic, payload, key, null);
        properties.forEach((name, value) -> record.headers().add(name, value.getBytes(StandardCharsets.UTF_8)));
        send(record, properties);
    }

    private ProducerRecord<byte[], byte[]> record(String topic, byte[] payload, byte[] key, byte[] job)
            throws InterruptedException {
        if (!topic.equals(lastTopic)) {
            lastTopicBytes = Topics.checked(topic).getBytes(StandardCharsets.UTF_8).length;
            lastTopic = topic;
        }
        return new ProducerRecord<>(topic, key == null && job != null ? partition(topic, job) : null, key, payload);
    }

    /**
     * Returns the partition of the messages that a job writes without keys, which keep their order there; null for the
     * only one. Of other messages, the producer chooses it by the key.
     */
    private Integer partition(String topic, byte[] job) throws InterruptedException {
        int partitions = partitions(topic);
        return partitions > 1 ? Math.floorMod(Arrays.hashCode(job), partitions) : null;
    }

    /** Returns the number of partitions, which is asked for once in a while: the producer looks under a lock. */
    private int partitions(String topic) throws InterruptedException {
        long now = System.nanoTime();
        if (topic.equals(countedTopic) && now - countedNanos < COUNT_NANOS) {
            return partitions;
        }
        try {
            partitions = shared.producer.partitionsFor(topic).size();
            countedTopic = topic;
            countedNanos = now;
            return partitions;
        } catch (TimeoutException e) {
            throw Clients.translated(settings.login(), "topic '" + topic + "' (if it was deleted, apply the composition"
                    + " again, which makes it)", e);
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "topic '" + topic + "'", e);
        }
    }

    private void send(ProducerRecord<byte[], byte[]> record, Map<String, String> properties) throws InterruptedException {
        long sentNanos = beginTiming();
        hand(record, (metadata, error) -> completed(record, properties, sentNanos, error));
        countSent();
    }

    /** Counts a message whose answer a flush waits for. */
    final void countSent() {
        sent++;
    }

    /** Hands a record to the producer. */
    final void hand(ProducerRecord<byte[], byte[]> record, Callback callback) throws InterruptedException {
        throwFailure();
        try {
            shared.producer.send(record, callback);
        } catch (KafkaException e) {
            timing = false;
            throw Clients.translated(settings.login(), "topic '" + record.topic() + "'", e);
        }
    }

    /** Returns the time now if no message under way is timed, and times this one. */
    final long beginTiming() {
        if (timing) {
            return NOT_TIMED;
        }
        timing = true;
        return System.nanoTime();
    }

    /** Ends the timing of a message that was not taken, or was answered. */
    final void endTiming(long sentNanos) {
        if (sentNanos != NOT_TIMED) {
            timing = false;
        }
    }

    /** Takes the answer to a message, in the producer's thread. */
    final void completed(ProducerRecord<byte[], byte[]> record, Map<String, String> properties, long sentNanos,
            Exception error) {
        endTiming(sentNanos);
        if (error != null) {
            failed(record, properties, error);
        } else if (sentNanos != NOT_TIMED) {
            shared.acknowledged(sentNanos);
        }
        if (answered.incrementAndGet() >= awaited || error != null) {
            synchronized (this) {
                notifyAll();
            }
        }
    }

    private synchronized void failed(ProducerRecord<byte[], byte[]> record, Map<String, String> properties,
            Exception error) {
        if (error instanceof RecordTooLargeException) {
            tooLarge(record, properties, error);
        } else if (failure == null) {
            broken = true;
            failure = new BrokerException("broker " + settings.login() + ": topic '" + record.topic() + "': "
                    + error.getMessage(), error);
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
        BrokerException first = failure;
        if (first != null) {
            throw new BrokerException(first.getMessage(), first.refused());
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
    public void flush() throws InterruptedException {
        awaitAnswers(() -> false);
    }

    /**
     * Waits for the answers to all messages; returns false as soon as the broker is away.
     *
     * @throws BrokerException as {@link #flush}
     */
    final synchronized boolean awaitAnswers(BooleanSupplier away) throws InterruptedException {
        long deadline = System.nanoTime() + settings.flushTimeout().toNanos();
        awaited = sent;
        try {
            while (answered.get() < sent && failure == null) {
                long millis = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (millis <= 0) {
                    broken = true;
                    throw new BrokerException("broker " + settings.login() + " did not acknowledge "
                            + (sent - answered.get()) + " messages within " + settings.flushTimeout().toSeconds() + " s",
                            false);
                }
                if (away.getAsBoolean()) {
                    return false;
                }
                wait(Math.min(millis, SLICE_MILLIS));
            }
        } finally {
            awaited = Long.MAX_VALUE;
        }
        throwFailure();
        return true;
    }

    final Producers.Shared shared() {
        return shared;
    }

    /** Continues over another producer, without the messages of the former one. */
    final void replace(Producers.Shared next) {
        shared = next;
        sent = 0;
        answered.set(0);
        timing = false;
        countedTopic = null;
    }

    @Override
    public AckMetrics acks() {
        return shared.acks();
    }

    @Override
    public void close() {
        if (open) {
            open = false;
            release(broken);
        }
    }

    /** Releases the producer; {@code unusable} if it has failed. */
    void release(boolean unusable) {
        Producers.release(shared, unusable);
    }
}
