"""The faults of files that are to hold a certificate or a key in PEM (RFC 7468): a pure decision.

OpenSSL reports most of them as "PEM lib", and some libraries pass on an error of the decoding.
"""

from __future__ import annotations

_BEGIN = b"-----BEGIN "


def pem_fault(content: bytes, *, key: bool = False) -> str | None:
    """The fault of a certificate's file, or (``key``) of a key's, as a predicate; ``None`` if it has none."""
    if _BEGIN not in content:
        return (
            "is not PEM (expected text with lines such as -----BEGIN CERTIFICATE-----; not DER, not PKCS#12)"
        )
    if not key:
        return None if b"CERTIFICATE-----" in content else "contains no certificate (expected one in PEM)"
    if b"PRIVATE KEY-----" not in content:
        return "contains no private key (expected one in PEM)"
    encrypted = b"ENCRYPTED PRIVATE KEY-----" in content or b"Proc-Type: 4,ENCRYPTED" in content
    return "is encrypted (expected a key without a password)" if encrypted else None
