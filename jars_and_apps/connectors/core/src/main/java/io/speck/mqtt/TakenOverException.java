package io.speck.mqtt;

/** A newer reader has taken the session over; this one has ended for good. */
public final class TakenOverException extends MqttException {
    private static final long serialVersionUID = 1L;

    public TakenOverException(String message) {
        super(message);
    }
}
