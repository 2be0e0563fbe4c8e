package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.RecordFrame;
import io.speck.kafka.KafkaBatchRecord.Run;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.stamp.Varint;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class KafkaBatchRecordTest {
    private static KafkaMessage message(int partition, long position, boolean duplicate, boolean believed) {
        return message(partition, 3, position, duplicate, believed);
    }

    private static KafkaMessage message(int partition, long epoch, long position, boolean duplicate, boolean believed) {
        KafkaMessage message = new KafkaMessage(partition, epoch, position, 7, "in", new byte[0], 0, null);
        message.duplicate = duplicate;
        message.believed = believed;
        return message;
    }

    private static KafkaBatchRecord record(List<KafkaMessage> messages) {
        SeenStamps seen = new SeenStamps(SeenStamps.RECORDED_HASHES);
        seen.add(Stamp.parse("a", "r/0/0/5"), 11);
        Place after = Place.at(Map.of(0, 1L, 1, 9L));
        messages.forEach(after::pass);
        return new KafkaBatchRecord("session", "kafka://h:9092", "in", "id", 40, 43, 2, Place.at(Map.of(0, 1L, 1, 9L)),
                after, Runs.of(messages), seen, KnownWriters.all());
    }

    @Test
    void runsHaveConsecutiveMessagesOfOnePartitionEpochAndFate() {
        List<KafkaMessage> messages = List.of(message(0, 1, false, true), message(0, 2, false, true),
                message(0, 3, true, true), message(1, 9, false, true), message(0, 4, false, true),
                message(0, 6, false, true), message(0, 7, false, false), message(0, 5, 8, false, false));
        assertEquals(List.of(new Run(0, 3, 1, 2, 0), new Run(0, 3, 3, 1, Run.DUPLICATE), new Run(1, 3, 9, 1, 0),
                new Run(0, 3, 4, 1, 0), new Run(0, 3, 6, 1, 0), new Run(0, 3, 7, 1, Run.NOT_NAMED),
                new Run(0, 5, 8, 1, Run.NOT_NAMED)),
                Runs.of(messages));
    }

    @Test
    void messagesBeforeAndAfterFurtherPartitionsWereAddedAreDifferentRuns() throws IOException {
        List<KafkaMessage> messages = List.of(message(0, 1, false, true), message(0, 2, false, true));
        messages.get(1).places = "id";
        KafkaBatchRecord found = KafkaBatchRecord.decode(record(messages).encode());
        assertEquals(List.of(new Run(0, 3, 1, 1, 0), new Run(0, 3, 2, 1, Run.BY_PLACE)), found.runs());
    }

    /** In such a record, messages are named by their places if the topic has several partitions. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void theMessagesOfARecordWithoutThatFlagHaveTheNamesOfTheirPartitions(int partitions) throws IOException {
        Map<Integer, Long> places = partitions == 1 ? Map.of(0, 1L) : Map.of(0, 1L, 1, 9L);
        KafkaBatchRecord of = record(List.of(message(0, 1, false, true)));
        KafkaBatchRecord written = new KafkaBatchRecord(of.session(), of.broker(), of.topic(), of.topicId(), 40, 41, 1,
                Place.at(places), Place.at(places), of.runs(), of.seen(), of.writers());
        byte[] body = RecordFrame.body(written.encode()).readAllBytes();
        KafkaBatchRecord found = KafkaBatchRecord.decode(RecordFrame.encode(0x53504b4b, 3, out -> out.write(body)));
        assertEquals(List.of(partitions == 2), found.runs().stream().map(Run::byPlace).toList());
    }

    @Test
    void aRecordIsReadBack() throws IOException {
        KafkaBatchRecord written = record(List.of(message(0, 1, false, true), message(1, 9, true, false)));
        KafkaBatchRecord found = KafkaBatchRecord.decode(written.encode());
        assertEquals(List.of("session", "kafka://h:9092", "in", "id", 40L, 43L, 2),
                List.of(found.session(), found.broker(), found.topic(), found.topicId(), found.start(), found.end(), found.parts()));
        assertEquals(Map.of(0, 1L, 1, 9L), found.before().offsets());
        assertEquals(Map.of(0, 2L, 1, 10L), found.after().offsets());
        assertEquals(Optional.of(3), found.after().in(0).leaderEpoch());
        assertEquals(written.runs(), found.runs());
        assertEquals(SeenStamps.Verdict.REPETITION, found.seen().add(Stamp.parse("a", "r/0/0/5"), 11));
    }

    /** Written by a connector whose records had no epochs, or no broker either. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void aRecordOfAnEarlierVersionIsReadBack(int version) throws IOException {
        KafkaBatchRecord written = record(List.of(message(0, 1, false, true)));
        byte[] before = RecordFrame.encode(0x53504b4b, version, out -> {
            out.writeUTF("session");
            if (version > 1) {
                out.writeUTF("kafka://h:9092");
            }
            out.writeUTF("in");
            out.writeUTF("id");
            out.writeLong(40);
            out.writeLong(43);
            out.writeInt(2);
            for (int[] place : new int[][] {{2, 0, 1, 1, 9}, {2, 0, 2, 1, 9}, {1, 0, 1, 1}}) { // the last one is a run
                for (int each : place) {
                    Varint.write(out, each);
                }
            }
            out.writeByte(0);
            written.seen().write(out);
            written.writers().write(out);
        });
        KafkaBatchRecord found = KafkaBatchRecord.decode(before);
        assertEquals(List.of("session", version > 1 ? "kafka://h:9092" : "", "in", "id", 40L), List.of(found.session(),
                found.broker(), found.topic(), found.topicId(), found.start()));
        assertEquals(Map.of(0, 2L, 1, 9L), found.after().offsets());
        assertEquals(Optional.empty(), found.after().in(0).leaderEpoch());
        assertEquals(List.of(new Run(0, Epochs.UNKNOWN, 1, 1, 0)), found.runs());
        assertTrue(found.runs().get(0).isOf(Optional.of(7)));
    }

    @Test
    void aRunIsNotOfRecordsWithAnotherEpoch() {
        Run run = new Run(0, 3, 1, 2, 0);
        assertTrue(run.isOf(Optional.of(3)));
        assertTrue(run.isOf(Optional.empty()));
        assertFalse(run.isOf(Optional.of(5)));
    }

    @Test
    void aRunOfADeletedTopicIsOfNoRecords() throws IOException {
        KafkaBatchRecord of = record(List.of());
        KafkaBatchRecord written = new KafkaBatchRecord(of.session(), of.broker(), of.topic(), of.topicId(), 40, 43, 1,
                of.before(), of.after(), List.of(new Run(0, Epochs.of(Optional.of(3), 1), 1, 3, 0).gone()), of.seen(),
                of.writers());
        Run found = KafkaBatchRecord.decode(written.encode()).runs().get(0);
        assertEquals(List.of(1L, 3L), List.of(found.first(), found.count()));
        for (Optional<Integer> epoch : List.of(Optional.of(3), Optional.of(0), Optional.<Integer>empty())) {
            assertFalse(found.isOf(epoch));
        }
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
