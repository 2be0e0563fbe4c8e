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
    void theMechanismOfALoginIsChecked() {
        assertEquals("SCRAM-SHA-512", login("kafka://a", "user", "secret", null).mechanism());
        assertEquals("PLAIN", login("kafkas://a", "user", "secret", "plain").mechanism());
        assertEquals(List.of("SASL mechanism 'gssapi' (expected one of plain, scram-sha-256, scram-sha-512)"),
                faults("kafka://a", "user", "secret", "gssapi"));
        assertEquals(List.of("a SASL mechanism without a username"), faults("kafka://a", null, null, "plain"));
        assertEquals(List.of("a username without a password for a broker of Kafka"), faults("kafka://a", "user", null, null));
        assertEquals(List.of("a SASL mechanism for a broker with MQTT (expected none)"),
                faults("tcp://a", "user", "secret", "plain"));
    }

    private static Login login(String broker, String username, String password, String sasl) {
        return new LoginFields(broker, username, password, null, TlsFiles.NONE, sasl).login(each -> {
            throw new AssertionError(each);
        });
    }

    private static List<String> faults(String broker, String username, String password, String sasl) {
        List<String> faults = new ArrayList<>();
        new LoginFields(broker, username, password, null, TlsFiles.NONE, sasl).login(faults::add);
        return faults;
    }
}
