"""Logging in to a Connect server: what is shown to it, and why a connection did not come about.

Spark's server takes a token (``spark.connect.authenticate.token``), and speaks no TLS by itself: that is the
part of a proxy in front of it, whose certificate ``engine_login.ca_file`` of the site inventory vouches for.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import grpc  # type: ignore[import-untyped]

from speck.errors import Unreachable

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

# What a header of HTTP/2 can carry (gRPC over HTTP2, "ASCII-Value"); gRPC would only say "Illegal metadata".
_TOKEN = re.compile(r"[\x20-\x7e]+\Z")

_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<why>[^:]+)")

# A server that speaks TLS does so to a client that does not.
_CLOSED = ("Socket closed", "Connection reset by peer", "Broken pipe")


def channel_credentials(
    address: str, host: str, token: str | None, ca_file: str | None
) -> grpc.ChannelCredentials | None:
    """The credentials of a channel, ``None`` for none.  A token goes over TLS, or to this machine itself.

    Raises :class:`~speck.errors.Unreachable` when the token or the file cannot be used.
    """
    if ca_file is None and token is None:
        return None
    if ca_file is None and host in _LOOPBACK:
        credentials = grpc.local_channel_credentials()
    else:
        credentials = grpc.ssl_channel_credentials(_trusted(address, ca_file) if ca_file else None)
    if token is None:
        return credentials
    if not _TOKEN.match(token):
        message = f"engine_login.token of {address} is no token (expected one line of printable ASCII)"
        raise Unreachable(message, address=address)
    return grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))


def connect_failure(details: str, host: str, ca_file: str | None) -> str:
    """gRPC's account of a connection that failed (a line of its library's own terms), in a user's terms."""
    untrusted = _UNTRUSTED.search(details)
    if untrusted is not None:
        right = f"one that {ca_file!r} vouches for" if ca_file else "engine_login with a ca_file"
        return f"its certificate is not trusted: {untrusted['why']} (expected {right})"
    if "Hostname Verification Check failed" in details:
        return f"its certificate is not for {host!r} (expected that among its subject alternative names)"
    if "missing selected ALPN property" in details:
        return "its TLS does not offer HTTP/2 (expected ALPN h2)"
    if "WRONG_VERSION_NUMBER" in details:
        return "it does not speak TLS (with a ca_file, and for a token to another machine, it has to)"
    if ca_file is None and any(words in details for words in _CLOSED):
        return "it closes the connection (if it speaks TLS, engine_login needs a ca_file)"
    return details


def _trusted(address: str, ca_file: str) -> bytes:
    try:
        ssl.create_default_context(cafile=ca_file)  # gRPC would only say that a handshaker cannot be made
        return Path(ca_file).read_bytes()
    except OSError as error:  # ssl.SSLError is one
        reason = "holds no certificate" if isinstance(error, ssl.SSLError) else str(error.strerror).lower()
        message = f"engine_login.ca_file {ca_file!r} of {address}: {reason} (expected a PEM file)"
        raise Unreachable(message, address=address) from error
