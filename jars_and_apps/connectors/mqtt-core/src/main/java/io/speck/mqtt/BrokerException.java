package io.speck.mqtt;

/** The broker is out of reach, refuses the client, or refuses a message. */
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

    /** Whether the broker answered, and said no: trying again soon will not help. */
    public boolean refused() {
        return refused;
    }
}
