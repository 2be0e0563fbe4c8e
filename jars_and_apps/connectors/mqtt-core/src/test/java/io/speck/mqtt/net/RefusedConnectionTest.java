package io.speck.mqtt.net;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import java.net.ServerSocket;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Netty may end the channel before or after it says why the attempt failed. */
@Timeout(60)
class RefusedConnectionTest {
    private static final int ATTEMPTS = 500;

    @Test
    void theReasonIsThatOfTheAttempt() throws Exception {
        int port;
        try (ServerSocket closed = new ServerSocket(0)) {
            port = closed.getLocalPort();
        }
        Login login = Login.anonymous("tcp://127.0.0.1:" + port);
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            BrokerException error = assertThrows(BrokerException.class, () -> Connection.open(login,
                    Session.temporary("client"), new ConnectionListener() {}, Duration.ofSeconds(20)));
            assertTrue(error.getMessage().startsWith("cannot reach broker tcp://127.0.0.1:" + port), error::getMessage);
        }
    }
}
