package io.speck.mqtt;

import java.util.function.Consumer;

/**
 * A login as a user writes it; any field may be null.
 *
 * @param broker the address
 * @param passwordFile path of a file with the password on the machine of the task, in place of {@code password}
 * @param tls PEM files on the machine of the task
 * @param sasl mechanism of a login to a broker of Kafka: scram-sha-512 (the default), scram-sha-256 or plain
 */
public record LoginFields(String broker, String username, String password, String passwordFile, TlsFiles tls, String sasl) {
    /** The fields of a login to a broker with MQTT, or by the default mechanism. */
    public LoginFields(String broker, String username, String password, String passwordFile, TlsFiles tls) {
        this(broker, username, password, passwordFile, tls, null);
    }

    /** Builds the login; passes each fault to {@code faults}, and returns null if there is any. */
    public Login login(Consumer<String> faults) {
        BrokerAddress address = address(faults);
        boolean valid = address != null;
        valid &= check(password == null && passwordFile == null || username != null, "a password without a username",
                faults);
        valid &= checkSasl(address, faults);
        valid &= check(password == null || passwordFile == null, "both a password and a password file", faults);
        valid &= check((tls.certificateFile() == null) == (tls.keyFile() == null),
                "a client certificate and its key belong together", faults);
        valid &= check(address == null || address.tls() || tls.none(),
                "certificates for a broker that is not asked for TLS (expected mqtts://HOST:PORT or kafkas://HOST:PORT)",
                faults);
        return valid ? new Login(address, username, secret(), tls, sasl) : null;
    }

    private boolean checkSasl(BrokerAddress address, Consumer<String> faults) {
        boolean kafka = address != null && address.kafka();
        boolean valid = check(sasl == null || address == null || kafka, "a SASL mechanism for a broker with MQTT (expected"
                + " none)", faults);
        valid &= check(sasl == null || Login.MECHANISMS.containsKey(sasl), "SASL mechanism '" + sasl + "' (expected one of "
                + String.join(", ", Login.MECHANISMS.keySet()) + ")", faults);
        valid &= check(sasl == null || username != null, "a SASL mechanism without a username", faults);
        valid &= check(!kafka || username == null || password != null || passwordFile != null,
                "a username without a password for a broker of Kafka", faults);
        return valid;
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
