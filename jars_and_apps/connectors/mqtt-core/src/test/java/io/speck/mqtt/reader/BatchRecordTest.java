package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.stamp.DedupWatermarks;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Encodes and decodes batch records. */
class BatchRecordTest {
    @Test
    void recordIsReadBack() throws IOException {
        DedupWatermarks marks = new DedupWatermarks();
        marks.advance(new Stamp("j", "r", 0, 1, 5));
        List<Message> messages = List.of(Message.awaited(65535, -7, 1_000, false),
                Message.awaited(1, 8, 1_300, true), Message.awaited(2, 9, 1_299, false));
        byte[] bytes = new BatchRecord("c", "tcp://h:1", 10, 12, 3, messages, marks).encode();
        BatchRecord read = BatchRecord.decode(bytes);
        assertEquals(List.of("c", "tcp://h:1", 10L, 12L, 3, marks),
                List.of(read.clientId(), read.broker(), read.start(), read.end(), read.partitions(), read.marks()));
        assertEquals(3, read.messages().size());
        assertTrue(read.messages().get(0).same(messages.get(0)));
        assertTrue(read.messages().get(1).duplicate);
        assertEquals(1_300, read.messages().get(2).receivedMillis);
    }

    @Test
    void aStoredRecordIsReadBack() throws IOException {
        byte[] bytes = HexFormat.of().parseHex("53504b4200000001f09edd07000163000c7463703a2f2f683a31383833000000000000000a000000000000000c0000000300"
                + "0000030000018bcfe56800fffffffffff900000100000008d904000200000009000000000200016a00017200000000000000"
                + "0000000001000000000000000500016b0003732f310000000200000000000000000000000000000009");
        BatchRecord read = BatchRecord.decode(bytes);
        assertEquals(List.of("c", "tcp://h:1883", 10L, 12L, 3),
                List.of(read.clientId(), read.broker(), read.start(), read.end(), read.partitions()));
        assertEquals(List.of(65535, 1, 2), read.messages().stream().map(each -> each.packetId).toList());
        assertEquals(2, read.marks().size());
        assertFalse(read.marks().advance(new Stamp("k", "s/1", 2, 0, 9)));
        assertArrayEquals(bytes, read.encode());
    }

    @Test
    void brokenRecordIsRefused() {
        byte[] bytes = new BatchRecord("c", "b", 0, 0, 1, List.of(), new DedupWatermarks()).encode();
        bytes[bytes.length - 1] ^= 1;
        assertThrows(IOException.class, () -> BatchRecord.decode(bytes));
        assertThrows(IOException.class, () -> BatchRecord.decode(new byte[3]));
    }
}
