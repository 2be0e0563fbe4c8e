package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Queue;
import org.junit.jupiter.api.Test;

/** Bounds the messages that were sent and are not acknowledged. */
class InflightWindowTest {
    private static final int MOST = 65_535;

    private final InflightWindow window = new InflightWindow();
    private final Queue<Integer> sent = new ArrayDeque<>();

    private static OutgoingMessage message(byte[] payload) {
        return new OutgoingMessage(new Delivery(), "t", "t".getBytes(StandardCharsets.UTF_8), payload, null, null, null);
    }

    /** Fills the window with messages of this size, which share their memory; returns their number. */
    private int fill(int bytes, int receiveMaximum) {
        byte[] payload = new byte[bytes];
        int before = sent.size();
        while (window.hasRoom(receiveMaximum)) {
            sent.add(window.add(message(payload)));
        }
        return sent.size() - before;
    }

    @Test
    void smallMessagesAreBoundedByTheirNumber() {
        assertEquals(20, fill(100, 20));
        assertEquals(980, fill(100, MOST));
    }

    /** A thousand of them would take a gigabyte, and more than the broker keeps for a session. */
    @Test
    void largeMessagesAreBoundedByTheirBytes() {
        assertEquals(8, fill(1 << 20, MOST));
        assertFalse(window.isLow());
        for (int acknowledged = 0; acknowledged < 5; acknowledged++) {
            window.remove(sent.remove());
        }
        assertTrue(window.isLow());
        assertEquals(5, fill(1 << 20, MOST));
        assertEquals(8, window.clear().size());
        assertEquals(8, fill(1 << 20, MOST));
    }

    @Test
    void aMessageThatIsLargerThanTheWindowIsSentAlone() {
        assertEquals(1, fill(9 << 20, MOST));
        window.remove(sent.remove());
        assertTrue(window.hasRoom(MOST));
    }
}
