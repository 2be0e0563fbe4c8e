package io.speck.mqtt;

/** The session belongs to another, newer reader: this one has ended for good. */
public final class TakenOverException extends MqttException {
    private static final long serialVersionUID = 1L;

    public TakenOverException(String message) {
        super(message);
    }
}
