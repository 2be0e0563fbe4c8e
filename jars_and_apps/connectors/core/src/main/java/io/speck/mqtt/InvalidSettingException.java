package io.speck.mqtt;

/** A setting is invalid; the message names it, its value and the expected form. */
public final class InvalidSettingException extends MqttException {
    private static final long serialVersionUID = 1L;

    public InvalidSettingException(String message) {
        super(message);
    }

    public InvalidSettingException(String message, Throwable cause) {
        super(message, cause);
    }
}
