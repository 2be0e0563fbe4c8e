package io.speck.mqtt.reader;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The retained message that names the attempt allowed to read a session: {@code {"attempt": N}}.
 *
 * <p>A broker that was killed may restart without it, or with an older one; the reader then writes it again. Of two
 * attempts that do so at once the newer one prevails, since it checks again when the other takes the session.
 */
final class Fence {
    private static final Pattern ATTEMPT = Pattern.compile("\"attempt\"\\s*:\\s*(\\d{1,18})\\b");
    /** A broker may send retained messages after its answer to the ping that follows the subscription. */
    private static final long GRACE_MILLIS = 100;
    private static final int WRITE_ID = 2;

    private Fence() {}

    /**
     * Reads the fence over a connection of its own, and raises one that is missing or too low.
     *
     * @throws TakenOverException if it names a newer attempt
     * @throws BrokerException if it cannot be read
     */
    static void check(SourceSettings settings, Duration timeout) throws InterruptedException {
        if (settings.fenceTopic() == null) {
            return;
        }
        Reader reader = new Reader();
        String clientId = "fence-" + UUID.randomUUID().toString().replace("-", "");
        Connection connection = Connection.open(settings.login(), Session.temporary(clientId), reader, timeout);
        try {
            Long allowed = read(connection, reader, settings, timeout);
            if (allowed == null || allowed < settings.attempt()) {
                connection.retain(settings.fenceTopic(), "{\"attempt\": " + settings.attempt() + "}", 0, WRITE_ID);
                reader.awaitWritten(timeout);
            } else if (allowed > settings.attempt()) {
                throw new TakenOverException("the session of " + settings.session() + " was taken over by attempt "
                        + allowed + " (this is attempt " + settings.attempt() + ")");
            }
        } finally {
            connection.close(true);
        }
    }

    private static Long read(Connection connection, Reader reader, SourceSettings settings, Duration timeout)
            throws InterruptedException {
        connection.subscribe(List.of(settings.fenceTopic()), timeout);
        connection.ping();
        String text = reader.text(timeout);
        return text == null ? null : attempt(text, settings.fenceTopic());
    }

    static long attempt(String text, String topic) {
        Matcher matcher = ATTEMPT.matcher(text);
        if (!matcher.find()) {
            throw new BrokerException("the message at fence topic '" + topic + "' is '" + text
                    + "' (expected {\"attempt\": N})", true);
        }
        return Long.parseLong(matcher.group(1));
    }

    private static final class Reader implements ConnectionListener {
        private final CompletableFuture<String> text = new CompletableFuture<>();
        private final CompletableFuture<Void> answered = new CompletableFuture<>();
        private final CompletableFuture<Void> written = new CompletableFuture<>();

        @Override
        public void published(Connection connection, MqttPublishMessage message) {
            text.complete(message.payload().toString(StandardCharsets.UTF_8));
        }

        @Override
        public void answered(Connection connection) {
            answered.complete(null);
        }

        @Override
        public void lost(Connection connection, String reason) {
            BrokerException end = new BrokerException("broker " + connection.login() + ": " + reason, false);
            text.completeExceptionally(end);
            answered.completeExceptionally(end);
            written.completeExceptionally(end);
        }

        /** Completes on a refusal too: a reader that may not raise the fence reads without one. */
        @Override
        public void acknowledged(Connection connection, int packetId, int reason) {
            written.complete(null);
        }

        void awaitWritten(Duration timeout) throws InterruptedException {
            try {
                written.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            } catch (TimeoutException | ExecutionException e) {
                throw new BrokerException("the fence cannot be raised: " + e.getMessage(), e);
            }
        }

        String text(Duration timeout) throws InterruptedException {
            try {
                CompletableFuture.anyOf(text, answered).get(timeout.toMillis(), TimeUnit.MILLISECONDS);
                return text.get(GRACE_MILLIS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                if (answered.isDone()) {
                    return null;
                }
                throw new BrokerException("the broker did not send the fence in time", false);
            } catch (ExecutionException e) {
                throw new BrokerException("the fence cannot be read: " + e.getCause().getMessage(), e.getCause());
            }
        }
    }
}
