package io.speck.mqtt.failure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttProperties;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Leaves messages out, at a real Mosquitto, and tells whose fault an error is. */
class LeftOutTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    /** The first message on a connection: its content, and its user properties by name. */
    private static final class First implements ConnectionListener {
        private final CompletableFuture<Map<String, String>> properties = new CompletableFuture<>();

        @Override
        public void published(Connection from, MqttPublishMessage packet) {
            Map<String, String> found = new TreeMap<>();
            found.put("payload", packet.payload().toString(StandardCharsets.UTF_8));
            for (MqttProperties.MqttProperty<?> each : packet.variableHeader().properties()
                    .getProperties(MqttProperties.USER_PROPERTY)) {
                MqttProperties.StringPair pair = ((MqttProperties.UserProperty) each).value();
                found.put(pair.key, pair.value);
            }
            properties.complete(found);
        }
    }

    /** Parks a message; returns its content and its properties by name. */
    private static Map<String, String> parked(Path folder, String topic, byte[] payload, String key, String reason)
            throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder)) {
            Login login = Login.anonymous(broker.url());
            First first = new First();
            Connection reader = Connection.open(login, Session.temporary("parked-reader"), first, LIMIT);
            reader.subscribe(List.of("parked"), LIMIT);
            try (LeftOut leftOut = new LeftOut(OnError.of("park", "parked", "clean"), login, LIMIT)) {
                leftOut.add(topic, payload, key, reason);
                leftOut.flush();
                assertEquals(List.of(0L, 1L), List.of(leftOut.skipped(), leftOut.parked()));
                return first.properties.get(20, TimeUnit.SECONDS);
            } finally {
                reader.close(false);
            }
        }
    }

    @Test
    void aParkedMessageHasItsContentAndTheError(@TempDir Path folder) throws Exception {
        Map<String, String> found = parked(folder, "in/1", "caf\u00e9".getBytes(StandardCharsets.UTF_8), "k",
                "IllegalStateException: no");
        Instant.parse(found.remove(LeftOut.TIME));
        assertEquals(Map.of("payload", "caf\u00e9", "key", "k", LeftOut.ERROR, "IllegalStateException: no", LeftOut.JOB,
                "clean", LeftOut.TOPIC, "in/1"), found);
    }

    @Test
    void anErrorThatQuotesWhatNoTextMayContainIsParkedToo(@TempDir Path folder) throws Exception {
        String error = "no number: '1\u0000\uD800\u0007\uFFFF\u00e4'";
        assertEquals("no number: '1????\u00e4'", parked(folder, "in", new byte[] {0, -1}, null, error).get(LeftOut.ERROR));
    }

    @Test
    void skippedMessagesAreCountedAndSentNowhere() throws Exception {
        try (LeftOut leftOut = new LeftOut(OnError.of("skip", null, "a"), Login.anonymous("tcp://127.0.0.1:1"), LIMIT)) {
            leftOut.add("in", new byte[0], null, "why");
            leftOut.flush();
            assertEquals(List.of(1L, 0L), List.of(leftOut.skipped(), leftOut.parked()));
        }
    }

    @Test
    void settingsThatDoNotFitAreRefused() {
        assertTrue(OnError.of(null, null, "a").fails());
        assertNull(OnError.of("skip", null, "a").parkTopic());
        for (String[] wrong : new String[][] {{"skp", null}, {"park", null}, {"skip", "t"}, {null, "t"}}) {
            assertThrows(InvalidSettingException.class, () -> OnError.of(wrong[0], wrong[1], "a"));
        }
    }

    @Test
    void errorsOfBrokersAndEnginesAreNoMessages() {
        assertTrue(Blame.message(new RuntimeException(new IllegalStateException("no such street"))));
        assertTrue(Blame.message(new RuntimeException(new IOException("not a number"))));
        assertFalse(Blame.message(new RuntimeException(new BrokerException("gone", false))));
        assertFalse(Blame.message(new RuntimeException(new InterruptedException())));
        assertFalse(Blame.message(new OutOfMemoryError()));
        IOException network = new IOException("connection reset");
        network.setStackTrace(new StackTraceElement[] {
            new StackTraceElement("org.apache.flink.runtime.io.network.api.writer.RecordWriter", "emit", "R.java", 1)});
        assertFalse(Blame.message(new RuntimeException(network)));
        assertEquals("IllegalStateException: no such street",
                Blame.reason(new RuntimeException(new IllegalStateException("no such\n street"))));
    }
}
