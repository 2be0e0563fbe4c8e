package io.speck.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Message;
import io.speck.connector.reader.ReceiveBuffer;
import io.speck.kafka.KafkaBatchRecord.Run;
import io.speck.mqtt.stamp.SeenStamps;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;

/** A batch that is run again, of a topic that has lost some of its messages, or has others under their offsets. */
class AgainTest {
    private static final RecordDecoder DECODER = new RecordDecoder("s", new TopicWatch.Topic("id", 1));

    private static KafkaBatchRecord batch(Run... runs) {
        return new KafkaBatchRecord("s", "kafka://k:9092", "in", "id", 40, 44, 1, Place.at(Map.of()), Place.at(Map.of()),
                List.of(runs), new SeenStamps(SeenStamps.RECORDED_HASHES), KnownWriters.all());
    }

    private static Map<Long, ConsumerRecord<byte[], byte[]>> records(int epoch, long... offsets) {
        Map<Long, ConsumerRecord<byte[], byte[]>> records = new HashMap<>();
        for (long offset : offsets) {
            byte[] value = (epoch + "/" + offset).getBytes(StandardCharsets.UTF_8);
            records.put(offset, new ConsumerRecord<>("in", 0, offset, 0, TimestampType.CREATE_TIME, 0, value.length, null,
                    value, new RecordHeaders(), Optional.of(epoch)));
        }
        return records;
    }

    private static List<String> returned(ReceiveBuffer buffer) {
        return buffer.between(40, 44).stream().map(AgainTest::shown).toList();
    }

    private static String shown(Message message) {
        return message.offset() + ": " + new String(message.payload(), StandardCharsets.UTF_8);
    }

    @Test
    void messagesThatAreGoneLeaveTheirOffsetsAndAreCounted() {
        KafkaBatchRecord batch = batch(new Run(0, 4, 10, 2, 0), new Run(0, 4, 12, 1, Run.DUPLICATE),
                new Run(0, 4, 13, 2, 0));
        Map<Long, ConsumerRecord<byte[], byte[]>> found = records(4, 10, 14);
        found.putAll(records(6, 13)); // written since, and read behind the batch
        List<Opening.Again> messages = Opening.again(batch, Map.of(0, found), DECODER);
        ReceiveBuffer buffer = new ReceiveBuffer(false);
        buffer.restore(40, batch.seen());
        messages.forEach(each -> each.addTo(buffer));
        assertEquals(List.of("40: 4/10", "43: 4/14"), returned(buffer));
        assertEquals(44, buffer.next());
        assertEquals(2, messages.stream().filter(Opening.Again::lost).count());
    }

    /** The next reader would take what came of it for another message, had it another name. */
    @Test
    void messagesKeepTheirNamesAlthoughTheTopicHasFurtherPartitionsNow() {
        KafkaBatchRecord batch = batch(new Run(0, 4, 10, 1, 0), new Run(0, 4, 11, 1, Run.BY_PLACE));
        RecordDecoder decoder = new RecordDecoder("s", new TopicWatch.Topic("id", 2));
        ReceiveBuffer buffer = new ReceiveBuffer(false);
        buffer.restore(40, batch.seen());
        Opening.again(batch, Map.of(0, records(4, 10, 11)), decoder).forEach(each -> each.addTo(buffer));
        List<Message> found = buffer.between(40, 42);
        assertNull(found.get(0).stamp());
        assertEquals(11, found.get(1).stamp().index());
    }

    @Test
    void recordsWithoutEpochsAreThoseOfTheirOffsets() {
        KafkaBatchRecord batch = batch(new Run(0, Epochs.UNKNOWN, 10, 4, 0));
        List<Opening.Again> messages = Opening.again(batch, Map.of(0, records(6, 10, 11, 12, 13)), DECODER);
        ReceiveBuffer buffer = new ReceiveBuffer(false);
        buffer.restore(40, batch.seen());
        messages.forEach(each -> each.addTo(buffer));
        assertEquals(List.of("40: 6/10", "41: 6/11", "42: 6/12", "43: 6/13"), returned(buffer));
        assertEquals(0, messages.stream().filter(Opening.Again::lost).count());
    }
}
