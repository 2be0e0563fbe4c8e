package io.speck.mqtt;

import java.io.Serializable;
import java.util.Objects;

/** The login at a broker: address, credentials, and trusted certificates. Its text form never shows the password. */
public final class Login implements Serializable {
    private static final long serialVersionUID = 2L;

    private final BrokerAddress address;
    private final String username;
    private final Password password;
    private final TlsFiles tls;

    /**
     * @param username null for a client that is known by its certificate, or is anonymous
     * @param password null for none
     */
    public Login(BrokerAddress address, String username, Password password, TlsFiles tls) {
        this.address = Objects.requireNonNull(address);
        this.username = username;
        this.password = password;
        this.tls = Objects.requireNonNull(tls);
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

    /** True if it must not be shown to another broker. */
    public boolean hasSecrets() {
        return username != null || password != null || tls.certificateFile() != null;
    }

    /** Returns the current password; null for none. See {@link Password#reveal}. */
    public byte[] password() {
        return password == null ? null : password.reveal(address);
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
                && tls.equals(that.tls);
    }

    @Override
    public int hashCode() {
        return Objects.hash(address, username, password, tls);
    }

    @Override
    public String toString() {
        return address.toString();
    }
}
