package io.speck.mqtt.failure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.BrokerException;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.SocketException;
import java.nio.charset.MalformedInputException;
import java.time.DateTimeException;
import java.util.List;
import java.util.concurrent.TimeoutException;
import java.util.zip.ZipException;
import org.junit.jupiter.api.Test;

/** The causes of errors, and the wait for other messages where an error is no proof. */
class BlameTest {
    /** As Jackson's, of which engines have copies in packages of their own. */
    private static final class JsonProcessingException extends IOException {
        private static final long serialVersionUID = 1L;
    }

    @Test
    void aMessageIsTheCauseOfErrorsThatDataRaise() {
        for (Exception each : List.of(new ArithmeticException("/ by zero"), new NumberFormatException("one"),
                new NullPointerException(), new IndexOutOfBoundsException(7), new DateTimeException("no day"),
                new MalformedInputException(1), new ZipException("not in gzip format"), new JsonProcessingException())) {
            assertEquals(Cause.MESSAGE, Blame.of(new RuntimeException("in a function", each)), each::toString);
        }
    }

    @Test
    void noMessageIsTheCauseOfErrorsFromElsewhere() {
        for (Throwable each : List.of(new BrokerException("gone", false), new InterruptedException(),
                new OutOfMemoryError(), new SocketException("Connection reset"), new EOFException(),
                new IOException("No space left on device"), new TimeoutException(), new NoClassDefFoundError("a/B"),
                new UncheckedIOException(new ConnectException("Connection refused")))) {
            assertEquals(Cause.ELSEWHERE, Blame.of(new RuntimeException(each)), each::toString);
        }
    }

    @Test
    void anErrorOfAnotherClassIsNoProof() {
        assertEquals(Cause.CODE, Blame.of(new RuntimeException(new IllegalStateException("no such street"))));
        assertEquals(Cause.CODE, Blame.of(new AssertionError("why")));
    }

    @Test
    void whatAnEngineRaisesWhileItWritesIsNotTheMessages() {
        RuntimeException network = new IllegalArgumentException("closed");
        network.setStackTrace(new StackTraceElement[] {
            new StackTraceElement("org.apache.flink.runtime.io.network.api.writer.RecordWriter", "emit", "R.java", 1)});
        assertEquals(Cause.ELSEWHERE, Blame.of(new RuntimeException(network)));
    }

    @Test
    void aCycleOfCausesIsSearchedOnce() {
        RuntimeException one = new RuntimeException("one");
        one.initCause(new RuntimeException("other", one));
        assertEquals(Cause.CODE, Blame.of(one));
    }

    @Test
    void theSameErrorComesFromTheSamePlace() {
        List<RuntimeException> errors = List.of(new IllegalStateException("1"), new IllegalStateException("2"));
        RuntimeException first = thrown("1");
        assertTrue(Blame.same(first, thrown("2")));
        assertFalse(Blame.same(first, errors.get(0)));
        assertFalse(Blame.same(first, new IllegalArgumentException("1")));
        assertEquals("IllegalStateException: no such street",
                Blame.reason(new RuntimeException(new IllegalStateException("no such\n street"))));
    }

    private static RuntimeException thrown(String text) {
        return new IllegalStateException(text);
    }

    @Test
    void suspectsAreTriedAgainInTheirOrder() {
        Suspects<String> suspects = new Suspects<>();
        assertTrue(suspects.add("a") && suspects.add("b"));
        assertEquals(List.of("a", "a", "b"), List.of(suspects.first(), suspects.removeFirst(), suspects.removeFirst()));
        assertTrue(suspects.isEmpty());
        suspects.add("alone");
        assertEquals(List.of("alone"), suspects.committing());
        assertEquals(List.of(), suspects.committing());
    }

    @Test
    void whereAllFailNoneIsTheCause() {
        Suspects<Integer> suspects = new Suspects<>();
        for (int i = 0; i < 20; i++) {
            assertTrue(suspects.add(i));
        }
        assertFalse(suspects.add(20));
        String fault = assertThrows(IllegalStateException.class, suspects::committing).getMessage();
        assertTrue(fault.contains("21 messages in a row"), fault);
    }
}
