package io.speck.mqtt.failure;

import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;

/** The messages of a topic from now on: content under {@code payload}, and user properties by name. */
final class Parked implements ConnectionListener, AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final List<Map<String, String>> all = new CopyOnWriteArrayList<>();
    private final Connection connection;

    Parked(String url, String topic) throws InterruptedException {
        connection = Connection.open(Login.anonymous(url), Session.temporary("reader-" + topic), this, PATIENCE);
        connection.subscribe(List.of(topic), PATIENCE);
    }

    @Override
    public void published(Connection from, MqttPublishMessage packet) {
        Map<String, String> found = new TreeMap<>();
        found.put("payload", packet.payload().toString(StandardCharsets.UTF_8));
        for (MqttProperties.MqttProperty<?> each : packet.variableHeader().properties()
                .getProperties(MqttProperties.USER_PROPERTY)) {
            MqttProperties.StringPair pair = ((MqttProperties.UserProperty) each).value();
            found.put(pair.key, pair.value);
        }
        all.add(found);
    }

    List<Map<String, String>> take(int count) {
        Await.until(count + " messages", () -> all.size() >= count);
        return List.copyOf(all);
    }

    List<Map<String, String>> seen() {
        return List.copyOf(all);
    }

    @Override
    public void close() {
        connection.closeAndEndSession();
    }
}
