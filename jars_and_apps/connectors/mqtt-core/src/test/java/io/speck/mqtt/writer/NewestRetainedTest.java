package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The choice of the messages that are sent again to be retained. */
class NewestRetainedTest {
    private final NewestRetained newest = new NewestRetained();

    private OutgoingMessage added(String topic) {
        OutgoingMessage message = new OutgoingMessage(new Delivery(false, true), topic, new byte[] {'t'}, new byte[0], null,
                null, null);
        newest.add(message);
        return message;
    }

    @Test
    void eachIsRetainedWhenItIsSentFirstAndTheNewestWhenItIsSentAgain() {
        OutgoingMessage old = added("a");
        OutgoingMessage other = added("b");
        OutgoingMessage young = added("a");
        assertTrue(newest.retains(old) && newest.retains(young) && newest.retains(other));
        old.sentNanos = 1;
        young.sentNanos = 1;
        other.sentNanos = 1;
        assertFalse(newest.retains(old));
        assertTrue(newest.retains(young) && newest.retains(other));
    }

    @Test
    void othersAreNotRetained() {
        assertFalse(newest.retains(new OutgoingMessage(new Delivery(), "a", new byte[] {'a'}, new byte[0], null, null, null)));
    }
}
