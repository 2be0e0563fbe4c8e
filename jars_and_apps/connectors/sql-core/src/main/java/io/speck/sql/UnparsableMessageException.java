package io.speck.sql;

/** A message that does not fit the contract of its topic; the text is the reason, with column and value. */
public final class UnparsableMessageException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    UnparsableMessageException(String reason) {
        super(reason);
    }
}
