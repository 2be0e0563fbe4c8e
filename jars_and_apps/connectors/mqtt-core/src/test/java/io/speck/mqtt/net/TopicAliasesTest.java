package io.speck.mqtt.net;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.Ports;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A reader of a broker that sends numbers for topics; the broker is a socket, since Mosquitto 2.0 sends none. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TopicAliasesTest {
    private static final Duration PATIENCE = Duration.ofSeconds(40);
    private static final byte[] CONNACK = {0x20, 3, 0, 0, 0};
    /** The property Topic Alias Maximum of 100 (MQTT 5, 3.1.2.11.5). */
    private static final String PERMITS = "220064";

    private final List<String> read = new CopyOnWriteArrayList<>();
    private final List<String> ends = new CopyOnWriteArrayList<>();
    private ServerSocket listener;
    private Socket accepted;
    private Connection connection;

    @BeforeEach
    void listen() throws IOException {
        listener = Ports.listen();
    }

    @AfterEach
    void close() throws IOException {
        connection.abandon();
        accepted.close();
        listener.close();
    }

    /** Connects; returns the CONNECT packet without its first two bytes, as hexadecimal digits. */
    private String connect(Session session) throws Exception {
        StringBuilder packet = new StringBuilder();
        Thread broker = new Thread(() -> {
            try {
                accepted = listener.accept();
                DataInputStream in = new DataInputStream(accepted.getInputStream());
                in.readByte();
                packet.append(HexFormat.of().formatHex(in.readNBytes(in.readUnsignedByte())));
                accepted.getOutputStream().write(CONNACK);
            } catch (IOException e) {
                ends.add(e.toString());
            }
        });
        broker.start();
        connection = Connection.open(Login.anonymous("tcp://127.0.0.1:" + listener.getLocalPort()), session,
                new ConnectionListener() {
                    @Override
                    public void published(Connection from, MqttPublishMessage message) {
                        read.add(message.variableHeader().topicName() + " "
                                + message.payload().toString(StandardCharsets.UTF_8));
                    }

                    @Override
                    public void lost(Connection from, String reason) {
                        ends.add(reason);
                    }
                }, PATIENCE);
        broker.join();
        return packet.toString();
    }

    private void publish(String topic, int alias, String payload) throws IOException {
        byte[] name = topic.getBytes(StandardCharsets.UTF_8);
        DataOutputStream out = new DataOutputStream(accepted.getOutputStream());
        out.writeByte(0x30);
        out.writeByte(2 + name.length + 4 + payload.length());
        out.writeUTF(topic);
        out.writeByte(3);
        out.writeByte(0x23);
        out.writeShort(alias);
        out.writeBytes(payload);
        out.flush();
    }

    private static Session permitting(int aliases) {
        return new Session("reader", false, 0, 10, aliases);
    }

    @Test
    void aNumberStandsForTheTopicItCameWithLast() throws Exception {
        connect(permitting(2));
        publish("a", 1, "first");
        publish("b/c", 2, "second");
        publish("", 1, "third");
        publish("", 2, "fourth");
        publish("d", 1, "fifth");
        publish("", 1, "sixth");
        List<String> expected = List.of("a first", "b/c second", "a third", "b/c fourth", "d fifth", "d sixth");
        Await.until("all", () -> read.size() == expected.size());
        assertEquals(expected, read);
        assertEquals(List.of(), ends);
    }

    @Test
    void aNumberWithoutItsTopicEndsTheConnection() throws Exception {
        connect(permitting(2));
        publish("a", 1, "first");
        publish("", 2, "second");
        Await.until("the end", () -> !ends.isEmpty());
        assertEquals(List.of("the broker sent topic alias 2 before its topic"), ends);
        assertEquals(List.of("a first"), read);
    }

    @Test
    void aNumberThatIsNotPermittedEndsTheConnection() throws Exception {
        connect(permitting(2));
        publish("a", 3, "first");
        Await.until("the end", () -> !ends.isEmpty());
        assertEquals(List.of("the broker sent topic alias 3 (permitted: up to 2)"), ends);
        assertEquals(List.of(), read);
    }

    @Test
    void aSessionPermitsNumbersIfItSaysSo() throws Exception {
        assertFalse(connect(Session.persistent("reader", 10)).contains(PERMITS));
        close();
        listen();
        assertTrue(connect(Session.persistent("reader", 10).withTopicAliases()).contains(PERMITS));
    }
}
