"""Why a connection with TLS did not come about, in words that say what would be right."""

from __future__ import annotations

import ssl

from speck.core.inventory import Login

# OpenSSL's names of what a broker that ends a handshake says of us (RFC 8446, section 6.2).
_NO_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_NOT_THIS_ONE = (
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REVOKED",
)


def tls_words(error: ssl.SSLError, host: str, login: Login) -> str:
    """Why there is no connection, and what would be right."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrusted(error, host, login)
    refused = any(word in reason for word in _NOT_THIS_ONE)
    # Before TLS 1.3 there was no word for none at all.
    if any(word in reason for word in _NO_CERTIFICATE) or (refused and login.certificate_file is None):
        return "it demands a client certificate (expected certificate_file and key_file)"
    if refused:
        return f"it refuses our certificate {login.certificate_file!r} ({reason.lower().replace('_', ' ')})"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS (expected an address without TLS, or TLS there)"
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return "it hangs up when TLS begins (expected an address without TLS, or TLS there)"
    return str(error.strerror or error)


def _distrusted(error: ssl.SSLCertVerificationError, host: str, login: Login) -> str:
    told = str(getattr(error, "verify_message", "") or error)
    if "mismatch" in told.lower():
        return f"its certificate is not for {host!r} (expected that among its subject alternative names)"
    if "expired" in told:
        return "its certificate has expired"
    if "not yet valid" in told:
        return "its certificate is not valid yet"
    right = f"one that {login.ca_file!r} vouches for" if login.ca_file else "a ca_file"
    return f"its certificate is not trusted: {told} (expected {right})"
