package io.speck.mqtt.net;

import io.netty.handler.ssl.NotSslRecordException;
import io.speck.mqtt.Login;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import javax.net.ssl.SSLException;

/** Describes failures of TLS connections, with the expected setting. */
final class TlsErrors {
    private TlsErrors() {}

    /** Describes an error; null if it is not about TLS, or may not occur at the next attempt. */
    static String describe(Login login, Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            String description = describeOne(login, each);
            if (description != null) {
                return description;
            }
        }
        return null;
    }

    private static String describeOne(Login login, Throwable error) {
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

    /** Describes the alert of a broker that ended the handshake (RFC 8446, 6.2). */
    private static String alert(Login login, String message) {
        boolean demands = message.contains("certificate_required") || message.contains("handshake_failure");
        for (String alert : new String[] {"certificate_expired", "unknown_ca", "bad_certificate", "certificate_unknown",
                "certificate_revoked"}) {
            if (message.contains("alert: " + alert)) {
                if (login.tls().certificateFile() != null) {
                    return "it refuses our certificate (" + alert.replace('_', ' ') + ")";
                }
                demands = true; // before TLS 1.3 no alert said that a certificate is missing
            }
        }
        return demands ? "it demands a client certificate (expected certificateFile and keyFile)" : null;
    }
}
