package io.speck.mqtt;

/** The broker is unreachable, or refuses the client or a message. */
public final class BrokerException extends MqttException {
    private static final long serialVersionUID = 1L;

    private final boolean refused;

    public BrokerException(String message, Throwable cause) {
        super(message, cause);
        this.refused = false;
    }

    public BrokerException(String message, boolean refused) {
        super(message);
        this.refused = refused;
    }

    /** True if the broker answered with a refusal, so that an early retry will not help. */
    public boolean refused() {
        return refused;
    }
}
