package io.speck.mqtt.reader;

import io.netty.buffer.ByteBufUtil;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Reads the retained message of a topic over a connection of its own. */
final class RetainedMessage implements ConnectionListener {
    /** A broker may send retained messages after its answer to the ping that follows the subscription. */
    private static final long GRACE_MILLIS = 100;

    private final CompletableFuture<byte[]> content = new CompletableFuture<>();
    private final CompletableFuture<Void> answered = new CompletableFuture<>();

    private RetainedMessage() {}

    /**
     * Returns the content; null if there is no such message.
     *
     * @throws BrokerException if the broker cannot be reached in time, or refuses
     */
    static byte[] read(Login login, String topic, Duration timeout) throws InterruptedException {
        RetainedMessage reader = new RetainedMessage();
        String clientId = "look-" + UUID.randomUUID().toString().replace("-", "");
        Connection connection = Connection.open(login, Session.temporary(clientId), reader, timeout);
        try {
            connection.subscribe(List.of(topic), timeout);
            connection.ping();
            return reader.content(topic, timeout);
        } finally {
            connection.close(true);
        }
    }

    private byte[] content(String topic, Duration timeout) throws InterruptedException {
        try {
            CompletableFuture.anyOf(content, answered).get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            return content.get(GRACE_MILLIS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            if (answered.isDone()) {
                return null;
            }
            throw new BrokerException("the broker did not send the message at '" + topic + "' in time", false);
        } catch (ExecutionException e) {
            throw new BrokerException("the message at '" + topic + "' cannot be read: " + e.getCause().getMessage(),
                    e.getCause());
        }
    }

    @Override
    public void published(Connection connection, MqttPublishMessage message) {
        content.complete(ByteBufUtil.getBytes(message.payload()));
    }

    @Override
    public void answered(Connection connection) {
        answered.complete(null);
    }

    @Override
    public void lost(Connection connection, String reason) {
        BrokerException end = new BrokerException("broker " + connection.login() + ": " + reason, false);
        content.completeExceptionally(end);
        answered.completeExceptionally(end);
    }
}
