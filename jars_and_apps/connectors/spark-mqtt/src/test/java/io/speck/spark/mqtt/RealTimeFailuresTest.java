package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Received;
import io.speck.mqtt.failure.LeftOut;
import io.speck.mqtt.failure.OnError;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkThrowable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The messages that a real-time query leaves out, by the failures of its earlier runs. */
class RealTimeFailuresTest {
    @TempDir
    Path folder;
    private LeftOut leftOut;
    private long nanos;

    @BeforeEach
    void start() {
        nanos = 0;
    }

    /** The failures as the next run of the query knows them. */
    private RealTimeFailures run() {
        leftOut = new LeftOut(OnError.of("skip", null, "job"), null);
        FailedRanges files = FailedRanges.in(folder.toString(), new Configuration());
        return new RealTimeFailures(files, leftOut, each -> each.topic().equals("fault") ? "no text" : null, () -> nanos);
    }

    private static Received message(long offset, String text) {
        return new Received("in", text.getBytes(StandardCharsets.UTF_8), null, 0, null, offset, 0);
    }

    /** An error of Spark with an SQLSTATE. */
    private static class StateError extends RuntimeException implements SparkThrowable {
        private static final long serialVersionUID = 1L;
        private final String state;

        StateError(String state, Throwable cause) {
            super("of state " + state, cause);
            this.state = state;
        }

        @Override
        public String getCondition() {
            return "TEST";
        }

        @Override
        public String getSqlState() {
            return state;
        }
    }

    private static final class OtherError extends StateError {
        private static final long serialVersionUID = 1L;

        OtherError(String state) {
            super(state, null);
        }
    }

    /** An error that only data raise. */
    private static Throwable ofData() {
        return new StateError("22012", null);
    }

    /** An error that a function of the query raised, as it may for a service that is away. */
    private static Throwable ofCode() {
        return new StateError("39000", new IllegalStateException("no answer"));
    }

    private void fails(Received message, Throwable error) throws Exception {
        RealTimeFailures run = run();
        assertTrue(run.admits(message));
        run.failed(message, error);
    }

    /** A run that works on the deferred message after a second without others, and fails. */
    private void failsAlone(Received message) throws Exception {
        RealTimeFailures run = run();
        assertFalse(run.admits(message));
        assertNull(run.triedAgain());
        nanos += 1_000_000_000L;
        assertSame(message, run.triedAgain());
        run.failed(message, ofCode());
    }

    @Test
    void aMessageIsLeftOutOnceItFailedTwiceWithTheSameErrorOfData() throws Exception {
        fails(message(7, "bad"), ofData());
        fails(message(7, "bad"), ofData());
        RealTimeFailures run = run();
        assertTrue(run.admits(message(6, "good")));
        assertFalse(run.admits(message(7, "bad")));
        assertTrue(run.admits(message(8, "good")));
        run.flush();
        assertEquals(1, leftOut.skipped());
    }

    @Test
    void aMessageIsKnownUnderAnotherOffsetAndNotItsNeighbour() throws Exception {
        fails(message(7, "bad"), ofData());
        fails(message(9, "bad"), ofData());
        RealTimeFailures run = run();
        assertTrue(run.admits(message(7, "good")));
        assertFalse(run.admits(message(8, "bad")));
    }

    @Test
    void anotherErrorBeginsTheCountAnew() throws Exception {
        fails(message(7, "bad"), ofData());
        fails(message(7, "bad"), new OtherError("22003"));
        assertTrue(run().admits(message(7, "bad")));
    }

    @Test
    void anErrorFromElsewhereLeavesNothingOut() throws Exception {
        for (int i = 0; i < 3; i++) {
            fails(message(7, "bad"), new BrokerException("no connection", false));
            fails(message(7, "bad"), new IOException("no space left"));
        }
        assertTrue(run().admits(message(7, "bad")));
    }

    @Test
    void anErrorOfTheCodesOwnNeedsAnotherMessageThatPassed() throws Exception {
        fails(message(7, "bad"), ofCode());
        RealTimeFailures run = run();
        assertFalse(run.admits(message(7, "bad")));
        assertTrue(run.admits(message(8, "good")));
        nanos += 5_000_000_000L; // while a task works on the other one
        assertNull(run.triedAgain());
        assertThrows(IllegalStateException.class, run::flush);
        run.passed();
        Received again = run.triedAgain();
        assertEquals(7, again.offset());
        run.failed(again, ofCode());
        assertFalse(run().admits(message(7, "bad")));
        assertEquals(1, leftOut.skipped());
    }

    @Test
    void aMessageThatPassedBeforeTheFirstFailureIsNoProof() throws Exception {
        RealTimeFailures first = run();
        assertTrue(first.admits(message(6, "good")));
        first.passed();
        assertTrue(first.admits(message(7, "other")));
        first.failed(message(7, "other"), ofCode()); // the service goes away
        failsAlone(message(7, "other"));
        RealTimeFailures run = run();
        assertFalse(run.admits(message(7, "other")));
        assertTrue(run.hasDeferred());
        assertEquals(0, leftOut.skipped());
    }

    @Test
    void aSingleMessageWithAnErrorOfTheCodesOwnIsLeftOutWithoutOthers() throws Exception {
        fails(message(7, "bad"), ofCode());
        failsAlone(message(7, "bad"));
        RealTimeFailures run = run();
        assertFalse(run.admits(message(7, "bad")));
        nanos += 1_000_000_000L;
        assertNull(run.triedAgain());
        assertFalse(run.hasDeferred());
        assertEquals(1, leftOut.skipped());
    }

    @Test
    void severalMessagesThatFailAndNoneThatPassesAreNotLeftOut() throws Exception {
        fails(message(7, "one"), ofCode());
        RealTimeFailures both = run();
        assertFalse(both.admits(message(7, "one")));
        assertTrue(both.admits(message(8, "two")));
        both.failed(message(8, "two"), ofCode());
        for (int i = 0; i < 4; i++) {
            RealTimeFailures run = run();
            assertFalse(run.admits(message(7, "one")));
            assertFalse(run.admits(message(8, "two")));
            nanos += 1_000_000_000L;
            Received tried = run.triedAgain();
            run.failed(tried, ofCode());
            assertEquals(0, leftOut.skipped());
        }
    }

    @Test
    void whatIsCommittedIsForgotten() throws Exception {
        fails(message(7, "bad"), ofData());
        fails(message(7, "bad"), ofData());
        RealTimeFailures run = run();
        run.committed(7);
        assertFalse(run.admits(message(7, "bad")));
        run.committed(8);
        assertTrue(run.admits(message(8, "bad")));
        assertTrue(run().admits(message(8, "bad")));
    }

    @Test
    void aFaultLeavesAMessageOutAtOnce() throws Exception {
        RealTimeFailures run = run();
        assertFalse(run.admits(new Received("fault", new byte[] {-1}, null, 0, null, 3, 0)));
        assertEquals(1, leftOut.skipped());
    }

    @Test
    void aFileThatAKilledProcessLeftCountsForNothing() throws Exception {
        fails(message(7, "bad"), ofData());
        try (var files = Files.list(folder.resolve("mqtt-failures"))) {
            for (Path file : files.filter(each -> !each.getFileName().toString().startsWith(".")).toList()) {
                Files.writeString(file, Files.readString(file).substring(0, 5));
            }
        }
        assertTrue(run().admits(message(7, "bad")));
    }
}
