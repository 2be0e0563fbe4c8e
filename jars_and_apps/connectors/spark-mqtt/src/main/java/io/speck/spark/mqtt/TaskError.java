package io.speck.spark.mqtt;

import io.speck.mqtt.failure.Blame;
import io.speck.mqtt.failure.Cause;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkThrowable;

/**
 * The error with which a task failed.
 *
 * @param cause what it comes from
 * @param inBatches true if it is a function's that gets rows in batches, ahead of its results
 * @param signature the same for the same error on the same message
 * @param reason the error in one line
 */
record TaskError(Cause cause, boolean inBatches, String signature, String reason) {
    /** SQLSTATE 22: data exception; P0001: raised by the query itself. */
    private static final List<String> DATA_STATES = List.of("22", "P0001");
    /** SQLSTATE 39000: a function of the query failed, for the cause attached. */
    private static final String FUNCTION_FAILED = "39000";
    private static final String GENERATED = "GeneratedClass$";

    static TaskError of(Throwable error) {
        PythonError python = PythonError.in(error);
        if (python != null) {
            return new TaskError(python.cause(), true, python.signature(), python.reason());
        }
        Throwable root = Blame.chain(error).get(Blame.chain(error).size() - 1);
        boolean inBatches = Blame.chain(error).stream()
                .anyMatch(each -> String.valueOf(each.getMessage()).contains("Python worker"));
        return new TaskError(cause(error, root), inBatches, root.getClass().getSimpleName(), Blame.reason(error));
    }

    private static Cause cause(Throwable error, Throwable root) {
        if (Blame.isElsewhere(error)) {
            return Cause.ELSEWHERE;
        }
        List<Throwable> chain = Blame.chain(error);
        if (chain.stream().anyMatch(TaskError::isDataException) || Blame.isOfData(root) && isInGeneratedCode(root)) {
            return Cause.MESSAGE;
        }
        boolean function = chain.stream().map(TaskError::state).anyMatch(FUNCTION_FAILED::equals);
        return function ? Blame.of(error) : Cause.ELSEWHERE;
    }

    private static boolean isDataException(Throwable error) {
        return DATA_STATES.stream().anyMatch(state(error)::startsWith);
    }

    private static String state(Throwable error) {
        String state = error instanceof SparkThrowable known ? known.getSqlState() : null;
        return state == null ? "" : state;
    }

    private static boolean isInGeneratedCode(Throwable error) {
        return Arrays.stream(error.getStackTrace()).anyMatch(frame -> frame.getClassName().contains(GENERATED));
    }
}
