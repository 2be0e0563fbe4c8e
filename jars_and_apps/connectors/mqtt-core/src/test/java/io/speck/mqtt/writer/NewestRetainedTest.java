package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
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
    void whatIsTakenOverIsOlderThanWhatThisProcessHasWritten() {
        OutgoingMessage own = added("a");
        own.sentNanos = 1;
        OutgoingMessage former = left("a");
        OutgoingMessage old = left("b");
        OutgoingMessage young = left("b");
        newest.takeOver(List.of(former, old, young));
        assertTrue(newest.retains(own) && newest.retains(young));
        assertFalse(newest.retains(former) || newest.retains(old));
    }

    private static OutgoingMessage left(String topic) {
        OutgoingMessage message =
                new OutgoingMessage(new Delivery(), topic, new byte[] {'t'}, new byte[0], null, null, null);
        message.retainNumber = -1;
        message.sentNanos = 1;
        return message;
    }

    @Test
    void othersAreNotRetained() {
        assertFalse(newest.retains(new OutgoingMessage(new Delivery(), "a", new byte[] {'a'}, new byte[0], null, null, null)));
    }
}
