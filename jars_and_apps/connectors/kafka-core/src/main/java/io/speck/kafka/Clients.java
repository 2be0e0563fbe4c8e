package io.speck.kafka;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ExistingTopics;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Makes the clients of a broker, and translates their errors. */
final class Clients {
    /** Many jobs may share one server: a fetch takes less memory than by default (50 MB). */
    private static final int MOST_FETCHED = 8 << 20;
    private static final int LONGEST_POLL_MILLIS = 100;
    private static final int LARGEST_MESSAGE = 8 << 20;
    private static final long QUEUE_BYTES = 8 << 20;
    private static final int LONGEST_REQUEST_MILLIS = 30_000;
    /**
     * Messages wait a millisecond at most while the broker is not busy; behind two requests under way they collect, so
     * that a flood travels in few requests. By default, five requests of 16 KB at most.
     */
    private static final int LINGER_MILLIS = 1;
    private static final int REQUESTS_UNDER_WAY = 2;
    private static final int BATCH_BYTES = 128 << 10;

    private Clients() {}

    static KafkaConsumer<byte[], byte[]> consumer(SourceSettings settings) {
        Map<String, Object> options = new HashMap<>();
        options.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, settings.login().address().servers());
        Security.addTo(options, settings.login());
        options.put(ConsumerConfig.CLIENT_ID_CONFIG, settings.clientId());
        options.put(ConsumerConfig.GROUP_ID_CONFIG, settings.clientId());
        options.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        options.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        // Else a topic that was deleted is made again at once, with the settings of the broker.
        options.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        options.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        options.put(ConsumerConfig.FETCH_MAX_BYTES_CONFIG, (int) Math.min(MOST_FETCHED, settings.bufferBytes()));
        options.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, LONGEST_POLL_MILLIS);
        options.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 2000);
        options.put(ConsumerConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) settings.connectTimeout().toMillis());
        options.put(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, request(settings.connectTimeout()));
        return new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Creates a producer that waits for its broker until the flush time-out. */
    static KafkaProducer<byte[], byte[]> producer(SinkSettings settings) {
        return producer(settings, settings.flushTimeout());
    }

    /**
     * Creates a producer.
     *
     * @param longestWait the time for which a message may wait for a broker, or for room, before the producer takes it
     */
    static KafkaProducer<byte[], byte[]> producer(SinkSettings settings, Duration longestWait) {
        long flush = settings.flushTimeout().toMillis();
        Map<String, Object> options = new HashMap<>();
        options.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, settings.login().address().servers());
        Security.addTo(options, settings.login());
        options.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        options.put(ProducerConfig.ACKS_CONFIG, "all");
        options.put(ProducerConfig.LINGER_MS_CONFIG, LINGER_MILLIS);
        options.put(ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, REQUESTS_UNDER_WAY);
        options.put(ProducerConfig.BATCH_SIZE_CONFIG, BATCH_BYTES);
        options.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, request(settings.flushTimeout()));
        options.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, (int) Math.min(Integer.MAX_VALUE, flush + 1));
        options.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, Math.min(flush, longestWait.toMillis()));
        options.put(ProducerConfig.BUFFER_MEMORY_CONFIG, QUEUE_BYTES);
        options.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, LARGEST_MESSAGE);
        return ExistingTopics.producer(options);
    }

    static Admin admin(SourceSettings settings) {
        Map<String, Object> options = new HashMap<>();
        options.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, settings.login().address().servers());
        Security.addTo(options, settings.login());
        options.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) settings.connectTimeout().toMillis());
        options.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, request(settings.connectTimeout()));
        return Admin.create(options);
    }

    private static int request(Duration limit) {
        return (int) Math.max(1, Math.min(LONGEST_REQUEST_MILLIS, limit.toMillis()));
    }

    /** Translates an error of a client; an interruption is thrown as one. */
    static BrokerException translated(Login login, String doing, KafkaException error) throws InterruptedException {
        if (error instanceof InterruptException) {
            Thread.interrupted(); // the client has set it again
            InterruptedException stopped = new InterruptedException("interrupted at broker " + login);
            stopped.initCause(error);
            throw stopped;
        }
        boolean refused = error instanceof AuthorizationException || error instanceof AuthenticationException;
        String text = "broker " + login + ": " + doing + ": " + error.getMessage();
        return refused ? new BrokerException(text, true) : new BrokerException(text, error);
    }
}
