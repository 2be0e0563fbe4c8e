package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.stamp.Stamp;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RecordDecoderTest {
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
        KafkaMessage found = new RecordDecoder("speck-b:f00").decode(record(bytes("a"), bytes("r/0/0/5")));
        assertEquals("a", found.stamp().job());
        assertEquals(2, found.partition);
        assertEquals(17, found.position);
        assertEquals(0, found.payload().length); // of a null value
        assertNull(found.key());
    }

    @Test
    void outputsOfAReplayDeriveFromAnotherIdentityThanThoseBefore() {
        ConsumerRecord<byte[], byte[]> record = record(bytes("a"), bytes("r/3/4/5.0"));
        Stamp before = new RecordDecoder("speck-b:f00:7").decode(record).stamp();
        KafkaMessage message = new RecordDecoder("speck-b:f00:r7").decode(record);
        Stamp again = message.stamp();
        assertEquals(before, message.stamp); // by which repetitions are detected
        assertNotEquals(before.run(), again.run());
        assertNotEquals(again.run(), new RecordDecoder("speck-b:f00:r8").decode(record).stamp().run());
        assertEquals(before, new Stamp(again.job(), before.run(), again.partition(), again.epoch(), again.index(),
                again.path(), again.fingerprint()));
        assertEquals(again, Stamp.parse(again.job(), again.sequence()));
        message.disbelieve();
        assertNull(message.stamp());
    }

    @Test
    void headersThatAreNoStampAreCountedAndIgnored() {
        for (byte[] job : new byte[][] {{(byte) 0xFF}, bytes("a b"), bytes("")}) {
            KafkaMessage found = new RecordDecoder("speck-b:f00").decode(record(job, bytes("r/0/0/5")));
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
