package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Message;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.Await;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Writes to a real Mosquitto whose connections are cut. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MqttSinkTest {
    @TempDir
    Path folder;
    private Mosquitto broker;
    private CuttingProxy proxy;
    private MqttSource reader;

    @BeforeEach
    void start() throws Exception {
        broker = Mosquitto.start(folder, "max_packet_size 5000");
        proxy = new CuttingProxy(broker.port());
        reader = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), "reader", "out", 65535, 32 << 20,
                null, -1, true, Duration.ofSeconds(20)), new MemoryJournal());
        reader.open(0, 0);
    }

    @AfterEach
    void stop() throws IOException {
        reader.close();
        proxy.close();
        broker.close();
    }

    private MqttSink sink(Duration timeout) throws InterruptedException {
        return new MqttSink(new SinkSettings(Login.anonymous(proxy.url()), timeout));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void aCutLosesNothingAndKeepsTheOrder() throws Exception {
        int count = 8_000;
        try (MqttSink sink = sink(Duration.ofSeconds(60))) {
            for (int i = 0; i < count; i++) {
                sink.send("out", bytes("m" + i), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + i));
                if (i % 2_500 == 2_499) {
                    proxy.cut();
                }
            }
            sink.flush();
        }
        Await.until("all", () -> reader.await(count, TimeUnit.SECONDS.toNanos(1)) >= count);
        List<String> seen = new ArrayList<>();
        List<String> sent = new ArrayList<>();
        for (Message message : reader.messages(0, count)) {
            sent.add("m" + sent.size());
            seen.add(new String(message.payload(), StandardCharsets.UTF_8));
        }
        assertEquals(sent, seen);
        assertEquals(count, reader.metrics().received());
    }

    @Test
    void writersShareOneConnection() throws Exception {
        int before = Publishers.count();
        try (MqttSink one = sink(Duration.ofSeconds(20)); MqttSink other = sink(Duration.ofSeconds(20))) {
            assertEquals(before + 1, Publishers.count());
            one.send("out", bytes("1"), null, null, null);
            other.send("out", bytes("2"), null, null, null);
            one.flush();
            other.flush();
        }
        Await.until("both", () -> reader.await(2, TimeUnit.SECONDS.toNanos(1)) == 2);
    }

    @Test
    void aFlushThatTakesTooLongNamesBrokerAndTopic() throws Exception {
        try (MqttSink sink = sink(Duration.ofMillis(500))) {
            proxy.swallow(true);
            sink.send("out", bytes("x"), null, null, null);
            String fault = assertThrows(BrokerException.class, sink::flush).getMessage();
            assertTrue(fault.contains(proxy.url()) && fault.contains("'out'"), fault);
        }
    }

    @Test
    void aMessageTooLargeForTheBrokerIsAnError() throws Exception {
        try (MqttSink sink = sink(Duration.ofSeconds(20))) {
            sink.send("out", new byte[6000], null, null, null);
            String fault = assertThrows(BrokerException.class, sink::flush).getMessage();
            assertTrue(fault.contains("maximum packet size of 5000"), fault);
        }
        try (MqttSink sink = sink(Duration.ofSeconds(20))) {
            sink.send("out", bytes("fits"), null, null, null);
            sink.flush();
        }
    }

    @Test
    void aTopicWithWildcardsIsRefused() throws Exception {
        try (MqttSink sink = sink(Duration.ofSeconds(20))) {
            for (String topic : List.of("a/#", "+/b", "")) {
                assertThrows(InvalidSettingException.class, () -> sink.send(topic, bytes("x"), null, null, null));
            }
        }
    }

    @Test
    void whatIsNoTextIsNoTopicAndNoKey() throws Exception {
        try (MqttSink sink = sink(Duration.ofSeconds(20))) {
            byte[] content = {0, -1};
            for (byte[] key : List.of(new byte[] {'k', -1}, new byte[] {'k', 0}, new byte[] {'k', '\t'})) {
                assertThrows(InvalidSettingException.class, () -> sink.send("out", content, key, null, null));
            }
            assertTrue(assertThrows(InvalidSettingException.class, () -> sink.send("a\uD800", content, null, null, null))
                    .getMessage().contains("U+D800 at position 1 is half of a surrogate pair"));
            assertThrows(InvalidSettingException.class, () -> sink.send("a\u0007", content, null, null, null));
            sink.send("out", content, "k\u00e4".getBytes(StandardCharsets.UTF_8), null, null);
            sink.flush();
            Await.until("the message", () -> reader.await(1, TimeUnit.SECONDS.toNanos(1)) == 1);
            Message only = reader.messages(0, 1).get(0);
            assertEquals(List.of("k\u00e4", 2), List.of(only.key(), only.payload().length));
        }
    }

    @Test
    void aBrokerThatIsAwayTakesNothingAndGivesBackWhatItHasNotAcknowledged() throws Exception {
        SinkSettings settings = new SinkSettings(Login.anonymous(proxy.url()), Duration.ofSeconds(60));
        try (MqttSink sink = MqttSink.offering(settings, false)) {
            assertEquals(4, sink.offer("out", bytes("1"), null, null, null));
            assertEquals(List.of(), sink.flushUnlessAway());
            assertEquals(4, sink.offer("out", bytes("2"), null, bytes("job"), bytes("run/0/0/1")));
            proxy.refuse(true);
            proxy.cut();
            List<UnsentMessage> back = sink.flushUnlessAway();
            assertEquals(List.of("2", "run/0/0/1"), List.of(text(back.get(0).payload()), text(back.get(0).sequence())));
            assertEquals(List.of(1, -1), List.of(back.size(), sink.offer("out", bytes("3"), null, null, null)));
            proxy.refuse(false);
            Await.until("it is back", () -> sink.offer("out", bytes("4"), null, null, null) > 0);
            assertEquals(List.of(), sink.flushUnlessAway());
        }
        Await.until("both", () -> reader.await(2, TimeUnit.SECONDS.toNanos(1)) == 2);
        assertEquals(List.of("1", "4"), reader.messages(0, 2).stream().map(each -> text(each.payload())).toList());
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Test
    void aBrokerOutOfReachIsNamed() {
        SinkSettings nowhere = new SinkSettings(Login.anonymous("tcp://127.0.0.1:1"), Duration.ofMillis(300));
        String fault = assertThrows(BrokerException.class, () -> new MqttSink(nowhere)).getMessage();
        assertTrue(fault.contains("tcp://127.0.0.1:1"), fault);
        assertFalse(fault.contains("null"), fault);
    }
}
