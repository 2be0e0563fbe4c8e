package io.speck.mqtt;

import java.util.function.Consumer;

/**
 * A login as a user writes it; any field may be null.
 *
 * @param broker the address
 * @param passwordFile path of a file with the password on the machine of the task, in place of {@code password}
 * @param tls PEM files on the machine of the task
 */
public record LoginFields(String broker, String username, String password, String passwordFile, TlsFiles tls) {
    /** Builds the login; passes each fault to {@code faults}, and returns null if there is any. */
    public Login login(Consumer<String> faults) {
        BrokerAddress address = address(faults);
        boolean valid = address != null;
        valid &= check(password == null && passwordFile == null || username != null, "a password without a username",
                faults);
        valid &= check(address == null || !address.kafka() || username == null && tls.none(),
                "a login or certificates for a broker of Kafka (expected none)", faults);
        valid &= check(password == null || passwordFile == null, "both a password and a password file", faults);
        valid &= check((tls.certificateFile() == null) == (tls.keyFile() == null),
                "a client certificate and its key belong together", faults);
        valid &= check(address == null || address.tls() || address.kafka() || tls.none(),
                "certificates for a broker that is not asked for TLS (expected mqtts://HOST:PORT)", faults);
        return valid ? new Login(address, username, secret(), tls) : null;
    }

    private Password secret() {
        if (passwordFile != null) {
            return Password.in(passwordFile);
        }
        return password == null ? null : Password.of(password);
    }

    private BrokerAddress address(Consumer<String> faults) {
        if (broker == null || broker.isEmpty()) {
            return null; // reported where the name of the field is known
        }
        try {
            return BrokerAddress.parse(broker);
        } catch (InvalidSettingException e) {
            faults.accept(e.getMessage());
            return null;
        }
    }

    private static boolean check(boolean condition, String fault, Consumer<String> faults) {
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
