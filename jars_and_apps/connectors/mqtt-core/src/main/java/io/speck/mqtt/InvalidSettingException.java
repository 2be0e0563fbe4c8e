package io.speck.mqtt;

/** A setting that cannot be used; the message names it, its value and what would be right. */
public final class InvalidSettingException extends MqttException {
    private static final long serialVersionUID = 1L;

    public InvalidSettingException(String message) {
        super(message);
    }

    public InvalidSettingException(String message, Throwable cause) {
        super(message, cause);
    }
}
