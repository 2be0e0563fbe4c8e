package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertFalse;

import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import java.time.Duration;
import java.util.Collections;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A reader whose engine is slower than its input, of which the rest waits at a real Mosquitto. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FullBufferTest extends ReaderCase {
    private static final int MESSAGES = 200;

    private long committed;

    /** The broker cannot be asked how many messages wait there. */
    @ParameterizedTest
    @CsvSource({"65535, 100000", "50, 100000000"})
    void aReaderThatTakesNoMoreReportsIt(int window, long bufferBytes) throws Exception {
        SourceSettings settings = new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", window, bufferBytes,
                null, -1, true, Duration.ofSeconds(20));
        try (MqttSource source = new MqttSource(settings, journal)) {
            source.open(0, 0);
            assertFalse(source.metrics().bufferFull());
            Topic.publish(broker.url(), "in/a", Collections.nCopies(MESSAGES, "x".repeat(1000)));
            Await.until("a full buffer", () -> source.metrics().bufferFull());
            Await.until("room", () -> {
                long received = source.metrics().received();
                if (received > committed) {
                    source.close(committed, received, 1);
                    source.commit(received);
                    committed = received;
                }
                return received == MESSAGES && !source.metrics().bufferFull();
            });
        }
    }
}
