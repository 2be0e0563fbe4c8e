package io.speck.connector.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Reports lost messages as an error or counts them. */
class LossesTest {
    @Test
    void anErrorNamesTheSettingThatLetsTheReaderContinue() {
        Losses losses = losses(true);
        Exception error = assertThrows(DataLossException.class, () -> losses.report(Losses.RETENTION, 3, "3 are gone"));
        assertEquals("client 'c' at broker tcp://h:1883: 3 are gone; messages are lost"
                + " (set failOnDataLoss to false to continue without them)", error.getMessage());
        assertEquals(Map.of(), losses.counts());
    }

    @Test
    void lossesAreCountedByReason() {
        Losses losses = losses(false);
        losses.report(Losses.RETENTION, 3, "3 are gone");
        losses.report(Losses.RETENTION, 4, "4 are gone");
        losses.report(Losses.SESSION, 0, "the session is gone");
        assertEquals(Map.of(Losses.RETENTION, 7L, Losses.SESSION, 0L), losses.counts());
    }

    private static Losses losses(boolean fail) {
        return new Losses(new SourceSettings(Login.anonymous("tcp://h"), "c", "t", 1, 1, null, -1, fail,
                Duration.ofSeconds(1)));
    }
}
