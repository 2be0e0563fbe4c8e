package io.speck.mqtt.reader;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Message;
import io.speck.mqtt.stamp.SeenStamps.Verdict;
import io.speck.mqtt.stamp.SeenStamps;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Encodes and decodes batch records. */
class BatchRecordTest {
    private static final KnownWriters WRITERS = KnownWriters.all().updated("{\"writers\": [\"j\"]}".getBytes(StandardCharsets.UTF_8), null);

    @Test
    void recordIsReadBack() throws IOException {
        SeenStamps seen = new SeenStamps(16);
        seen.add(new Stamp("j", "r", 0, 1, 5), 7);
        seen.add(new Stamp("j", "edge", 0, 0, 70, "0", 0xffffffffL), 9);
        List<Message> messages = List.of(Message.awaited(65535, -7, 1_000, false, true),
                Message.awaited(1, 8, 1_300, true, false), Message.awaited(2, 9, 1_299, false, true));
        byte[] bytes = new BatchRecord("c", "tcp://h:1", 10, 12, 3, messages, seen, WRITERS).encode();
        BatchRecord read = BatchRecord.decode(bytes);
        assertEquals(List.of("c", "tcp://h:1", 10L, 12L, 3),
                List.of(read.clientId(), read.broker(), read.start(), read.end(), read.partitions()));
        assertEquals(List.of(true, false, true), read.messages().stream().map(each -> each.believed).toList());
        assertEquals(Verdict.REPETITION, read.seen().add(new Stamp("j", "r", 0, 1, 5), 7));
        assertEquals(Verdict.COLLISION, read.seen().add(new Stamp("j", "r", 0, 1, 5), 8));
        assertEquals(Verdict.CHANGED, read.seen().add(new Stamp("j", "edge", 0, 0, 70, "0", 0xffffffffL), 10));
        assertEquals(Verdict.COLLISION, read.seen().add(new Stamp("j", "edge", 0, 0, 70, "0", 0), 11));
        assertTrue(read.writers().believes(new Stamp("j", "r", 0, 0, 0)));
        assertFalse(read.writers().believes(new Stamp("k", "r", 0, 0, 0)));
        assertEquals(3, read.messages().size());
        assertTrue(read.messages().get(0).same(messages.get(0)));
        assertTrue(read.messages().get(1).duplicate);
        assertEquals(1_300, read.messages().get(2).receivedMillis);
    }

    @Test
    void aRecordOfVersion1IsReadBack() throws IOException {
        byte[] bytes = HexFormat.of().parseHex("53504b4200000001f09edd07000163000c7463703a2f2f683a31383833000000000000000a000000000000000c0000000300"
                + "0000030000018bcfe56800fffffffffff900000100000008d904000200000009000000000200016a00017200000000000000"
                + "0000000001000000000000000500016b0003732f310000000200000000000000000000000000000009");
        BatchRecord read = BatchRecord.decode(bytes);
        assertEquals(List.of("c", "tcp://h:1883", 10L, 12L, 3),
                List.of(read.clientId(), read.broker(), read.start(), read.end(), read.partitions()));
        assertEquals(List.of(65535, 1, 2), read.messages().stream().map(each -> each.packetId).toList());
        assertEquals(2, read.seen().streams());
        assertEquals(Verdict.REPETITION, read.seen().add(new Stamp("k", "s/1", 2, 0, 9), 1));
        assertEquals(Verdict.REPETITION, read.seen().add(new Stamp("k", "s/1", 2, 0, 3), 1), "all below counts as seen");
        assertEquals(Verdict.NEW, read.seen().add(new Stamp("k", "s/1", 2, 0, 10), 1));
        assertTrue(read.writers().believes(new Stamp("k", "r", 0, 0, 0)));
        assertEquals(List.of(true, true, true), read.messages().stream().map(each -> each.believed).toList());
        BatchRecord again = BatchRecord.decode(read.encode());
        assertEquals(Verdict.REPETITION, again.seen().add(new Stamp("k", "s/1", 2, 0, 10), 1));
        assertEquals(Verdict.REPETITION, again.seen().add(new Stamp("k", "s/1", 2, 0, 9), 1));
    }

    @Test
    void aRecordOfVersion2IsReadBack() throws IOException {
        byte[] bytes = HexFormat.of().parseHex("53504b4200000002c7628e04000163000c7463703a2f2f683a31383833000000000000000a000000000000000c0000000300"
                + "00000200000000000003e8fffffffffff900000100000008b3090200016a000172000000000000ffffffffffffffffffffff"
                + "ffffffffff0105050000016a00046564676500000000000130ffffffffffffffffffffffffffffffff010146000401010500"
                + "0000070001000000080300460000000902010000000a0000000100016a");
        BatchRecord read = BatchRecord.decode(BatchRecord.decode(bytes).encode());
        assertEquals(List.of(true, false), read.messages().stream().map(each -> each.believed).toList());
        assertEquals(Verdict.REPETITION, read.seen().add(new Stamp("j", "r", 0, 1, 6), 8));
        assertEquals(Verdict.COLLISION, read.seen().add(new Stamp("j", "r", 0, 1, 5), 9));
        assertEquals(Verdict.REPETITION, read.seen().add(new Stamp("j", "edge", 0, 0, 70, "0"), 9));
        assertEquals(Verdict.CHANGED, read.seen().add(new Stamp("j", "edge", 0, 0, 71, "0", 5), 9), "of unknown origin");
        assertFalse(read.writers().believes(new Stamp("k", "r", 0, 0, 0)));
    }

    @Test
    void brokenRecordIsRefused() {
        byte[] bytes = new BatchRecord("c", "b", 0, 0, 1, List.of(), new SeenStamps(16), WRITERS).encode();
        bytes[bytes.length - 1] ^= 1;
        assertThrows(IOException.class, () -> BatchRecord.decode(bytes));
        assertThrows(IOException.class, () -> BatchRecord.decode(new byte[3]));
    }
}
