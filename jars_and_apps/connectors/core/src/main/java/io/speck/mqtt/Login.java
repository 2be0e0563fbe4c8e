package io.speck.mqtt;

import java.io.Serializable;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** The login at a broker: address, credentials, and trusted certificates. Its text form never shows the password. */
public final class Login implements Serializable {
    private static final long serialVersionUID = 2L;
    private static final String DEFAULT_SASL = "scram-sha-512";
    /** The protocol's names of the mechanisms of SASL by those of the settings. */
    static final Map<String, String> MECHANISMS = new TreeMap<>(
            Map.of(DEFAULT_SASL, "SCRAM-SHA-512", "scram-sha-256", "SCRAM-SHA-256", "plain", "PLAIN"));

    private final BrokerAddress address;
    private final String username;
    private final Password password;
    private final TlsFiles tls;
    /** Null for the default, as in a login that was stored before there were others. */
    private final String sasl;

    /** A login to a broker with MQTT, or by the default mechanism. */
    public Login(BrokerAddress address, String username, Password password, TlsFiles tls) {
        this(address, username, password, tls, null);
    }

    /**
     * @param username null for a client that is known by its certificate, or is anonymous
     * @param password null for none
     * @param sasl of {@link #MECHANISMS}; null for the default
     */
    public Login(BrokerAddress address, String username, Password password, TlsFiles tls, String sasl) {
        this.address = Objects.requireNonNull(address);
        this.username = username;
        this.password = password;
        this.tls = Objects.requireNonNull(tls);
        this.sasl = sasl;
    }

    public static Login anonymous(String address) {
        return new Login(BrokerAddress.parse(address), null, null, TlsFiles.NONE);
    }

    public BrokerAddress address() {
        return address;
    }

    public String username() {
        return username;
    }

    /** Returns the current password; null for none. See {@link Password#reveal}. */
    public byte[] password() {
        return password == null ? null : password.reveal(address);
    }

    /** The protocol's name of the mechanism of a login to a broker of Kafka. */
    public String mechanism() {
        return MECHANISMS.get(sasl == null ? DEFAULT_SASL : sasl);
    }

    public TlsFiles tls() {
        return tls;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Login that
                && address.equals(that.address)
                && Objects.equals(username, that.username)
                && Objects.equals(password, that.password)
                && tls.equals(that.tls)
                && Objects.equals(sasl, that.sasl);
    }

    @Override
    public int hashCode() {
        return Objects.hash(address, username, password, tls, sasl);
    }

    @Override
    public String toString() {
        return address.toString();
    }
}
