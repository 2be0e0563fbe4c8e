package io.speck.mqtt;

import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.io.Serializable;
import java.util.function.Consumer;
import javax.net.ssl.SSLException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The PEM files of a connection with TLS, on the machine where it is made. They are read for each connection, so that
 * they may be replaced.
 *
 * @param caFile certificates of the authorities to trust; null for those of the Java installation
 * @param certificateFile our certificate, with what leads from it to its authority behind it; null for none
 * @param keyFile its key in PKCS#8, without a password; null for none
 */
public record TlsFiles(String caFile, String certificateFile, String keyFile) implements Serializable {
    private static final Logger LOG = LoggerFactory.getLogger(TlsFiles.class);

    public static final TlsFiles NONE = new TlsFiles(null, null, null);

    boolean none() {
        return caFile == null && certificateFile == null && keyFile == null;
    }

    /** @throws BrokerException when a file cannot be used */
    SslContext context(BrokerAddress broker) {
        SslContextBuilder builder = SslContextBuilder.forClient();
        if (caFile != null) {
            read(broker, "caFile '" + caFile + "' cannot be used (expected a PEM file with certificates)",
                    each -> each.trustManager(new File(caFile)), builder);
        }
        if (certificateFile != null) {
            read(broker, "certificateFile '" + certificateFile + "' with keyFile '" + keyFile + "' cannot be used"
                    + " (expected PEM files: a certificate, and its key as 'BEGIN PRIVATE KEY')",
                    each -> each.keyManager(new File(certificateFile), new File(keyFile)), builder);
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
