package io.speck.mqtt.net;

import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.TlsFiles;
import java.io.File;
import java.util.function.Consumer;
import javax.net.ssl.SSLException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Builds netty's TLS context from PEM files, which are read anew for each connection. */
final class TlsContexts {
    private static final Logger LOG = LoggerFactory.getLogger(TlsContexts.class);

    private TlsContexts() {}

    /** @throws BrokerException if a file cannot be used */
    static SslContext of(TlsFiles files, BrokerAddress broker) {
        SslContextBuilder builder = SslContextBuilder.forClient();
        if (files.caFile() != null) {
            read(broker, "caFile '" + files.caFile() + "' cannot be used (expected a PEM file with certificates)",
                    each -> each.trustManager(new File(files.caFile())), builder);
        }
        if (files.certificateFile() != null) {
            read(broker, "certificateFile '" + files.certificateFile() + "' with keyFile '" + files.keyFile()
                    + "' cannot be used (expected PEM files: a certificate, and its key as 'BEGIN PRIVATE KEY')",
                    each -> each.keyManager(new File(files.certificateFile()), new File(files.keyFile())), builder);
        }
        try {
            return builder.build();
        } catch (SSLException | IllegalArgumentException e) {
            throw new BrokerException("broker " + broker + ": no TLS can be set up: " + e.getMessage(), true);
        }
    }

    private static void read(BrokerAddress broker, String fault, Consumer<SslContextBuilder> step,
            SslContextBuilder builder) {
        try {
            step.accept(builder);
        } catch (IllegalArgumentException e) {
            LOG.debug("broker {}", broker, e);
            throw new BrokerException("broker " + broker + ": " + fault, true);
        }
    }
}
