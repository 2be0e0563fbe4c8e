package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.speck.connector.reader.ReceiveBuffer;
import io.speck.connector.reader.Repetitions;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Records of other programs whose headers have the form of a stamp, beside those of the job "a", which is named. */
class StampsOfOthersTest {
    private final Repetitions repetitions = new Repetitions(Recorded.settings("kafka://k:9092", "speck-b"));
    private final ReceiveBuffer buffer = new ReceiveBuffer(false);
    private final RecordDecoder decoder = new RecordDecoder("speck-b", new TopicWatch.Topic("id", 1));
    private final List<String> returned = new ArrayList<>();
    private long position;

    StampsOfOthersTest() {
        repetitions.replace(bytes("{\"writers\": [\"a\"]}"));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Takes a record as a reader does. */
    private KafkaMessage receive(String job, String sequence, String content) {
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("in", 0, position++, null, bytes(content));
        RecordDecoder.stamp(record.headers(), bytes(job), bytes(sequence));
        KafkaMessage message = decoder.decode(record);
        boolean dropped = repetitions.drops(message, buffer);
        buffer.add(message, dropped);
        if (!dropped) {
            returned.add(content);
        }
        return message;
    }

    @ParameterizedTest
    @CsvSource({"r/0/0/5", "r/0/0/5.0", "r/0/0/5.0~0000abcd"})
    void aRecordOfAWriterThatIsNotNamedIsNeverARepetition(String sequence) {
        assertNull(receive("copy", sequence, "x").stamp());
        receive("a", sequence, "x");
        assertNull(receive("copy", sequence, "x").stamp());
        receive("a", sequence, "x");
        assertEquals(List.of("x", "x", "x"), returned);
        assertEquals(2, repetitions.counts().bad());
        assertEquals(1, repetitions.counts().dropped());
    }

    @ParameterizedTest
    @CsvSource({"r/0/0/5, r/0/0/5", "r/0/0/5.0~00000001, r/0/0/5.0~00000002"})
    void anotherContentUnderTheNameOfAWriterIsRecognised(String foreign, String own) {
        receive("a", foreign, "y");
        assertNull(receive("a", own, "x").stamp()); // so that outputs have a name of their own
        assertEquals(List.of("y", "x"), returned);
        assertEquals(1, repetitions.counts().collisions());
    }

    /** The exception in the guarantees: a stamp does not tell who wrote it. */
    @Test
    void anotherContentUnderADerivedStampWithTheNameOfAWriterTakesItsPlace() {
        receive("a", "r/0/0/5.0", "y");
        receive("a", "r/0/0/5.0", "x");
        assertEquals(List.of("y"), returned);
        assertEquals(1, repetitions.counts().changed());
    }

    @Test
    void aBatchThatIsRunAgainHasTheRecordsOfOthersWithoutAStamp() {
        KafkaMessage foreign = receive("copy", "r/0/0/5", "x");
        KafkaMessage own = receive("a", "r/0/0/5", "x");
        List<KafkaBatchRecord.Run> runs = Runs.of(List.of(foreign, own));
        assertEquals(List.of(KafkaBatchRecord.Run.NOT_NAMED, 0), runs.stream().map(KafkaBatchRecord.Run::fate).toList());
        ReceiveBuffer again = new ReceiveBuffer(false);
        KafkaMessage read = decoder.decode(record("copy", "r/0/0/5"));
        new Opening.Again(read, runs.get(0)).addTo(again);
        assertNull(read.stamp());
    }

    private static ConsumerRecord<byte[], byte[]> record(String job, String sequence) {
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("in", 0, 0, null, bytes("x"));
        RecordDecoder.stamp(record.headers(), bytes(job), bytes(sequence));
        return record;
    }
}
