package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RecordDecoderTest {
    private static RecordDecoder decoder(String session) {
        return new RecordDecoder(session, new TopicWatch.Topic("id", 1));
    }

    private static ConsumerRecord<byte[], byte[]> record(byte[] job, byte[] sequence) {
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("in", 2, 17, null, null);
        if (job != null) {
            RecordDecoder.stamp(record.headers(), job, sequence);
        }
        return record;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void aStampIsInTheHeaders() {
        KafkaMessage found = decoder("speck-b:f00").decode(record(bytes("a"), bytes("r/0/0/5")));
        assertEquals("a", found.stamp().job());
        assertEquals(2, found.partition);
        assertEquals(17, found.position);
        assertEquals(0, found.payload().length); // of a null value
        assertNull(found.key());
    }

    @Test
    void outputsOfAReplayDeriveFromAnotherIdentityThanThoseBefore() {
        ConsumerRecord<byte[], byte[]> record = record(bytes("a"), bytes("r/3/4/5.0"));
        Stamp before = decoder("speck-b:f00:7").decode(record).stamp();
        KafkaMessage message = decoder("speck-b:f00:r7").decode(record);
        Stamp again = message.stamp();
        assertEquals(before, message.stamp); // by which repetitions are detected
        assertNotEquals(before.run(), again.run());
        assertNotEquals(again.run(), decoder("speck-b:f00:r8").decode(record).stamp().run());
        assertEquals(before, new Stamp(again.job(), before.run(), again.partition(), again.epoch(), again.index(),
                again.path(), again.fingerprint()));
        assertEquals(again, Stamp.parse(again.job(), again.sequence()));
        message.disbelieve();
        assertNull(message.stamp());
    }

    /** They come in another order when they are read again, and so under other positions among all messages. */
    @Test
    void aRecordWithoutAStampHasAnIdentityByItsPlaceInATopicOfSeveralPartitions() {
        ConsumerRecord<byte[], byte[]> record = record(null, null);
        RecordDecoder decoder = new RecordDecoder("s", new TopicWatch.Topic("id", 4));
        KafkaMessage message = decoder.decode(record);
        assertNull(message.stamp); // by which repetitions are detected
        assertEquals(List.of(2, 0L, 17L), List.of(message.stamp().partition(), message.stamp().epoch(),
                message.stamp().index()));
        assertEquals(message.stamp(), message.take().stamp());
        assertEquals(output(message, 3), output(decoder.decode(record), 9));
        assertNull(decoder("speck-b:f00").decode(record).stamp());
        decoder.topicMadeAnew(new TopicWatch.Topic("other", 4));
        assertNotEquals(message.stamp(), decoder.decode(record).stamp());
        Stamp replayed = new RecordDecoder("s:r7", new TopicWatch.Topic("id", 4)).decode(record).stamp();
        assertNotEquals(message.stamp().run(), replayed.run());
    }

    /** The stamp of a job's output of a message at a position among all that it has read. */
    private static Stamp output(KafkaMessage message, long offset) {
        CurrentInput input = CurrentInput.ofThread();
        input.begin(message.stamp(), 0, offset, message.hash());
        try {
            Stamp found = Stamp.parse("b", new String(input.nextSequence("run"), StandardCharsets.UTF_8));
            assertTrue(found.derived());
            return found;
        } finally {
            input.end();
        }
    }

    @Test
    void onlyTheStampOfAWriterIsReplacedByTheIdentityByPlaceOnceItIsNotBelieved() {
        RecordDecoder decoder = new RecordDecoder("s", new TopicWatch.Topic("id", 4));
        KafkaMessage message = decoder.decode(record(bytes("a"), bytes("r/0/0/5")));
        assertEquals("a", message.stamp().job());
        message.disbelieve();
        assertEquals(17, message.stamp().index());
    }

    @Test
    void headersThatAreNoStampAreCountedAndIgnored() {
        for (byte[] job : new byte[][] {{(byte) 0xFF}, bytes("a b"), bytes("")}) {
            KafkaMessage found = decoder("speck-b:f00").decode(record(job, bytes("r/0/0/5")));
            assertNull(found.stamp());
            assertTrue(found.badStamp);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"a/b", "+", "", ".", "..", "__x", "speck.control", "speck.x", "\u00e4"})
    void aTopicThatKafkaCannotHaveIsRefused(String topic) {
        assertThrows(InvalidSettingException.class, () -> Topics.checked(topic));
    }

    @ParameterizedTest
    @ValueSource(strings = {"a", "a.b-c_D9", "speck.probe", "speckles"})
    void othersAreAccepted(String topic) {
        assertEquals(topic, Topics.checked(topic));
    }
}
