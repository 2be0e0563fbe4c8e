"""Explains why a TLS connection failed, and what is expected instead."""

from __future__ import annotations

import ssl

from speck.core.inventory import Login

# OpenSSL's names of the alerts with which a server rejects our certificate (RFC 8446, section 6.2).
_NO_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
_BAD_CERTIFICATE = (
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REVOKED",
)


def explain_tls_error(error: ssl.SSLError, host: str, login: Login) -> str:
    """The reason why there is no connection, and what is expected instead."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrusted(error, host, login)
    refused = any(word in reason for word in _BAD_CERTIFICATE)
    # Before TLS 1.3 there was no alert for a missing certificate.
    if any(word in reason for word in _NO_CERTIFICATE) or (refused and login.certificate_file is None):
        return "it requires a client certificate (expected certificate_file and key_file)"
    if refused:
        return f"it rejects our certificate {login.certificate_file!r} ({reason.lower().replace('_', ' ')})"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS (expected an address without TLS, or TLS there)"
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return "it closes the connection when TLS begins (expected an address without TLS, or TLS there)"
    return str(error.strerror or error)


def find_tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """The TLS error among an error's causes, unless it is only the end of a connection."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ssl.SSLError) and not isinstance(
            error, ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            return error
        error = _inner(error)
    return None


def _distrusted(error: ssl.SSLCertVerificationError, host: str, login: Login) -> str:
    reason = str(getattr(error, "verify_message", "") or error)
    if "mismatch" in reason.lower():
        return f"its certificate is not for {host!r} (expected that name among its subject alternative names)"
    if "expired" in reason:
        return "its certificate has expired"
    if "not yet valid" in reason:
        return "its certificate is not valid yet"
    expected = f"one signed by {login.ca_file!r}" if login.ca_file else "a ca_file"
    return f"its certificate is not trusted: {reason} (expected {expected})"


def _inner(error: BaseException) -> BaseException | None:
    reason = getattr(error, "reason", None)  # of urllib3's
    inner = [each for each in (reason, *error.args) if isinstance(each, BaseException)]
    return inner[0] if inner else error.__cause__ or error.__context__
