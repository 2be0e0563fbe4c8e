package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Bounds the messages held for retransmission. */
class RetransmissionBufferTest {
    @Test
    void whatIsKeptIsBounded() {
        byte[] job = bytes("job");
        RetransmissionBuffer kept = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 10_000);
        for (int i = 0; i < 100; i++) {
            kept.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, job, bytes("r/0/0/" + i)), i);
        }
        kept.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, null, null), 100);
        assertEquals(100, kept.lastNumber(), "one without a stamp is not kept");
        List<OutgoingMessage> left = kept.remove(message -> true);
        assertTrue(left.size() > 10 && left.size() < 20, left.size() + " messages");
        assertEquals(100, left.get(left.size() - 1).deliveryNumber);
        kept.add(left.get(0), 200);
        kept.trim(200 + TimeUnit.SECONDS.toNanos(11));
        assertTrue(kept.isEmpty());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
