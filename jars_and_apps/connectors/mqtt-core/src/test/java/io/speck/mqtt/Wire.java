package io.speck.mqtt;

import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttProperties.MqttProperty;
import io.netty.handler.codec.mqtt.MqttProperties.StringPair;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32C;

/** Everything that is published to a topic from now on, repetitions included. */
public final class Wire implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    /** A published message; the stamp is null if it has none. */
    public record Published(String text, Stamp stamp) {}

    private final List<Published> all = new CopyOnWriteArrayList<>();
    private final AtomicInteger marked = new AtomicInteger();
    private final AtomicInteger passed = new AtomicInteger();
    private final Connection connection;
    private final String marker;

    public Wire(String url, String topic) throws InterruptedException {
        marker = "wire/" + UUID.randomUUID();
        connection = Connection.open(Login.anonymous(url), Session.temporary("wire-" + topic), new ConnectionListener() {
            @Override
            public void published(Connection from, MqttPublishMessage message) {
                if (message.variableHeader().topicName().equals(marker)) {
                    passed.incrementAndGet();
                } else {
                    all.add(read(message));
                }
            }
        }, PATIENCE);
        connection.subscribe(List.of(topic, marker), PATIENCE);
    }

    private static Published read(MqttPublishMessage message) {
        Map<String, String> properties = new HashMap<>();
        for (MqttProperty<?> each : message.variableHeader().properties()
                .getProperties(MqttProperties.USER_PROPERTY)) {
            StringPair pair = (StringPair) each.value();
            properties.put(pair.key, pair.value);
        }
        return new Published(message.payload().toString(StandardCharsets.UTF_8),
                Stamp.parse(properties.get(Stamp.JOB), properties.get(Stamp.SEQUENCE)));
    }

    /** Returns the fingerprint in the stamps that are derived from a message without a stamp. */
    public static long fingerprint(String topic, String text) {
        CRC32C crc = new CRC32C();
        crc.update((topic + "\0" + text).getBytes(StandardCharsets.UTF_8));
        return crc.getValue();
    }

    /** Returns all that was published before this call; others may have read of it what has not come here yet. */
    public List<Published> seen() {
        int own = marked.incrementAndGet();
        connection.retain(marker, "", 0, own);
        Await.until("what was published before", () -> passed.get() >= own);
        return List.copyOf(all);
    }

    public List<Published> take(int count) {
        Await.until(count + " messages", () -> all.size() >= count);
        return all.subList(0, count);
    }

    /** Returns the stamps of the first messages by their texts, which must differ. */
    public Map<String, Stamp> stamps(int count) {
        Map<String, Stamp> stamps = new TreeMap<>();
        for (Published each : take(count)) {
            if (stamps.put(each.text(), each.stamp()) != null) {
                throw new AssertionError("'" + each.text() + "' was published twice");
            }
        }
        return stamps;
    }

    @Override
    public void close() {
        connection.closeAndEndSession();
    }
}
