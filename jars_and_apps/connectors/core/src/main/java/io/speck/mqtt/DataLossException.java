package io.speck.mqtt;

/** The broker no longer holds messages that the reader still needs. */
public final class DataLossException extends MqttException {
    private static final long serialVersionUID = 1L;

    public DataLossException(String message) {
        super(message);
    }
}
