"""Logging in to a Connect server: what is shown to it, and why a connection did not come about.

Spark's server takes a token (``spark.connect.authenticate.token``), and speaks no TLS by itself: that is the
part of a proxy in front of it, whose certificate ``engine_login.ca_file`` of the site inventory vouches for,
and which may ask for a certificate of ours.
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
from speck.errors import Unreachable

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<why>[^:]+)")

# HTTP/2 begins with such a frame: one that says something else, or nothing.
_OTHERS = ("Failed parsing HTTP/2", "before receiving SETTINGS frame")

# A server that speaks TLS does so to a client that does not.
_CLOSED = ("Socket closed", "Connection reset by peer", "Broken pipe", "TSI_DATA_CORRUPTED")


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens a server: the token itself, which is never shown, and the paths of PEM files.

    ``tls``: whether it is spoken also where nothing else asks for it.
    """

    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    tls: bool = False

    @classmethod
    def of(cls, login: Login, tls: bool = False) -> Keys:
        """The keys of a login, its token as it is now.  Raises :class:`~speck.errors.SecretUnavailable`."""
        token = login.token.reveal() if login.token else None
        return cls(token, login.ca_file, login.certificate_file, login.key_file, tls)


def channel_credentials(address: str, host: str, keys: Keys) -> grpc.ChannelCredentials | None:
    """The credentials of a channel, ``None`` for none.  A token goes over TLS, or to this machine itself.

    Raises :class:`~speck.errors.Unreachable` when the token or a file cannot be used.
    """
    if keys == Keys():
        return None
    if keys == Keys(keys.token) and host in _LOOPBACK:
        credentials = grpc.local_channel_credentials()
    else:
        credentials = _tls(address, keys)
    if keys.token is None:
        return credentials
    shown = grpc.access_token_call_credentials(checked_token(address, keys.token))
    return grpc.composite_channel_credentials(credentials, shown)


def connect_failure(details: str, host: str, login: Login) -> str:
    """gRPC's account of a connection that failed (a line of its library's own terms), in a user's terms."""
    untrusted = _UNTRUSTED.search(details)
    if untrusted is not None and "expired" in untrusted["why"]:
        return "its certificate has expired"
    if untrusted is not None:
        right = f"one that {login.ca_file!r} vouches for" if login.ca_file else "engine_login with a ca_file"
        return f"its certificate is not trusted: {untrusted['why']} (expected {right})"
    if "Hostname Verification Check failed" in details:
        return f"its certificate is not for {host!r} (expected that among its subject alternative names)"
    if "missing selected ALPN property" in details:
        return "its TLS does not offer HTTP/2 (expected ALPN h2)"
    if "WRONG_VERSION_NUMBER" in details:
        return "it does not speak TLS (with a ca_file, and for a token to another machine, it has to)"
    if any(words in details for words in _OTHERS):
        return "it does not speak HTTP/2 (expected a Spark Connect server's port, which is 15002 by default)"
    if not any(words in details for words in _CLOSED):
        return details
    if login.ca_file is None:
        return (
            "it closes the connection (expected a Spark Connect server; "
            "if it speaks TLS, engine_login needs a ca_file)"
        )
    # gRPC does not tell what the server said of us (RFC 8446, section 6.2).
    if login.certificate_file is None:
        return "it ends the TLS connection (if it asks for a certificate: certificate_file and key_file)"
    return "it ends the TLS connection (it may not take the certificate of engine_login.certificate_file)"


def _tls(address: str, keys: Keys) -> grpc.ChannelCredentials:
    """The files are tried here: gRPC would only say that a handshaker cannot be made."""
    context = ssl.create_default_context()
    trusted = certificate = key = None
    if keys.ca_file is not None:
        with _usable(address, "ca_file", keys.ca_file, "holds no certificate"):
            context.load_verify_locations(keys.ca_file)
            trusted = Path(keys.ca_file).read_bytes()
    if keys.certificate_file is not None and keys.key_file is not None:
        with _usable(address, "certificate_file", keys.certificate_file, "holds no certificate of key_file"):
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
