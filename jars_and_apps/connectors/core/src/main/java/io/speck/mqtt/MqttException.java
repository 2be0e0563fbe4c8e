package io.speck.mqtt;

/**
 * The root of the exceptions of this library.
 *
 * <pre>
 * MqttException
 *   InvalidSettingException   an address, option or topic that cannot be used
 *   BrokerException           the broker is unreachable, or refuses
 *   DataLossException         the broker no longer holds messages that the reader needs
 *   TakenOverException        a newer attempt reads this session
 * </pre>
 *
 * No message holds a password.
 */
public class MqttException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public MqttException(String message) {
        super(message);
    }

    public MqttException(String message, Throwable cause) {
        super(message, cause);
    }
}
