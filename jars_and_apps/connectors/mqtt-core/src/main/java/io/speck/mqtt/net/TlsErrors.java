package io.speck.mqtt.net;

import io.netty.handler.ssl.NotSslRecordException;
import io.speck.mqtt.Login;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import javax.net.ssl.SSLException;

/** Why a connection with TLS did not come about, in words that say what would be right. */
final class TlsErrors {
    private TlsErrors() {}

    /** The words for an error, or null when it has nothing to do with TLS, or may be gone the next time. */
    static String words(Login login, Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            String found = one(login, each);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static String one(Login login, Throwable error) {
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
            return "its certificate is not for '" + login.address().host() + "': " + message;
        }
        return error instanceof SSLException ? alert(login, message) : null;
    }

    /** What a broker that ended the handshake has to say of us (RFC 8446, 6.2). */
    private static String alert(Login login, String message) {
        boolean demands = message.contains("certificate_required") || message.contains("handshake_failure");
        for (String word : new String[] {"certificate_expired", "unknown_ca", "bad_certificate", "certificate_unknown",
                "certificate_revoked"}) {
            if (message.contains("alert: " + word)) {
                if (login.tls().certificateFile() != null) {
                    return "it refuses our certificate (" + word.replace('_', ' ') + ")";
                }
                demands = true; // before TLS 1.3 there was no word for none at all
            }
        }
        return demands ? "it demands a client certificate (expected certificateFile and keyFile)" : null;
    }
}
