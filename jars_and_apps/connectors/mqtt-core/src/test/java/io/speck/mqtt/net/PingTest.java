package io.speck.mqtt.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.Ports;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Pings of which several are unanswered; the broker is a socket, since Mosquitto answers at once. */
@Timeout(60)
class PingTest {
    private static final int CONNECT = 0x10;
    private static final int PINGREQ = 0xC0;
    private static final byte[] CONNACK = {0x20, 3, 0, 0, 0};
    private static final byte[] PINGRESP = {(byte) 0xD0, 0};

    private static Socket accepted(ServerSocket listener) {
        try {
            Socket broker = listener.accept();
            assertEquals(CONNECT, packet(broker));
            broker.getOutputStream().write(CONNACK);
            return broker;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Reads a packet of fewer than 128 bytes behind its length, and returns its first byte. */
    private static int packet(Socket broker) throws IOException {
        int type = broker.getInputStream().read();
        int length = broker.getInputStream().read();
        assertEquals(length, broker.getInputStream().readNBytes(length).length);
        return type;
    }

    @Test
    void anAnswerIsThatToTheOldestPing() throws Exception {
        try (ServerSocket listener = Ports.listen()) {
            CompletableFuture<Socket> accepted = CompletableFuture.supplyAsync(() -> accepted(listener));
            Connection connection = Connection.open(Login.anonymous("tcp://127.0.0.1:" + listener.getLocalPort()),
                    Session.temporary("client"), new ConnectionListener() {}, Duration.ofSeconds(20));
            try (Socket broker = accepted.get()) {
                CompletableFuture<Void> first = connection.ping();
                CompletableFuture<Void> second = connection.ping();
                assertEquals(List.of(PINGREQ, PINGREQ), List.of(packet(broker), packet(broker)));
                broker.getOutputStream().write(PINGRESP);
                Await.until("the first answer", first::isDone);
                assertFalse(second.isDone());
                broker.getOutputStream().write(PINGRESP);
                Await.until("the second answer", second::isDone);
            } finally {
                connection.abandon();
            }
        }
    }

    /** A writer, which pings before it uses a connection, would wait for the whole time-out otherwise. */
    @Test
    void aPingFailsWithItsConnection() throws Exception {
        try (ServerSocket listener = Ports.listen()) {
            CompletableFuture<Socket> accepted = CompletableFuture.supplyAsync(() -> accepted(listener));
            Connection connection = Connection.open(Login.anonymous("tcp://127.0.0.1:" + listener.getLocalPort()),
                    Session.temporary("client"), new ConnectionListener() {}, Duration.ofSeconds(20));
            CompletableFuture<Void> ping = connection.ping();
            try (Socket broker = accepted.get()) {
                assertEquals(PINGREQ, packet(broker));
            }
            Await.until("its failure", ping::isCompletedExceptionally);
            Await.until("the failure of a later one", connection.ping()::isCompletedExceptionally);
        }
    }
}
