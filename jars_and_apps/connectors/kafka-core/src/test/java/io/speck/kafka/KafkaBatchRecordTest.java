package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.KnownWriters;
import io.speck.kafka.KafkaBatchRecord.Run;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class KafkaBatchRecordTest {
    private static KafkaMessage message(int partition, long position, boolean duplicate, boolean believed) {
        KafkaMessage message = new KafkaMessage(partition, position, 7, "in", new byte[0], 0, null);
        message.duplicate = duplicate;
        message.believed = believed;
        return message;
    }

    private static KafkaBatchRecord record(List<KafkaMessage> messages) {
        SeenStamps seen = new SeenStamps(SeenStamps.RECORDED_HASHES);
        seen.add(Stamp.parse("a", "r/0/0/5"), 11);
        Place after = new Place(Map.of(0, 1L, 1, 9L));
        messages.forEach(after::pass);
        return new KafkaBatchRecord("session", "kafka://h:9092", "in", "id", 40, 43, 2, new Place(Map.of(0, 1L, 1, 9L)), after,
                Runs.of(messages), seen, KnownWriters.all());
    }

    @Test
    void runsHaveConsecutiveMessagesOfOnePartitionAndFate() {
        List<KafkaMessage> messages = List.of(message(0, 1, false, true), message(0, 2, false, true),
                message(0, 3, true, true), message(1, 9, false, true), message(0, 4, false, true),
                message(0, 6, false, true), message(0, 7, false, false));
        assertEquals(List.of(new Run(0, 1, 2, 0), new Run(0, 3, 1, Run.DUPLICATE), new Run(1, 9, 1, 0),
                new Run(0, 4, 1, 0), new Run(0, 6, 1, 0), new Run(0, 7, 1, Run.NOT_NAMED)),
                Runs.of(messages));
    }

    @Test
    void aRecordIsReadBack() throws IOException {
        KafkaBatchRecord written = record(List.of(message(0, 1, false, true), message(1, 9, true, false)));
        KafkaBatchRecord found = KafkaBatchRecord.decode(written.encode());
        assertEquals(List.of("session", "kafka://h:9092", "in", "id", 40L, 43L, 2),
                List.of(found.session(), found.broker(), found.topic(), found.topicId(), found.start(), found.end(), found.parts()));
        assertEquals(Map.of(0, 1L, 1, 9L), found.before().offsets());
        assertEquals(Map.of(0, 2L, 1, 10L), found.after().offsets());
        assertEquals(written.runs(), found.runs());
        assertEquals(SeenStamps.Verdict.REPETITION, found.seen().add(Stamp.parse("a", "r/0/0/5"), 11));
    }

    /** Written by a connector whose records had no broker. */
    @Test
    void aRecordOfVersion1IsReadBack() throws IOException {
        byte[] now = record(List.of(message(0, 1, false, true))).encode();
        int broker = 2 + "kafka://h:9092".length();
        int at = 12 + 2 + "session".length();
        byte[] before = new byte[now.length - broker];
        System.arraycopy(now, 0, before, 0, at);
        System.arraycopy(now, at + broker, before, at, now.length - at - broker);
        java.util.zip.CRC32C crc = new java.util.zip.CRC32C();
        crc.update(before, 12, before.length - 12);
        java.nio.ByteBuffer.wrap(before).putInt(4, 1).putInt(8, (int) crc.getValue());
        KafkaBatchRecord found = KafkaBatchRecord.decode(before);
        assertEquals(List.of("session", "", "in", "id", 40L), List.of(found.session(), found.broker(), found.topic(),
                found.topicId(), found.start()));
        assertEquals(Map.of(0, 2L, 1, 9L), found.after().offsets());
    }

    @Test
    void aRunOfManyMessagesTakesFewBytes() {
        KafkaMessage[] messages = new KafkaMessage[30_000];
        Arrays.setAll(messages, i -> message(0, 1_000_000 + i, false, true));
        assertTrue(record(List.of(messages)).encode().length < 200);
    }

    @Test
    void whatIsNoWholeRecordIsRefused() {
        byte[] whole = record(List.of(message(0, 1, false, true))).encode();
        byte[] changed = whole.clone();
        changed[changed.length - 1] ^= 1;
        assertTrue(KafkaBatchRecord.isOne(whole));
        assertFalse(KafkaBatchRecord.isOne(new byte[20]));
        for (byte[] each : List.of(changed, Arrays.copyOf(whole, whole.length - 1), new byte[0], new byte[20])) {
            assertThrows(IOException.class, () -> KafkaBatchRecord.decode(each));
        }
    }
}
