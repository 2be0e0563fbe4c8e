package io.speck.mqtt.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.Ports;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A try to connect that is given up while the event loops are busy, as by a disk that stalls; the broker is a socket. */
@Timeout(60)
class AbandonedConnectionTest {
    private final CountDownLatch free = new CountDownLatch(1);
    private final AtomicInteger opened = new AtomicInteger();

    private void stall() {
        try {
            free.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** It would take the session from the connection that was made instead, whose end nobody would notice. */
    @Test
    void itTakesNoSessionLater() throws Exception {
        try (ServerSocket listener = Ports.listen()) {
            Login login = Login.anonymous("tcp://127.0.0.1:" + listener.getLocalPort());
            ConnectionListener counting = new ConnectionListener() {
                @Override
                public void opened(Connection connection) {
                    opened.incrementAndGet();
                }
            };
            Runtime.LOOPS.forEach(each -> each.execute(this::stall));
            assertThrows(BrokerException.class, () -> Connection.open(
                    login, Session.persistent("reader", 10), counting, Duration.ofMillis(300)));
            free.countDown();
            listener.setSoTimeout(20_000);
            try (Socket broker = listener.accept()) {
                broker.setSoTimeout(20_000);
                assertEquals(-1, broker.getInputStream().read());
            }
            assertEquals(0, opened.get());
        } finally {
            free.countDown();
        }
    }
}
