package io.speck.mqtt;

import java.util.function.Consumer;

/**
 * How to log in at a broker as a user writes it; anything may be null.
 *
 * @param broker the address
 * @param passwordFile where the password is, on the machine of the task, in place of {@code password}
 * @param tls PEM files on the machine of the task
 */
public record LoginFields(String broker, String username, String password, String passwordFile, TlsFiles tls) {
    /** The login, or null after {@code faults} has heard what is wrong. */
    public Login login(Consumer<String> faults) {
        BrokerAddress address = address(faults);
        boolean sound = address != null;
        sound &= right(password == null && passwordFile == null || username != null, "a password without a username",
                faults);
        sound &= right(password == null || passwordFile == null, "both a password and a password file", faults);
        sound &= right((tls.certificateFile() == null) == (tls.keyFile() == null),
                "a client certificate and its key belong together", faults);
        sound &= right(address == null || address.tls() || tls.none(),
                "certificates for a broker that is not asked for TLS (expected mqtts://HOST:PORT)", faults);
        return sound ? new Login(address, username, secret(), tls) : null;
    }

    private Password secret() {
        if (passwordFile != null) {
            return Password.in(passwordFile);
        }
        return password == null ? null : Password.of(password);
    }

    private BrokerAddress address(Consumer<String> faults) {
        if (broker == null || broker.isEmpty()) {
            return null; // said where the name of the field is known
        }
        try {
            return BrokerAddress.parse(broker);
        } catch (InvalidSettingException e) {
            faults.accept(e.getMessage());
            return null;
        }
    }

    private static boolean right(boolean condition, String fault, Consumer<String> faults) {
        if (!condition) {
            faults.accept(fault);
        }
        return condition;
    }

    @Override
    public String toString() {
        return "a login at " + broker;
    }
}
