package io.speck.mqtt;

import io.netty.buffer.Unpooled;
import io.netty.handler.codec.mqtt.MqttMessageBuilders;
import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttQoS;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.stamp.CompactForm;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Parts of the tests of the binary form of stamps. */
final class CompactWire {
    /** The property of a writer's process that permits the binary form. */
    static final String PROPERTY = "speck.sink.stamps";
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private CompactWire() {}

    static MqttPublishMessage publish(String topic, String payload, MqttProperties properties) {
        return MqttMessageBuilders.publish().topicName(topic).messageId(1).qos(MqttQoS.AT_LEAST_ONCE)
                .payload(Unpooled.copiedBuffer(payload, StandardCharsets.UTF_8)).properties(properties).build();
    }

    /**
     * Watches topics until the returned handle is closed.
     *
     * @param forms gets, for each message, the length of its correlation data; 0 with texts
     */
    static AutoCloseable watch(String url, String filter, List<Integer> forms) throws Exception {
        Connection connection = Connection.open(Login.anonymous(url), Session.temporary("watch-" + System.nanoTime()),
                new ConnectionListener() {
                    @Override
                    public void published(Connection from, MqttPublishMessage message) {
                        var found = message.variableHeader().properties().getProperty(MqttProperties.CORRELATION_DATA);
                        forms.add(found == null ? 0 : ((byte[]) found.value()).length);
                    }
                }, PATIENCE);
        connection.subscribe(List.of(filter), PATIENCE);
        return () -> connection.closeAndEndSession();
    }

    /** Returns the retained message of a topic that has one. */
    static String retained(String url, String topic) throws Exception {
        CompletableFuture<String> found = new CompletableFuture<>();
        Connection connection = Connection.open(Login.anonymous(url), Session.temporary("look"), new ConnectionListener() {
            @Override
            public void published(Connection from, MqttPublishMessage message) {
                found.complete(message.payload().toString(StandardCharsets.UTF_8));
            }
        }, PATIENCE);
        connection.subscribe(List.of(topic), PATIENCE);
        try {
            return found.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } finally {
            connection.closeAndEndSession();
        }
    }

    /** Returns two names of jobs that one hash stands for. */
    static String[] sameHash() {
        Map<Integer, String> names = new HashMap<>();
        for (long i = 1; ; i++) {
            String name = Long.toUnsignedString(i * 0x9e3779b97f4a7c15L, Character.MAX_RADIX);
            String other = names.put(CompactForm.hash(name), name);
            if (other != null) {
                return new String[] {other, name};
            }
        }
    }
}
