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
    void theBufferIsBoundedInTimeAndMemory() {
        byte[] job = bytes("job");
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 10_000);
        for (int i = 0; i < 100; i++) {
            buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, job, bytes("r/0/0/" + i)), i);
        }
        buffer.add(new OutgoingMessage(null, "t", bytes("t"), new byte[300], null, null, null), 100);
        assertEquals(100, buffer.lastNumber(), "a message without a stamp is not held");
        List<OutgoingMessage> held = buffer.remove(message -> true);
        assertTrue(held.size() > 10 && held.size() < 20, held.size() + " messages");
        assertEquals(100, held.get(held.size() - 1).deliveryNumber);
        buffer.add(held.get(0), 200);
        buffer.trim(200 + TimeUnit.SECONDS.toNanos(11));
        assertTrue(buffer.isEmpty());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
