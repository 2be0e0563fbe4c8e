package io.speck.mqtt;

import java.io.Serializable;
import java.util.Objects;

/** How to reach a broker: its address, who we are there, and whom we trust. Never shows the password. */
public final class Login implements Serializable {
    private static final long serialVersionUID = 1L;

    private final BrokerAddress address;
    private final String username;
    private final String password;
    private final String caFile;

    /**
     * @param username null for an anonymous connection
     * @param password null for none
     * @param caFile path of a PEM file with the certificates to trust; null for those of the Java installation
     */
    public Login(BrokerAddress address, String username, String password, String caFile) {
        this.address = Objects.requireNonNull(address);
        this.username = username;
        this.password = password;
        this.caFile = caFile;
    }

    public static Login anonymous(String address) {
        return new Login(BrokerAddress.parse(address), null, null, null);
    }

    public BrokerAddress address() {
        return address;
    }

    String username() {
        return username;
    }

    String password() {
        return password;
    }

    String caFile() {
        return caFile;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Login that
                && address.equals(that.address)
                && Objects.equals(username, that.username)
                && Objects.equals(password, that.password)
                && Objects.equals(caFile, that.caFile);
    }

    @Override
    public int hashCode() {
        return Objects.hash(address, username, caFile);
    }

    @Override
    public String toString() {
        return address.toString();
    }
}
