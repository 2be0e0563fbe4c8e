"""Login to a Connect server: credentials, and explanations of failed connections.

Spark's server accepts a token (``spark.connect.authenticate.token``), and has no TLS of its own: a proxy in
front of it has, whose certificate is verified with ``engine_login.ca_file`` of the site inventory, and which
may require a client certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from h2.exceptions import ProtocolError

from binders.common.bearer import checked_token
from speck.core.inventory import Login
from speck.core.pem import pem_fault
from speck.errors import Unreachable

USER = "speck"  # of all sessions

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

# OpenSSL's codes of certificates that do not pass (x509_vfy.h).
_EXPIRED = 10
_OF_ANOTHER_NAME = frozenset({62, 64})  # a host name, an address

# OpenSSL's errors for an answer that is not TLS; which one depends on its bytes, and on the version.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")

# Its errors when a server ends the connection, as one does that rejects our certificate, or the lack of one.
_ENDED = ("EOF", "CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")


@dataclass(frozen=True, slots=True)
class Keys:
    """The credentials of a server: the token itself, which is not in ``repr``, and paths of PEM files.

    ``tls`` is true if TLS is used even where no other credential requires it.
    """

    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    tls: bool = False

    @classmethod
    def of(cls, login: Login, tls: bool = False) -> Keys:
        """The keys of a login, with its current token.  Raises :class:`~speck.errors.SecretUnavailable`."""
        token = login.token.reveal() if login.token else None
        return cls(token, login.ca_file, login.certificate_file, login.key_file, tls)

    def needs_tls(self, host: str) -> bool:
        """False if they may be sent to a host as they are: a token alone goes to this machine only."""
        return self != Keys(self.token) or (self.token is not None and host not in _LOOPBACK)


def tls_context(address: str, host: str, keys: Keys) -> ssl.SSLContext | None:
    """The context of a TLS connection with HTTP/2, ``None`` for one without TLS.

    Raises :class:`~speck.errors.Unreachable` if the token or a file cannot be used.
    """
    if keys.token is not None:
        checked_token(address, keys.token)
    if not keys.needs_tls(host):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # ca_file may be of an intermediate authority
    context.set_alpn_protocols(["h2"])
    if keys.ca_file is None:
        context.load_default_certs()
    else:
        with _usable(address, "ca_file", keys.ca_file, "contains no certificate"):
            context.load_verify_locations(keys.ca_file)
    if keys.certificate_file is not None and keys.key_file is not None:
        with _usable(address, "key_file", keys.key_file, "cannot be used"):
            if (fault := pem_fault(Path(keys.key_file).read_bytes(), key=True)) is not None:
                message = f"engine_login.key_file {keys.key_file!r} of {address} {fault}"
                raise Unreachable(message, address=address)
        with _usable(
            address, "certificate_file", keys.certificate_file, "contains no certificate for key_file"
        ):
            context.load_cert_chain(keys.certificate_file, keys.key_file, password=str)
    return context


def connect_failure(failure: Exception, host: str, keys: Keys) -> str:
    """The reason why a server cannot be reached, for the user, by the error that ended the connection."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return _untrusted(failure, host, keys)
    if isinstance(failure, ProtocolError):
        return "it does not speak HTTP/2 (expected a Spark Connect server's port, which is 15002 by default)"
    if isinstance(failure, ssl.SSLError):
        reason = failure.reason or str(failure)
        if any(words in reason for words in _NOT_TLS):
            return "it does not speak TLS (expected TLS for a ca_file, or for a token to another machine)"
        if not any(words in reason for words in _ENDED):
            return f"TLS fails: {reason.replace('_', ' ').lower()}"
    elif not isinstance(failure, EOFError | ConnectionResetError | BrokenPipeError):
        return (getattr(failure, "strerror", None) or str(failure) or "timed out").lower()
    if not keys.needs_tls(host):
        return (
            "it closes the connection (expected a Spark Connect server's port; "
            "if it speaks TLS, engine_login needs a ca_file)"
        )
    # The alert with which a server rejects a certificate is often not specific (RFC 8446, section 6.2).
    if keys.certificate_file is None:
        return (
            "it ends the TLS connection (if it requires a client certificate: certificate_file and key_file)"
        )
    return "it ends the TLS connection (it may reject the certificate of engine_login.certificate_file)"


def _untrusted(failure: ssl.SSLCertVerificationError, host: str, keys: Keys) -> str:
    if failure.verify_code == _EXPIRED:
        return "its certificate has expired"
    if failure.verify_code in _OF_ANOTHER_NAME:
        return f"its certificate is not for {host!r} (expected that name among its subject alternative names)"
    expected = f"one signed by {keys.ca_file!r}" if keys.ca_file else "engine_login with a ca_file"
    return f"its certificate is not trusted: {failure.verify_message} (expected {expected})"


@contextmanager
def _usable(address: str, name: str, path: str, wrong: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        reason = wrong if isinstance(error, ssl.SSLError) else str(error.strerror).lower()
        message = f"engine_login.{name} {path!r} of {address}: {reason} (expected a PEM file)"
        raise Unreachable(message, address=address) from error
