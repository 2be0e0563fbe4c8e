package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A retained message of one publisher with the number of the last message that its broker had acknowledged. A broker
 * that restarts with an older mark, or none, may have lost the messages with higher numbers.
 *
 * <p>The mark alone does not show that a broker lost a whole session: messages sent again reach no reader before the
 * session exists again. Its reader therefore sends a {@link ResendRequest}, to which the publisher subscribes too.
 */
final class DeliveryMark {
    /** A broker may send retained messages after its answer to the ping that follows the subscription. */
    private static final long GRACE_MILLIS = 100;

    private final String topic;
    private final int expirySeconds;
    private volatile CompletableFuture<Long> found = new CompletableFuture<>();

    /**
     * @param id of the publisher
     * @param expirySeconds until the broker drops the mark if nobody deletes it
     */
    DeliveryMark(String id, int expirySeconds) {
        this.topic = "speck/sink/" + id;
        this.expirySeconds = expirySeconds;
    }

    /** Prepares for a new connection; called before it is opened. */
    void reset() {
        found = new CompletableFuture<>();
    }

    String topic() {
        return topic;
    }

    /**
     * Waits until the broker has handled the subscriptions: all that is retained comes before its answer, or soon after it,
     * reports about the broker as well.
     *
     * @return false if it does not answer in time
     * @throws BrokerException if the connection ends before
     */
    static boolean awaitRetained(Connection opened, Duration timeout) throws InterruptedException {
        try {
            opened.ping().get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException e) {
            throw new BrokerException(e.getCause().getMessage(), false);
        }
    }

    /** The time until which a mark may come after {@link #awaitRetained}, in {@link System#nanoTime}. */
    static long deadline() {
        return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(GRACE_MILLIS);
    }

    /** Waits for the mark until a time; returns the number in it, 0 without a mark. */
    long number(long deadlineNanos) throws InterruptedException {
        try {
            return found.get(Math.max(0, deadlineNanos - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException | ExecutionException e) {
            return 0;
        }
    }

    /** Waits for the mark until a time; true if there is one. */
    boolean isFound(long deadlineNanos) throws InterruptedException {
        try {
            found.get(Math.max(0, deadlineNanos - System.nanoTime()), TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException | ExecutionException e) {
            return false;
        }
    }

    /** Reads the mark from a message; false if the message is not the mark. */
    boolean accept(MqttPublishMessage packet) {
        if (!packet.variableHeader().topicName().equals(topic)) {
            return false;
        }
        String text = packet.payload().toString(StandardCharsets.UTF_8);
        if (text.matches("\\d{1,18}")) {
            found.complete(Long.parseLong(text));
        }
        return true;
    }

    void write(Connection connection, long number) {
        connection.retain(topic, Long.toString(number), expirySeconds, 0);
    }

    void delete(Connection connection) {
        connection.retain(topic, "", 0, 0);
    }
}
