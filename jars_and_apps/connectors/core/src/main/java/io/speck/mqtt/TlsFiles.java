package io.speck.mqtt;

import java.io.Serializable;

/**
 * The PEM files of a connection with TLS, on the machine where it is made. They are read for each connection, so that
 * they may be replaced.
 *
 * @param caFile certificates of the authorities to trust; null for those of the Java installation
 * @param certificateFile the client's certificate, followed by the chain to its authority; null for none
 * @param keyFile the key of that certificate in PKCS#8, without a password; null for none
 */
public record TlsFiles(String caFile, String certificateFile, String keyFile) implements Serializable {
    public static final TlsFiles NONE = new TlsFiles(null, null, null);

    boolean none() {
        return caFile == null && certificateFile == null && keyFile == null;
    }
}
