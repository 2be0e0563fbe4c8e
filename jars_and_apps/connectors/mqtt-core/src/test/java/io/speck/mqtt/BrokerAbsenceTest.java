package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A broker that forgets what it had not saved, and is away for much longer than a sink retains messages. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BrokerAbsenceTest {
    private static final String KEEP = "speck.sink.keepSeconds";
    private static final String IDLE = "speck.sink.idleSeconds";
    private static final int KEPT_SECONDS = 1;
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @TempDir
    Path folder;
    private Mosquitto broker;
    private MqttSink sink;
    private int sent;

    @BeforeEach
    void start() throws Exception {
        System.setProperty(KEEP, Integer.toString(KEPT_SECONDS));
        System.setProperty(IDLE, Integer.toString(KEPT_SECONDS));
        broker = Mosquitto.start(folder, "autosave_interval 0");
        sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE));
        reader().close();
        broker.save();
    }

    @AfterEach
    void stop() {
        System.clearProperty(KEEP);
        System.clearProperty(IDLE);
        sink.close();
        broker.close();
    }

    private MqttSource reader() throws Exception {
        MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535,
                32 << 20, null, -1, false, PATIENCE), new MemoryJournal());
        source.open(0, 0);
        return source;
    }

    private void send(int count) throws InterruptedException {
        for (int i = 0; i < count; i++, sent++) {
            sink.send("in/a", bytes("m" + sent), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + sent));
        }
        sink.flush();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void assertAllArrive() throws Exception {
        List<String> expected = IntStream.range(0, sent).mapToObj(number -> "m" + number).toList();
        try (MqttSource source = reader()) {
            Await.until("all messages", () -> source.await(sent, TimeUnit.SECONDS.toNanos(1)) >= sent);
            List<String> seen = new ArrayList<>();
            source.messages(0, sent).forEach(each -> seen.add(new String(each.payload(), StandardCharsets.UTF_8)));
            assertEquals(expected, seen);
        }
    }

    private static void muchLongerThanMessagesAreKept() throws InterruptedException {
        TimeUnit.SECONDS.sleep(4 * KEPT_SECONDS);
    }

    @Test
    void messagesDoNotAgeWhileTheBrokerIsAway() throws Exception {
        send(3000);
        broker.kill();
        muchLongerThanMessagesAreKept();
        broker.start();
        send(10);
        assertAllArrive();
    }

    @Test
    void messagesDoNotAgeWhileTheBrokerIsSilent() throws Exception {
        send(3000);
        broker.pause(); // the connection stays open, as when the broker's machine loses power
        muchLongerThanMessagesAreKept();
        broker.kill();
        broker.start();
        send(10);
        assertAllArrive();
    }

    @Test
    void messagesDoNotAgeWhenTheirWriterEndsWhileTheBrokerIsAway() throws Exception {
        send(3000);
        broker.kill();
        sink.close();
        muchLongerThanMessagesAreKept();
        broker.start();
        sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE));
        send(10);
        assertAllArrive();
    }
}
