package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Login;
import io.speck.mqtt.Ports;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TakenOverException;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A broker that answers a ping before it sends the retained messages of the subscription before that, as HiveMQ may; it is
 * a socket, since Mosquitto keeps their order.
 */
@Timeout(60)
class LateFenceTest {
    private static final String FENCE = "speck/fence/reader";
    private static final long LATE_MILLIS = 500;
    private static final int CONNECT = 1;
    private static final int PUBLISH = 3;
    private static final int SUBSCRIBE = 8;
    private static final int PINGREQ = 12;
    private static final byte[] CONNACK = {0x20, 3, 0, 0, 0};
    private static final byte[] PINGRESP = {(byte) 0xD0, 0};

    /** The messages that clients have published. */
    private final List<String> published = new CopyOnWriteArrayList<>();

    private void serve(ServerSocket listener) {
        while (!listener.isClosed()) {
            try (Socket client = listener.accept()) {
                answer(client);
            } catch (IOException e) {
                continue; // the client has ended, or the test
            }
        }
    }

    private void answer(Socket client) throws IOException {
        DataInputStream in = new DataInputStream(client.getInputStream());
        while (true) {
            int type = in.readUnsignedByte() >> 4;
            int length = in.readUnsignedByte();
            ByteBuffer body = ByteBuffer.wrap(in.readNBytes(length < 0x80 ? length : length - 0x80 + 0x80 * in.readByte()));
            switch (type) {
                case CONNECT -> client.getOutputStream().write(CONNACK);
                case SUBSCRIBE -> client.getOutputStream().write(suback(body));
                case PINGREQ -> {
                    client.getOutputStream().write(PINGRESP);
                    CompletableFuture.runAsync(() -> sendFence(client),
                            CompletableFuture.delayedExecutor(LATE_MILLIS, TimeUnit.MILLISECONDS));
                }
                case PUBLISH -> {
                    published.add(StandardCharsets.UTF_8.decode(body).toString());
                    client.getOutputStream().write(new byte[] {0x40, 2, 0, 2});
                }
                default -> {
                    return;
                }
            }
        }
    }

    private static byte[] suback(ByteBuffer body) {
        short id = body.getShort();
        body.get(); // no properties
        int filters = 0;
        for (; body.hasRemaining(); filters++) {
            body.position(body.position() + Short.BYTES + body.getShort(body.position()) + 1);
        }
        return ByteBuffer.allocate(5 + filters).put((byte) 0x90).put((byte) (3 + filters)).putShort(id).array();
    }

    private static byte[] fence() {
        byte[] topic = FENCE.getBytes(StandardCharsets.UTF_8);
        byte[] text = "{\"attempt\": 5}".getBytes(StandardCharsets.UTF_8);
        int length = 2 + topic.length + 1 + text.length;
        return ByteBuffer.allocate(2 + length).put((byte) 0x31).put((byte) length).putShort((short) topic.length).put(topic)
                .put((byte) 0).put(text).array();
    }

    private static void sendFence(Socket client) {
        try {
            client.getOutputStream().write(fence());
        } catch (IOException e) {
            return; // the client did not wait for it
        }
    }

    @Test
    void aNewerFenceThatComesLateIsNotTakenForNone() throws Exception {
        try (ServerSocket listener = Ports.listen()) {
            CompletableFuture.runAsync(() -> serve(listener));
            SourceSettings settings = new SourceSettings(
                    Login.anonymous("tcp://127.0.0.1:" + listener.getLocalPort()), "reader", "in/#", 65535, 1 << 20, FENCE,
                    4, false, Duration.ofSeconds(20));
            TakenOverException end = assertThrows(TakenOverException.class,
                    () -> new Fence(settings, () -> 1L).check(Duration.ofSeconds(20)));
            assertTrue(end.getMessage().contains("attempt 5"), end::getMessage);
            assertEquals(List.of(), published);
        }
    }
}
