package io.speck.kafka;

import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SinkSettings;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A writer that waits for no broker which is away: it returns the messages that this has not acknowledged.
 *
 * <p>A producer gives back no message, except by its end. So this writer has one of its own.
 */
final class OfferingSink extends KafkaSink {
    private static final Logger LOG = LoggerFactory.getLogger(OfferingSink.class);
    /** A broker that has not acknowledged anything for this time is away, whatever connections there are. */
    private static final long SILENT_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final Supplier<Producers.Shared> producers;
    /** By their numbers, in the order of the calls. */
    private final Map<Long, UnsentMessage> unanswered = new ConcurrentHashMap<>();
    private long next;
    /** The writer's thread while it hands over a message, in which the producer reports that it does not take it. */
    private volatile Thread caller;
    private boolean taken;
    private volatile boolean withdrawing;

    OfferingSink(SinkSettings settings, boolean lenient) throws InterruptedException {
        this(settings, lenient, () -> Producers.acquireOwn(settings));
    }

    /** @param producers makes producers of this writer alone */
    OfferingSink(SinkSettings settings, boolean lenient, Supplier<Producers.Shared> producers) throws InterruptedException {
        super(settings, lenient, acquired(settings, producers));
        this.producers = producers;
    }

    private static Producers.Shared acquired(SinkSettings settings, Supplier<Producers.Shared> producers)
            throws InterruptedException {
        try {
            return producers.get();
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "a writer cannot begin", e);
        }
    }

    @Override
    public int send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        long deadline = System.nanoTime() + settings.flushTimeout().toNanos();
        int bytes = offer(topic, payload, key, job, sequence);
        while (bytes < 0) {
            if (System.nanoTime() - deadline > 0) {
                throw new BrokerException("broker " + settings.login() + " did not take a message to topic '" + topic
                        + "' within " + settings.flushTimeout().toSeconds() + " s", false);
            }
            bytes = offer(topic, payload, key, job, sequence);
        }
        return bytes;
    }

    @Override
    public int offer(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        ProducerRecord<byte[], byte[]> record;
        try {
            record = stamped(topic, payload, key, job, sequence);
        } catch (BrokerException e) {
            if (e.getCause() instanceof TimeoutException) {
                return -1;
            }
            throw e;
        }
        UnsentMessage message = new UnsentMessage(topic, payload, key, job == null ? null : sequence);
        return isTaken(record, message) ? topicBytes() + payload.length : -1;
    }

    private boolean isTaken(ProducerRecord<byte[], byte[]> record, UnsentMessage message) throws InterruptedException {
        long number = next++;
        long sentNanos = beginTiming();
        unanswered.put(number, message);
        taken = true;
        caller = Thread.currentThread();
        try {
            hand(record, (metadata, error) -> answered(record, number, sentNanos, error));
        } finally {
            caller = null;
        }
        if (taken) {
            countSent();
        }
        return taken;
    }

    private void answered(ProducerRecord<byte[], byte[]> record, long number, long sentNanos, Exception error) {
        if (error instanceof TimeoutException && Thread.currentThread() == caller) {
            taken = false;
            unanswered.remove(number);
            endTiming(sentNanos);
        } else if (error == null || !withdrawing) {
            unanswered.remove(number);
            completed(record, Map.of(), sentNanos, error);
        }
    }

    @Override
    public List<UnsentMessage> flushUnlessAway() throws InterruptedException {
        return awaitAnswers(new Absence()) ? List.of() : withdraw();
    }

    /** Returns the messages that are not acknowledged; the broker may have stored some of them, and gets these twice. */
    private List<UnsentMessage> withdraw() throws InterruptedException {
        withdrawing = true;
        try {
            Producers.discardOwn(shared());
            replace(producers.get());
        } catch (KafkaException e) {
            throw Clients.translated(settings.login(), "a writer cannot continue", e);
        } finally {
            withdrawing = false;
        }
        List<UnsentMessage> left = unanswered.entrySet().stream().sorted(Map.Entry.comparingByKey())
                .map(Map.Entry::getValue).toList();
        unanswered.clear();
        return left;
    }

    @Override
    void release(boolean unusable) {
        if (!unusable && unanswered.isEmpty()) {
            Producers.releaseOwn(shared());
            return;
        }
        withdrawing = true; // drops them
        try {
            Producers.discardOwn(shared());
        } catch (KafkaException e) { // the producer is closed even so, and the thread's interruption is set again
            LOG.debug("{}: {}", settings.login(), e.getMessage());
        }
    }

    /** Tells during a wait for answers if the broker is away. */
    private final class Absence implements BooleanSupplier {
        private long connectedNanos = System.nanoTime();
        private long answeredNanos = connectedNanos;
        private int left = unanswered.size();

        @Override
        public boolean getAsBoolean() {
            long now = System.nanoTime();
            if (shared().connected()) {
                connectedNanos = now;
            }
            if (unanswered.size() != left) {
                left = unanswered.size();
                answeredNanos = now;
            }
            return now - connectedNanos > Producers.AWAY.toNanos() || now - answeredNanos > SILENT_NANOS;
        }
    }
}
