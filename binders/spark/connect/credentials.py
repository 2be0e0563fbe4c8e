"""Login to a Connect server: credentials, and explanations of failed connections.

Spark's server accepts a token (``spark.connect.authenticate.token``), and has no TLS of its own: a proxy in
front of it has, whose certificate is verified with ``engine_login.ca_file`` of the site inventory, and which
may require a client certificate.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc  # type: ignore[import-untyped]

from binders.common.bearer import checked_token
from speck.core.inventory import Login
from speck.core.pem import pem_fault
from speck.errors import Unreachable

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<why>[^:]+)")

# gRPC's errors when the other side does not send the SETTINGS frame with which HTTP/2 begins.
_NOT_HTTP2 = ("Failed parsing HTTP/2", "before receiving SETTINGS frame")

# gRPC's errors of a connection without TLS to a server that expects it.
_CLOSED = ("Socket closed", "Connection reset by peer", "Broken pipe", "TSI_DATA_CORRUPTED")


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


def channel_credentials(address: str, host: str, keys: Keys) -> grpc.ChannelCredentials | None:
    """The credentials of a channel, ``None`` for none.  A token is sent over TLS or to this machine only.

    Raises :class:`~speck.errors.Unreachable` if the token or a file cannot be used.
    """
    if keys == Keys():
        return None
    if keys == Keys(keys.token) and host in _LOOPBACK:
        credentials = grpc.local_channel_credentials()
    else:
        credentials = _tls(address, keys)
    if keys.token is None:
        return credentials
    token = grpc.access_token_call_credentials(checked_token(address, keys.token))
    return grpc.composite_channel_credentials(credentials, token)


def connect_failure(details: str, host: str, login: Login) -> str:
    """Translate gRPC's description of a failed connection into an explanation for the user."""
    untrusted = _UNTRUSTED.search(details)
    if untrusted is not None and "expired" in untrusted["why"]:
        return "its certificate has expired"
    if untrusted is not None:
        expected = f"one signed by {login.ca_file!r}" if login.ca_file else "engine_login with a ca_file"
        return f"its certificate is not trusted: {untrusted['why']} (expected {expected})"
    if "Hostname Verification Check failed" in details:
        return f"its certificate is not for {host!r} (expected that name among its subject alternative names)"
    if "missing selected ALPN property" in details:
        return "its TLS does not offer HTTP/2 (expected ALPN h2)"
    if "WRONG_VERSION_NUMBER" in details:
        return "it does not speak TLS (expected TLS for a ca_file, or for a token to another machine)"
    if any(words in details for words in _NOT_HTTP2):
        return "it does not speak HTTP/2 (expected a Spark Connect server's port, which is 15002 by default)"
    if not any(words in details for words in _CLOSED):
        return details
    if login.ca_file is None:
        return (
            "it closes the connection (expected a Spark Connect server; "
            "if it speaks TLS, engine_login needs a ca_file)"
        )
    # gRPC does not report the alert with which the server rejected our certificate (RFC 8446, section 6.2).
    if login.certificate_file is None:
        return (
            "it ends the TLS connection (if it requires a client certificate: certificate_file and key_file)"
        )
    return "it ends the TLS connection (it may reject the certificate of engine_login.certificate_file)"


def _tls(address: str, keys: Keys) -> grpc.ChannelCredentials:
    """TLS credentials; the files are checked here, since gRPC's own error does not name them."""
    context = ssl.create_default_context()
    trusted = certificate = key = None
    if keys.ca_file is not None:
        with _usable(address, "ca_file", keys.ca_file, "contains no certificate"):
            context.load_verify_locations(keys.ca_file)
            trusted = Path(keys.ca_file).read_bytes()
    if keys.certificate_file is not None and keys.key_file is not None:
        with _usable(address, "key_file", keys.key_file, "cannot be used"):
            if (fault := pem_fault(Path(keys.key_file).read_bytes(), key=True)) is not None:
                message = f"engine_login.key_file {keys.key_file!r} of {address} {fault}"
                raise Unreachable(message, address=address)
        with _usable(
            address, "certificate_file", keys.certificate_file, "contains no certificate for key_file"
        ):
            context.load_cert_chain(keys.certificate_file, keys.key_file, password=str)
            certificate, key = Path(keys.certificate_file).read_bytes(), Path(keys.key_file).read_bytes()
    return grpc.ssl_channel_credentials(trusted, key, certificate)


@contextmanager
def _usable(address: str, name: str, path: str, wrong: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        reason = wrong if isinstance(error, ssl.SSLError) else str(error.strerror).lower()
        message = f"engine_login.{name} {path!r} of {address}: {reason} (expected a PEM file)"
        raise Unreachable(message, address=address) from error
