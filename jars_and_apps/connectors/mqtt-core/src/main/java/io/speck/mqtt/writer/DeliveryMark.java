package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * How a publisher finds out what a broker remembers: a retained mark of its own there bears the number of the last
 * message that the broker had taken before. A broker that comes back with an older mark, or none, may have lost what
 * came after that.
 *
 * <p>A broker that lost a session altogether cannot be seen by that alone, since what is sent again reaches nobody
 * before the reader has made it anew. So the reader then asks for it, in a retained message below
 * {@link ResendRequest#TOPICS} that bears its topic filter.
 */
final class DeliveryMark {
    /** A broker may send retained messages after its answer to the ping that follows the subscription. */
    private static final long GRACE_MILLIS = 100;

    private final String topic = "speck/sink/" + UUID.randomUUID().toString().replace("-", "");
    private volatile CompletableFuture<Long> found = new CompletableFuture<>();
    private volatile CompletableFuture<Void> answered = new CompletableFuture<>();

    /** To be called before a connection is opened. */
    void begin() {
        found = new CompletableFuture<>();
        answered = new CompletableFuture<>();
    }

    /** Subscribes to the mark and to requests. */
    void listen(Connection opened, Duration timeout) throws InterruptedException {
        opened.subscribe(List.of(topic, ResendRequest.TOPICS + "+"), timeout);
    }

    /** Answers the number in the mark; 0 when there is none. */
    long recall(Connection opened, Duration timeout) throws InterruptedException {
        opened.ping();
        try {
            CompletableFuture.anyOf(found, answered).get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            return found.get(GRACE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            return 0;
        } catch (ExecutionException e) {
            throw new BrokerException("broker " + opened.login() + ": " + e.getCause().getMessage(), e.getCause());
        }
    }

    /** Takes a message that may be the mark; answers whether it was. */
    boolean takes(MqttPublishMessage packet) {
        if (!packet.variableHeader().topicName().equals(topic)) {
            return false;
        }
        String text = packet.payload().toString(StandardCharsets.UTF_8);
        if (text.matches("\\d{1,18}")) {
            found.complete(Long.parseLong(text));
        }
        return true;
    }

    void answered() {
        answered.complete(null);
    }

    void mark(Connection connection, long number) {
        connection.retain(topic, Long.toString(number), ResendRequest.EXPIRY_SECONDS, 0);
    }

    void forget(Connection connection) {
        connection.retain(topic, "", 0, 0);
    }
}
