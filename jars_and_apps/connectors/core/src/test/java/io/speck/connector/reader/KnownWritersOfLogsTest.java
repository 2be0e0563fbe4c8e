package io.speck.connector.reader;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Lists of writers that have no place among the messages. */
class KnownWritersOfLogsTest {
    private final Repetitions repetitions = new Repetitions(new SourceSettings(Login.anonymous("tcp://broker"), "s", "in",
            100, 1 << 20, "fence", 5, false, Duration.ofSeconds(1)));

    private void list(String text) {
        repetitions.extend(text.getBytes(StandardCharsets.UTF_8));
    }

    private boolean believes(String job) {
        return repetitions.writers().believes(Stamp.parse(job, "r/0/0/1"));
    }

    @Test
    void aWriterThatIsNamedNoMoreIsBelieved() {
        list("{\"writers\": [\"a\"]}");
        list("{\"writers\": [\"b\"]}");
        assertTrue(believes("a"));
        assertTrue(believes("b"));
        assertFalse(believes("c"));
    }

    @Test
    void theFirstListIsOneAndNoListBelievesAll() {
        assertTrue(believes("a"));
        list("{\"writers\": []}");
        assertFalse(believes("a"));
        list("");
        assertTrue(believes("a"));
    }
}
