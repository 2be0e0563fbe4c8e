package io.speck.mqtt.failure;

import io.speck.mqtt.MqttException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.List;

/** Tells errors of a job's own code, which a message may be the cause of, from those of an engine or a broker. */
public final class Blame {
    private static final int LONGEST_REASON = 500;
    private static final int DEEPEST = 50;
    /** Where an engine writes to a network or to its state: an error from there is not the message's. */
    private static final List<String> ENGINE_FRAMES = List.of("org.apache.flink.runtime.io.",
            "org.apache.flink.runtime.state.", "org.apache.flink.state.", "io.speck.mqtt.writer.", "io.speck.mqtt.net.");
    private static final List<String> ENGINE_ERRORS = List.of("CancelTaskException", "TaskKilledException",
            "FetchFailedException", "CommitDeniedException", "TaskCompletionListenerException");

    private Blame() {}

    /** True if the message may be the cause of the error: another try with it would fail as well. */
    public static boolean message(Throwable error) {
        Throwable each = error;
        for (int depth = 0; each != null && depth < DEEPEST; depth++) {
            if (each instanceof MqttException || each instanceof InterruptedException
                    || each instanceof InterruptedIOException || each instanceof ClosedByInterruptException
                    || each instanceof VirtualMachineError || ENGINE_ERRORS.contains(each.getClass().getSimpleName())) {
                return false;
            }
            each = each.getCause();
        }
        for (StackTraceElement frame : root(error).getStackTrace()) {
            if (ENGINE_FRAMES.stream().anyMatch(frame.getClassName()::startsWith)) {
                return false;
            }
        }
        return true;
    }

    static Throwable root(Throwable error) {
        Throwable each = error;
        for (int depth = 0; each.getCause() != null && depth < DEEPEST; depth++) {
            each = each.getCause();
        }
        return each;
    }

    /** The innermost error in one line. */
    public static String reason(Throwable error) {
        Throwable root = root(error);
        String message = root.getMessage() == null ? "" : ": " + root.getMessage();
        String text = (root.getClass().getSimpleName() + message).replaceAll("\\s+", " ").strip();
        return text.length() <= LONGEST_REASON ? text : text.substring(0, LONGEST_REASON - 3) + "...";
    }
}
