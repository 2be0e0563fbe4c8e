package io.speck.mqtt;

/** Bytes that are not text in UTF-8, or a text that has no form in UTF-8. */
public final class InvalidTextException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public InvalidTextException(String message) {
        super(message);
    }
}
