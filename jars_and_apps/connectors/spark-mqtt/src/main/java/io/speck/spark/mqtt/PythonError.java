package io.speck.spark.mqtt;

import io.speck.mqtt.failure.Blame;
import io.speck.mqtt.failure.Cause;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * An error of a Python function, by the text in which its worker reports it: one or more tracebacks.
 *
 * @param types simple names of the exceptions in the text, the one that the function raised last
 * @param reason that one with its message, in one line
 */
record PythonError(List<String> types, String reason) {
    private static final String RAISED = "org.apache.spark.api.python.PythonException";
    private static final String TRACEBACK = "Traceback (most recent call last)";
    private static final Pattern EXCEPTION = Pattern.compile("^(?:[A-Za-z_]\\w*\\.)*([A-Za-z_]\\w*)(:\\s.*)?$",
            Pattern.MULTILINE);
    /** Raised for want of memory or room, by the network, or when the worker is ended; and their names in libraries. */
    private static final Pattern ELSEWHERE = Pattern.compile("MemoryError|OSError|IOError|EOFError|BrokenPipeError|SSLError"
            + "|gaierror|herror|URLError|HTTPError|KeyboardInterrupt|SystemExit|.*(?:Connection|Connect|Network|Proxy"
            + "|Timeout|Operational|Interface|Interrupted|Unavailable|BlockingIO|ChildProcess|Permission|FileNotFound)"
            + "\\w*|timeout");
    /** Raised by data alone. */
    private static final Set<String> OF_DATA = Set.of("ValueError", "UnicodeError", "UnicodeDecodeError",
            "UnicodeEncodeError", "JSONDecodeError", "TypeError", "AttributeError", "KeyError", "IndexError", "LookupError",
            "ArithmeticError", "ZeroDivisionError", "OverflowError", "FloatingPointError", "InvalidOperation",
            "DivisionByZero", "ConversionSyntax", "ArrowInvalid", "ArrowTypeError", "BadGzipFile", "StopIteration",
            "RecursionError", "DecodeError", "ParseError", "OutOfBoundsDatetime", "DateParseError");

    /** Returns the error that a worker reported; null if another one ended the task, as the end of the worker itself. */
    static PythonError in(Throwable error) {
        for (Throwable each : Blame.chain(error)) {
            if (each.getClass().getName().equals(RAISED)) {
                return of(String.valueOf(each.getMessage()));
            }
        }
        return null;
    }

    static PythonError of(String report) {
        int from = report.indexOf(TRACEBACK);
        List<String> types = new ArrayList<>();
        String last = "";
        Matcher each = EXCEPTION.matcher(from < 0 ? report : report.substring(from));
        while (each.find()) {
            if (!each.group(1).equals("SQLSTATE")) {
                types.add(each.group(1).replaceFirst("^PySpark(?=.*Error)", ""));
                last = each.group();
            }
        }
        return new PythonError(types, Blame.line(last.isEmpty() ? report : last));
    }

    Cause cause() {
        if (types.isEmpty() || types.stream().anyMatch(each -> ELSEWHERE.matcher(each).matches())) {
            return Cause.ELSEWHERE;
        }
        return types.stream().anyMatch(OF_DATA::contains) ? Cause.MESSAGE : Cause.CODE;
    }

    /** The exception that the function raised, without its message. */
    String signature() {
        return types.isEmpty() ? "" : types.get(types.size() - 1);
    }
}
