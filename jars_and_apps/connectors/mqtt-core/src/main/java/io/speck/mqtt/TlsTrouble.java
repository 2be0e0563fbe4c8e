package io.speck.mqtt;

import io.netty.handler.ssl.NotSslRecordException;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import javax.net.ssl.SSLException;

/** Why a connection with TLS did not come about, in words that say what would be right. */
final class TlsTrouble {
    private TlsTrouble() {}

    /** The words for an error, or its own message when it has nothing to do with TLS. */
    static String words(BrokerAddress broker, Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            String found = one(broker, each);
            if (found != null) {
                return found;
            }
        }
        return error.getMessage();
    }

    private static String one(BrokerAddress broker, Throwable error) {
        String message = String.valueOf(error.getMessage());
        if (error instanceof NotSslRecordException) {
            return "it does not speak TLS (expected tcp:// for its address, or TLS there)";
        }
        if (error instanceof CertPathBuilderException) {
            return "its certificate is not trusted (expected one that caFile vouches for)";
        }
        if (error instanceof CertificateExpiredException) {
            return "its certificate has expired: " + message;
        }
        if (error instanceof CertificateNotYetValidException) {
            return "its certificate is not valid yet: " + message;
        }
        if (error instanceof CertificateException && (message.startsWith("No subject alternative")
                || message.startsWith("No name matching"))) {
            return "its certificate is not for '" + broker.host() + "': " + message;
        }
        return error instanceof SSLException ? alert(message) : null;
    }

    /** What a broker that ended the handshake has to say of us (RFC 8446, 6.2). */
    private static String alert(String message) {
        if (message.contains("certificate_required") || message.contains("handshake_failure")) {
            return "it demands a client certificate (expected certificateFile and keyFile)";
        }
        for (String word : new String[] {"certificate_expired", "unknown_ca", "bad_certificate", "certificate_unknown",
                "certificate_revoked"}) {
            if (message.contains("alert: " + word)) {
                return "it refuses our certificate (" + word.replace('_', ' ') + ")";
            }
        }
        return null;
    }
}
