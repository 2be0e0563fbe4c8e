package io.speck.mqtt.failure;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.Topic;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Leaves messages out, at a real Mosquitto. */
class LeftOutTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    @Test
    void aParkedMessageHasItsContentAndTheError(@TempDir Path folder) throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder)) {
            Login login = Login.anonymous(broker.url());
            try (Parked parked = new Parked(broker.url(), "parked");
                    LeftOut leftOut = new LeftOut(OnError.of("park", "parked", "clean"), new SinkSettings(login, LIMIT))) {
                leftOut.add("in/1", "caf\u00e9".getBytes(StandardCharsets.UTF_8), "k", "IllegalStateException: no");
                leftOut.flush();
                Map<String, String> found = new TreeMap<>(parked.take(1).get(0));
                Instant.parse(found.remove(LeftOut.TIME));
                assertEquals(Map.of("payload", "caf\u00e9", "key", "k", LeftOut.ERROR, "IllegalStateException: no",
                        LeftOut.JOB, "clean", LeftOut.TOPIC, "in/1"), found);
                assertEquals(List.of(0L, 1L), List.of(leftOut.skipped(), leftOut.parked()));
            }
        }
    }

    @Test
    void anErrorThatQuotesWhatNoTextMayContainIsParkedToo(@TempDir Path folder) throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder)) {
            Login login = Login.anonymous(broker.url());
            try (Parked parked = new Parked(broker.url(), "parked");
                    LeftOut leftOut = new LeftOut(OnError.of("park", "parked", "clean"), new SinkSettings(login, LIMIT))) {
                leftOut.add("in", new byte[] {0, -1}, null, "no number: '1\u0000\uD800\u0007\uFFFF\u00e4'");
                leftOut.flush();
                assertEquals("no number: '1????\u00e4'", parked.take(1).get(0).get(LeftOut.ERROR));
            }
        }
    }

    @Test
    void contentsAreParkedByteByByteAndKeysThatNoBrokerAcceptsAreLeftOut(@TempDir Path folder) throws Exception {
        byte[] large = new byte[256 << 10];
        new Random(7).nextBytes(large);
        ByteArrayOutputStream compressed = new ByteArrayOutputStream();
        try (GZIPOutputStream out = new GZIPOutputStream(compressed)) {
            out.write(large, 0, 1000);
        }
        List<byte[]> contents = List.of(new byte[0], new byte[] {0}, new byte[] {(byte) 0xFF}, large,
                compressed.toByteArray());
        try (Mosquitto broker = Mosquitto.start(folder)) {
            Topic.session(broker.url(), "parked-reader", "parked");
            try (LeftOut leftOut = new LeftOut(OnError.of("park", "parked", "a"), new SinkSettings(Login.anonymous(broker.url()), LIMIT))) {
                for (byte[] each : contents) {
                    leftOut.add("in", each, "k".repeat(70_000), "why".repeat(1000));
                }
                leftOut.flush();
                assertEquals(contents.size(), leftOut.parked());
            }
            List<byte[]> found = Topic.drainBytes(broker.url(), "parked-reader", "parked");
            assertEquals(contents.size(), found.size());
            for (int i = 0; i < contents.size(); i++) {
                assertArrayEquals(contents.get(i), found.get(i));
            }
        }
    }

    @Test
    void skippedMessagesAreCountedAndSentNowhere() throws Exception {
        try (LeftOut leftOut = new LeftOut(OnError.of("skip", null, "a"), new SinkSettings(Login.anonymous("tcp://127.0.0.1:1"), LIMIT))) {
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
}
