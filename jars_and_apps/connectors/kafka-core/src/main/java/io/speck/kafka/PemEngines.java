package io.speck.kafka;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.TlsFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLEngine;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.auth.SslEngineFactory;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/** TLS of a client by PEM files, which are read anew for each connection; created by the client. */
public final class PemEngines implements SslEngineFactory {
    private static final String PEM = "PEM";

    private Map<String, ?> configs = Map.of();
    private Login login;

    @Override
    public void configure(Map<String, ?> options) {
        configs = options;
        login = (Login) options.get(Security.LOGIN);
    }

    @Override
    public SSLEngine createClientSslEngine(String host, int port, String identification) {
        return of(login, configs, host, port, identification);
    }

    /**
     * Creates an engine.
     *
     * @throws BrokerException if a file cannot be read
     * @throws org.apache.kafka.common.KafkaException if its content cannot be used
     */
    static SSLEngine of(Login login, Map<String, ?> configs, String host, int port, String identification) {
        ConfigDef defaults = new ConfigDef();
        SslConfigs.addClientSslSupport(defaults);
        Map<String, Object> options = new HashMap<>(defaults.defaultValues());
        options.putAll(configs);
        TlsFiles files = login.tls();
        if (files.caFile() != null) {
            options.put(SslConfigs.SSL_TRUSTSTORE_TYPE_CONFIG, PEM);
            options.put(SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG, content(login, "caFile", files.caFile()));
        }
        if (files.certificateFile() != null) {
            options.put(SslConfigs.SSL_KEYSTORE_TYPE_CONFIG, PEM);
            options.put(SslConfigs.SSL_KEYSTORE_CERTIFICATE_CHAIN_CONFIG,
                    content(login, "certificateFile", files.certificateFile()));
            options.put(SslConfigs.SSL_KEYSTORE_KEY_CONFIG, content(login, "keyFile", files.keyFile()));
        }
        try (DefaultSslEngineFactory engines = new DefaultSslEngineFactory()) {
            engines.configure(options);
            return engines.createClientSslEngine(host, port, identification);
        }
    }

    private static Password content(Login login, String name, String file) {
        try {
            return new Password(Files.readString(Path.of(file)));
        } catch (IOException | RuntimeException e) {
            throw new BrokerException("broker " + login + ": " + name + " '" + file
                    + "' cannot be read (expected a PEM file on the machine of the task)", true);
        }
    }

    @Override
    public SSLEngine createServerSslEngine(String host, int port) {
        throw new UnsupportedOperationException("a client has no engine of a server");
    }

    @Override
    public boolean shouldBeRebuilt(Map<String, Object> options) {
        return false;
    }

    @Override
    public Set<String> reconfigurableConfigs() {
        return Set.of();
    }

    @Override
    public KeyStore keystore() {
        return null;
    }

    @Override
    public KeyStore truststore() {
        return null;
    }

    @Override
    public void close() {}
}
