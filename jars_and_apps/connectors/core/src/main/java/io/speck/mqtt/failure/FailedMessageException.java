package io.speck.mqtt.failure;

/**
 * The job's code failed on a message, which this names. Engines show the innermost cause only, so the cause is described
 * in the text, its place is this exception's, and it is attached as a suppressed one.
 */
public final class FailedMessageException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** @param message name of the message */
    public FailedMessageException(String message, Throwable cause) {
        super("on " + message + ": " + Blame.reason(cause));
        setStackTrace(Blame.root(cause).getStackTrace());
        addSuppressed(cause);
    }
}
