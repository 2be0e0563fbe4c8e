package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.Message;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import io.speck.mqtt.MemoryJournal;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.CurrentInput;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Packs messages to rows, each of which is the input from which the sink derives stamps. */
@Timeout(60)
class RowsTest {
    private static final RowColumns PLAIN = new RowColumns(false, false);
    private static final List<String> SEQUENCES = List.of("r/0/0/7", "e/0/0/7.0", "e/0/0/7.0~fffffffe", "e/0/0/8.0~00000001");

    /** For each row true if its outputs may wait for later ones. */
    private final List<Boolean> mayWait = new ArrayList<>();

    /** Returns the sequences of one output of each row. */
    private List<String> derived(MqttSource source, long end) throws Exception {
        List<String> sequences = new ArrayList<>();
        mayWait.clear();
        try (PartitionReader<InternalRow> rows = new Rows.Factory(PLAIN, 2, null, null)
                .createReader(Rows.pack(source.messages(0, end), PLAIN, Message::payload, false, false))) {
            while (rows.next()) {
                sequences.add(new String(CurrentInput.ofThread().nextSequence("own"), StandardCharsets.US_ASCII));
                mayWait.add(CurrentInput.ofThread().mayWait());
            }
        }
        return sequences;
    }

    @Test
    void fingerprintsGoAlong(@TempDir Path folder) throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder);
                MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), "reader", "in", 100,
                        1 << 20, null, -1, true, Duration.ofSeconds(20)), new MemoryJournal())) {
            source.open(0, 0);
            for (int i = 0; i < SEQUENCES.size(); i++) {
                Topic.publishStamped(broker.url(), "in", "job" + i, SEQUENCES.get(i), "text");
            }
            Topic.publish(broker.url(), "in", List.of("text"));
            Await.until("all", () -> source.await(5, TimeUnit.SECONDS.toNanos(1)) == 5);
            List<String> sequences = derived(source, 5);
            List<String> ends = List.of("/0/0/7.0", "/0/0/7.0", "/0/0/7.0~fffffffe", "/0/0/8.0~00000001");
            for (int i = 0; i < ends.size(); i++) {
                assertTrue(sequences.get(i).matches("d[0-9a-z]+" + ends.get(i)), sequences.get(i));
            }
            assertEquals(String.format("own/2/0/4.0~%08x", Wire.fingerprint("in", "text")), sequences.get(4));
        }
    }

    @Test
    void outputsWaitForMessagesWithoutStampsAlone(@TempDir Path folder) throws Exception {
        try (Mosquitto broker = Mosquitto.start(folder);
                MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), "reader", "in", 100,
                        1 << 20, null, -1, true, Duration.ofSeconds(20)), new MemoryJournal())) {
            source.open(0, 0);
            Topic.publish(broker.url(), "in", List.of("a", "b"));
            Topic.publishStamped(broker.url(), "in", "job", "r/0/0/7", "c");
            Topic.publish(broker.url(), "in", List.of("d", "e", "f"));
            Await.until("all", () -> source.await(6, TimeUnit.SECONDS.toNanos(1)) == 6);
            derived(source, 6);
            assertEquals(List.of(true, false, false, true, true, false), mayWait);
            assertFalse(CurrentInput.ofThread().mayWait());
        }
    }
}
