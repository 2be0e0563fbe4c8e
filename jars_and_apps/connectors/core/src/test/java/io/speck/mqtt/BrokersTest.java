package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.speck.connector.Brokers;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Without a connector for a kind of broker on the class path, as here without any. */
class BrokersTest {
    @Test
    void aMissingConnectorIsNamed() {
        InvalidSettingException found =
                assertThrows(InvalidSettingException.class, () -> Brokers.of(Login.anonymous("kafka://a")));
        assertEquals("there is no connector for kafka://a:9092 (put speck-kafka.jar beside the connector of the engine)",
                found.getMessage());
        assertThrows(InvalidSettingException.class, () -> Brokers.of(Login.anonymous("tcp://a")));
    }

    @Test
    void aLoginAtKafkaIsRefused() {
        List<String> faults = new ArrayList<>();
        new LoginFields("kafka://a", "user", "secret", null, TlsFiles.NONE).login(faults::add);
        assertEquals(List.of("a login or certificates for a broker of Kafka (expected none)"), faults);
    }
}
