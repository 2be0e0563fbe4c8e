package io.speck.kafka;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import java.util.Map;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.scram.ScramLoginModule;

/**
 * The options by which a client uses TLS and logs in. They hold the login itself and no secret: a client logs its
 * options, and files may be replaced while it runs.
 */
final class Security {
    /** An option of our own; clients pass those that they do not know to the classes that they create. */
    static final String LOGIN = "speck.login";

    private Security() {}

    /** @throws BrokerException if a file cannot be used */
    static void addTo(Map<String, Object> options, Login login) {
        boolean tls = login.address().tls();
        boolean sasl = login.username() != null;
        options.put(LOGIN, login);
        options.put(CommonClientConfigs.SECURITY_PROTOCOL_CONFIG, (sasl ? "SASL_" : "") + (tls ? "SSL" : "PLAINTEXT"));
        if (tls) {
            options.put(SslConfigs.SSL_ENGINE_FACTORY_CLASS_CONFIG, PemEngines.class);
            checkFiles(login);
        }
        if (sasl) {
            login.password(); // names a file that cannot be read
            boolean plain = login.mechanism().equals("PLAIN");
            Class<?> module = plain ? PlainLoginModule.class : ScramLoginModule.class;
            options.put(SaslConfigs.SASL_MECHANISM, login.mechanism());
            options.put(SaslConfigs.SASL_JAAS_CONFIG, module.getName() + " required;");
            options.put(SaslConfigs.SASL_CLIENT_CALLBACK_HANDLER_CLASS, LoginCallbacks.class);
        }
    }

    /** The client would find a fault of a file with its first connection, and connect again and again. */
    private static void checkFiles(Login login) {
        try {
            PemEngines.of(login, Map.of(), login.address().host(), login.address().port(), "https");
        } catch (KafkaException e) {
            throw new BrokerException("broker " + login + ": no TLS can be set up with caFile '" + login.tls().caFile()
                    + "', certificateFile '" + login.tls().certificateFile() + "' and keyFile '" + login.tls().keyFile()
                    + "': " + e.getMessage()
                    + " (expected PEM files: certificates, and a key as 'BEGIN PRIVATE KEY')", true);
        }
    }
}
