package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.failure.Cause;
import io.speck.spark.mqtt.FailedRanges.Range;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketException;
import java.util.List;
import org.apache.spark.SparkException;
import org.apache.spark.api.python.PythonException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The causes of errors with which Spark's tasks fail. */
class TaskErrorTest {
    private static final String TRACEBACK = "Traceback (most recent call last):\n  File \"/jobs.py\", line 7, in clean\n"
            + "    return streets[text]\n           ^^^^^^^^^^^^^\n";

    private static PythonException python(String raised) {
        return new PythonException("An exception was thrown from the Python worker:\n" + TRACEBACK + raised + "\n", null);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "KeyError: 'no such street' | MESSAGE",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) | MESSAGE",
        "pyspark.errors.exceptions.base.PySparkValueError: [INVALID] x | MESSAGE",
        "decimal.InvalidOperation | MESSAGE",
        "jobs.BadReading: poison | CODE",
        "RuntimeError: what | CODE",
        "NameError: name 'x' is not defined | CODE",
        "MemoryError | ELSEWHERE",
        "OSError: [Errno 28] No space left on device | ELSEWHERE",
        "ConnectionRefusedError: [Errno 111] Connection refused | ELSEWHERE",
        "urllib.error.URLError: <urlopen error timed out> | ELSEWHERE",
        "requests.exceptions.ReadTimeout: x | ELSEWHERE",
        "psycopg2.OperationalError: x | ELSEWHERE"})
    void aPythonErrorIsJudgedByTheExceptionThatTheFunctionRaised(String raised, Cause cause) {
        TaskError found = TaskError.of(new RuntimeException(python(raised)));
        assertEquals(cause, found.cause());
        assertTrue(found.inBatches());
        assertEquals(raised.strip(), found.reason());
    }

    @Test
    void aCauseInTheTracebacksCounts() {
        String outage = "ConnectionResetError: x\n\nDuring handling of the above exception, another exception occurred:\n\n"
                + TRACEBACK + "jobs.BadReading: x\n\nSQLSTATE: 38000";
        assertEquals(Cause.ELSEWHERE, TaskError.of(python(outage)).cause());
        String data = "ValueError: x\n\nThe above exception was the direct cause of the following exception:\n\n"
                + TRACEBACK + "jobs.BadReading: x";
        assertEquals(Cause.MESSAGE, TaskError.of(python(data)).cause());
        assertEquals("BadReading", TaskError.of(python(data)).signature());
    }

    @Test
    void theEndOfAWorkerAndAFullDiskAreNoMessages() {
        assertEquals(Cause.ELSEWHERE, TaskError.of(new SocketException("Connection reset")).cause());
        assertEquals(Cause.ELSEWHERE,
                TaskError.of(new SparkException("Python worker exited unexpectedly (crashed)", new EOFException())).cause());
        assertEquals(Cause.ELSEWHERE, TaskError.of(new IOException("No space left on device")).cause());
        assertEquals(Cause.ELSEWHERE, TaskError.of(new SparkException("Job aborted")).cause());
        assertEquals(Cause.ELSEWHERE, TaskError.of(new IllegalArgumentException("of Spark itself")).cause());
    }

    @Test
    void failuresWithTheSameErrorAreCountedAndSurviveARestart() {
        Range first = new Range(7, 7, "KeyError: 'a'", "KeyError", Cause.MESSAGE, List.of("run-1"));
        Range second = new Range(7, 7, "KeyError: 'b'", "KeyError", Cause.MESSAGE, List.of("run-2")).after(first, true);
        assertEquals(List.of("run-1", "run-2"), second.runs());
        assertEquals(second, Range.parse(7, 7, second.text()));
        Range other = new Range(7, 7, "TypeError: c", "TypeError", Cause.MESSAGE, List.of("run-3"));
        assertEquals(List.of("run-3"), other.after(second, true).runs());
        assertEquals(first, second.after(first, false)); // among other messages, as when Spark tries a task again
        Range range = new Range(1, 9, "KeyError: 'a'", "KeyError", Cause.CODE, List.of());
        assertEquals(range, Range.parse(1, 9, range.text()));
        assertFalse(range.isOne());
    }

    @Test
    void aRangeThatAFormerVersionNotedIsTriedAnew() {
        Range former = Range.parse(7, 7, "SocketException: Connection reset");
        assertEquals(List.of(), former.runs());
        assertEquals("SocketException: Connection reset", former.reason());
    }
}
