package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Hands the messages of a device on to another broker, by a job that names each after its position in its session. A power
 * cut takes from the device's broker what it has not saved, and from the job what it did since its last checkpoint.
 */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class EdgeTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    @TempDir
    Path edgeFolder;
    @TempDir
    Path innerFolder;
    private Mosquitto edge;
    private Mosquitto inner;
    private MqttSource reader;
    private final List<String> delivered = new ArrayList<>();

    @BeforeEach
    void start() throws Exception {
        edge = Mosquitto.start(edgeFolder, "autosave_interval 0");
        inner = Mosquitto.start(innerFolder);
        reader = source(inner, "reader", "out/#");
        source(edge, "job", "in/#").close();
        edge.save();
    }

    @AfterEach
    void stop() {
        reader.close();
        inner.close();
        edge.close();
    }

    private static MqttSource source(Mosquitto broker, String client, String topic) throws Exception {
        MqttSource opened = MqttSource.streaming(new SourceSettings(Login.anonymous(broker.url()), client, topic, 65535,
                32 << 20, null, -1, false, PATIENCE), new MemoryJournal());
        opened.open(0, 0);
        return opened;
    }

    private void device(String... texts) throws InterruptedException {
        Topic.publish(edge.url(), "in/a", List.of(texts));
    }

    /** Runs the job from its first checkpoint, at position 0, to its end without another one. */
    private void runJob(int count) throws Exception {
        CurrentInput input = CurrentInput.ofThread();
        try (MqttSource source = source(edge, "job", "in/#");
                MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(inner.url()), PATIENCE))) {
            for (Received each : take(source, count)) {
                input.begin(each.stamp(), 0, each.offset(), each.hash());
                sink.send("out/a", each.payload(), null, bytes("job"), input.nextSequence("run"));
                input.end();
            }
            sink.flush();
        }
    }

    private static List<Received> take(MqttSource source, int count) {
        List<Received> taken = new ArrayList<>();
        Await.until(count + " messages", () -> {
            taken.addAll(source.take(count - taken.size()));
            return taken.size() == count;
        });
        return taken;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns all that was delivered up to now: a message without a stamp, sent last, is always delivered. */
    private List<String> delivered() throws InterruptedException {
        Topic.publish(inner.url(), "out/a", List.of("end"));
        do {
            take(reader, 1).forEach(each -> delivered.add(each.text()));
        } while (!delivered.remove("end"));
        return delivered;
    }

    private void powerCut() throws Exception {
        edge.kill();
        edge.start();
    }

    @Test
    void messagesAtThePositionsOfLostOnesAreDelivered() throws Exception {
        device("a", "b", "c");
        runJob(3);
        powerCut();
        device("d", "b", "e", "f");
        runJob(4);
        assertEquals(List.of("a", "b", "c", "d", "e", "f"), delivered(), "and one 'b', which is the old one for all one knows");
        assertEquals(2, reader.metrics().collisions());
        runJob(4);
        assertEquals(List.of("a", "b", "c", "d", "e", "f"), delivered(), "what the job repeats is dropped");
        assertEquals(1 + 4, reader.metrics().duplicatesDropped());
    }

    @Test
    void equalMessagesAtTwoPositionsAreTwo() throws Exception {
        device("a", "a");
        runJob(2);
        runJob(2);
        assertEquals(List.of("a", "a"), delivered());
        assertEquals(2, reader.metrics().duplicatesDropped());
    }
}
