package io.speck.mqtt.failure;

/** The job's code failed on a message, which this names. */
public final class FailedMessageException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** @param message name of the message */
    public FailedMessageException(String message, Throwable cause) {
        super("on " + message + ": " + Blame.reason(cause), cause);
    }
}
