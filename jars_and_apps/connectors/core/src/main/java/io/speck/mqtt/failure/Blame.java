package io.speck.mqtt.failure;

import io.speck.mqtt.InvalidTextException;
import io.speck.mqtt.MqttException;
import java.io.IOException;
import java.io.UTFDataFormatException;
import java.net.MalformedURLException;
import java.net.URISyntaxException;
import java.nio.charset.CharacterCodingException;
import java.sql.SQLException;
import java.text.ParseException;
import java.time.DateTimeException;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeoutException;
import java.util.zip.DataFormatException;
import java.util.zip.ZipException;

/**
 * Finds the cause of errors that come while a job's code works on a message. A message is the cause only by proof: an
 * error of a class that data raise, in a chain of causes without any that comes from elsewhere. So an error of a class
 * that is not known leaves no message out.
 */
public final class Blame {
    private static final int LONGEST_REASON = 500;
    private static final int DEEPEST = 50;
    /** Packages by which an engine writes to a network or to its state: an error there is not the message's. */
    private static final List<String> ENGINE_FRAMES = List.of("org.apache.flink.runtime.io.",
            "org.apache.flink.runtime.state.", "org.apache.flink.state.", "io.speck.mqtt.writer.", "io.speck.mqtt.net.",
            "io.speck.kafka.", "io.speck.shaded.kafka.");
    private static final List<String> ENGINE_ERRORS = List.of("CancelTaskException", "TaskKilledException",
            "FetchFailedException", "CommitDeniedException", "TaskCompletionListenerException");
    /** Raised by data, though some of them are subclasses of {@link IOException}. */
    private static final List<Class<? extends Exception>> OF_DATA = List.of(ArithmeticException.class,
            ArrayStoreException.class, ClassCastException.class, IllegalArgumentException.class,
            IndexOutOfBoundsException.class, NegativeArraySizeException.class, NullPointerException.class,
            DateTimeException.class, NoSuchElementException.class, ParseException.class, URISyntaxException.class,
            DataFormatException.class, CharacterCodingException.class, MalformedURLException.class,
            UTFDataFormatException.class, ZipException.class, InvalidTextException.class);
    /** The same of libraries, by the simple names of their base classes: an engine may have a copy in its own package. */
    private static final List<String> OF_DATA_IN_LIBRARIES = List.of("JacksonException", "JsonProcessingException",
            "JsonParseException", "InvalidProtocolBufferException", "AvroRuntimeException");

    private Blame() {}

    /** Returns the cause of an error that the job's own code raised, in the task's process. */
    public static Cause of(Throwable error) {
        if (isElsewhere(error)) {
            return Cause.ELSEWHERE;
        }
        return isOfData(root(error)) ? Cause.MESSAGE : Cause.CODE;
    }

    /** True if an error, or one of its causes, certainly comes from elsewhere than a message. */
    public static boolean isElsewhere(Throwable error) {
        if (chain(error).stream().anyMatch(Blame::isElsewhereItself)) {
            return true;
        }
        for (StackTraceElement frame : root(error).getStackTrace()) {
            if (ENGINE_FRAMES.stream().anyMatch(frame.getClassName()::startsWith)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isElsewhereItself(Throwable error) {
        return error instanceof MqttException || error instanceof InterruptedException
                || error instanceof IOException && !isOfData(error) || error instanceof SQLException
                || error instanceof TimeoutException || error instanceof VirtualMachineError
                || error instanceof LinkageError || ENGINE_ERRORS.contains(error.getClass().getSimpleName());
    }

    /** True if only data raise errors of this class. */
    public static boolean isOfData(Throwable error) {
        if (OF_DATA.stream().anyMatch(each -> each.isInstance(error))) {
            return true;
        }
        for (Class<?> each = error.getClass(); each != null; each = each.getSuperclass()) {
            if (OF_DATA_IN_LIBRARIES.contains(each.getSimpleName())) {
                return true;
            }
        }
        return false;
    }

    /** Returns an error and its causes. */
    public static List<Throwable> chain(Throwable error) {
        List<Throwable> chain = new ArrayList<>();
        for (Throwable each = error; each != null && chain.size() < DEEPEST; each = each.getCause()) {
            chain.add(each);
        }
        return chain;
    }

    static Throwable root(Throwable error) {
        List<Throwable> chain = chain(error);
        return chain.get(chain.size() - 1);
    }

    /** The innermost error in one line. */
    public static String reason(Throwable error) {
        Throwable root = root(error);
        return line(root.getClass().getSimpleName() + (root.getMessage() == null ? "" : ": " + root.getMessage()));
    }

    /** Returns a text as one line of limited length. */
    public static String line(String text) {
        String line = text.replaceAll("\\s+", " ").strip();
        return line.length() <= LONGEST_REASON ? line : line.substring(0, LONGEST_REASON - 3) + "...";
    }

    /** True if two errors are of the same class, at the same place of the code as far as Java notes it. */
    public static boolean same(Throwable one, Throwable other) {
        Throwable first = root(one);
        Throwable second = root(other);
        StackTraceElement[] frames = first.getStackTrace();
        StackTraceElement[] others = second.getStackTrace();
        return first.getClass() == second.getClass()
                && (frames.length == 0 || others.length == 0 || frames[0].equals(others[0]));
    }
}
