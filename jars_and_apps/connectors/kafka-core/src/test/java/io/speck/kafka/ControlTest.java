package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The records of one session, in the order of their log. */
class ControlTest {
    private final Control control = new Control(new SourceSettings(Login.anonymous("kafka://broker"), "s", "in", 100,
            1 << 20, "speck/fence/s", 5, false, Duration.ofSeconds(1)));

    private void take(String key, String value) {
        control.take(new ConsumerRecord<>(Topics.CONTROL, 0, 0, bytes(key), bytes(value)));
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private void claim() {
        take("claim/s", new String(control.claim(), StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"attempt\": 6}", "{\"attempt\": 5, \"deleted\": true}", "{\"attempt\": 9, \"deleted\": true}"})
    void aNewerFenceEndsTheReader(String fence) {
        claim();
        assertThrows(TakenOverException.class, () -> take("fence/s", fence));
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"attempt\": 5}", "{\"attempt\": 4, \"deleted\": true}", "nothing", "", "{\"attempt\": 99999999999}"})
    void otherFencesDoNot(String fence) {
        claim();
        take("fence/s", fence);
        take("fence/s", null);
        take("fence/another", "{\"attempt\": 6}");
    }

    @Test
    void theLastClaimInTheLogReads() {
        take("claim/s", "{\"attempt\": 5, \"nonce\": \"0a\"}"); // of a reader that began before
        claim();
        assertTrue(control.claimed());
        take("claim/s", "{\"attempt\": 4, \"nonce\": \"0b\"}");
        take("claim/s", "no claim");
        take("claim/s", null);
        assertThrows(TakenOverException.class, () -> take("claim/s", "{\"attempt\": 5, \"nonce\": \"0c\"}"));
    }

    @Test
    void theLastListOfWritersIsTakenOnce() {
        assertNull(control.takeWriters());
        take("writers/s", "{\"writers\": [\"a\"]}");
        take("writers/s", "{\"writers\": [\"b\"]}");
        assertArrayEquals(bytes("{\"writers\": [\"b\"]}"), control.takeWriters());
        assertNull(control.takeWriters());
        take("writers/s", null);
        assertEquals(0, control.takeWriters().length);
    }

    @Test
    void anOrderToDrainHasTheEndsOfThePartitions() {
        assertEquals(Map.of(), control.drain());
        take("drain/s", "{\"marker\": \"m\", \"ends\": {\"0\": 12, \"3\": 4}}");
        assertEquals(Map.of(0, 12L, 3, 4L), control.drain());
        control.drained();
        assertEquals(Map.of(), control.drain());
    }
}
