package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The search for a message at which a broker closes the connection. */
class CautiousSendingTest {
    private static final long LONG_LIFE = TimeUnit.SECONDS.toNanos(6);
    private static final long PROOF = TimeUnit.MILLISECONDS.toNanos(CautiousSending.PROOF_MILLIS);

    private final CautiousSending caution = new CautiousSending();
    private final OutgoingMessage first = message();
    private final OutgoingMessage second = message();

    private static OutgoingMessage message() {
        return new OutgoingMessage(new Delivery(), "t", new byte[] {'t'}, new byte[0], null, null, null);
    }

    private OutgoingMessage closedSoon(OutgoingMessage... unanswered) {
        caution.opened(0);
        return caution.closed(List.of(unanswered), 1);
    }

    @Test
    void aMessageAtWhichTheConnectionEndsThreeTimesAloneIsTheCause() {
        assertEquals(1000, caution.window(1000, first));
        assertNull(closedSoon(first, second));
        assertEquals(1, caution.window(1000, first));
        assertNull(closedSoon(first));
        assertNull(closedSoon(first));
        assertSame(first, closedSoon(first));
        assertEquals(1000, caution.window(1000, first));
    }

    /** A broker that is killed soon after each start ends connections without any message, too. */
    @Test
    void aMessageAtWhichTheConnectionEndedWaitsUntilTheNextOneHasLasted() {
        assertFalse(caution.opened(0));
        closedSoon(first, second);
        closedSoon(first);
        assertTrue(caution.opened(0));
        assertEquals(List.of(0, 1), List.of(caution.window(1000, first), caution.window(1000, second)));
        assertFalse(caution.pinged(PROOF - 1));
        assertEquals(0, caution.window(1000, first));
        assertTrue(caution.pinged(PROOF));
        assertEquals(1, caution.window(1000, first));
        assertFalse(caution.pinged(2 * PROOF));
        assertNull(caution.closed(List.of(first), LONG_LIFE), "soon after the proof");
        assertTrue(caution.opened(0));
        assertNull(caution.closed(List.of(), 1), "without the message");
        assertEquals(1000, caution.window(1000, first));
    }

    @Test
    void aMessageThatIsAnsweredIsNoSuspect() {
        closedSoon(first, second);
        closedSoon(first);
        caution.answered(first);
        assertFalse(caution.opened(0));
        assertNull(closedSoon(first, second));
        assertNull(closedSoon(first));
        assertNull(closedSoon(first));
    }

    @Test
    void manyAreSentAgainOnceAllAreAnswered() {
        closedSoon(first, second);
        caution.answered(first);
        caution.answered(first);
        caution.answered(message()); // one that was acknowledged before, and sent again
        assertEquals(1, caution.window(1000, first));
        caution.answered(second);
        assertEquals(1000, caution.window(1000, first));
    }

    @Test
    void messagesOfAWriterThatGaveUpAreNotAwaited() {
        closedSoon(first, second);
        caution.drop(first.delivery);
        assertEquals(1, caution.window(1000, first));
        caution.drop(second.delivery);
        assertEquals(1000, caution.window(1000, first));
    }

    @Test
    void differentMessagesAndLongConnectionsAreNoProof() {
        closedSoon(first, second);
        for (int i = 0; i < 5; i++) {
            assertNull(closedSoon(first));
            assertNull(closedSoon(second));
        }
        for (int i = 0; i < 5; i++) {
            caution.opened(0);
            assertNull(caution.closed(List.of(first), LONG_LIFE));
        }
        assertNull(closedSoon());
    }
}
