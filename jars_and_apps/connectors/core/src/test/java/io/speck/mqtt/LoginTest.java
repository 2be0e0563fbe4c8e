package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Reads addresses, logins and passwords. */
class LoginTest {
    @ParameterizedTest
    @CsvSource({"tcp://a:1883,tcp://a:1883", "mqtt://a,tcp://a:1883", "mqtts://a,mqtts://a:8883",
            "ssl://a:1,mqtts://a:1", "tcp://[::1]:5/,tcp://[::1]:5"})
    void addressIsRead(String text, String shown) {
        assertEquals(shown, BrokerAddress.parse(text).toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp:/x", "a:1883", "http://a", "tcp://a:99999", "tcp://a/b", ""})
    void badAddressIsRefused(String text) {
        assertThrows(InvalidSettingException.class, () -> BrokerAddress.parse(text));
    }

    @Test
    void noPasswordIsShown() {
        String fault = assertThrows(InvalidSettingException.class, () -> BrokerAddress.parse("tcp://u:secret@h:1"))
                .getMessage();
        assertFalse(fault.contains("secret"), fault);
        LoginFields fields = new LoginFields("tcp://h:1", "u", "secret", null, TlsFiles.NONE);
        Login login = fields.login(Assertions::fail);
        assertFalse((fields + " " + login + " " + Password.of("secret")).contains("secret"));
    }

    @Test
    void loginsThatDoNotFitAreRefused() {
        List<String> faults = new ArrayList<>();
        TlsFiles half = new TlsFiles(null, "/me.pem", null);
        assertNull(new LoginFields("tcp://h:1", null, "secret", "/secret", half).login(faults::add));
        assertEquals(List.of("a password without a username", "both a password and a password file",
                "a client certificate and its key belong together",
                "certificates for a broker that is not asked for TLS (expected mqtts://HOST:PORT"
                + " or kafkas://HOST:PORT)"), faults);
    }

    @Test
    void aPasswordInAFileIsReadWhenItIsNeeded(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("password");
        BrokerAddress broker = BrokerAddress.parse("tcp://h:1");
        String fault = assertThrows(BrokerException.class, () -> Password.in(file.toString()).reveal(broker))
                .getMessage();
        assertTrue(fault.contains("password' cannot be read"), fault);
        Files.writeString(file, "secret\n");
        assertEquals("secret", new String(Password.in(file.toString()).reveal(broker), StandardCharsets.UTF_8));
    }
}
