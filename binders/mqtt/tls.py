"""TLS to a broker: whom we trust, who we are, and what the broker said when it ended the connection."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, Any

from binders.mqtt.address import BrokerAddress
from speck.core.inventory import Login
from speck.errors import Unreachable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_LATER = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_NO_ALERT = (*_LATER, ssl.SSLZeroReturnError, ssl.SSLEOFError)


class _NotingSocket(ssl.SSLSocket):
    """Remembers the alert that ended it, which paho drops."""

    alert: ssl.SSLError | None = None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except ssl.SSLError as error:
            if not isinstance(error, _NO_ALERT):
                self.alert = error
            raise

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except OSError as error:
            if not isinstance(error, _LATER):
                # Who hangs up on us has said before why.
                with contextlib.suppress(OSError):
                    self.recv(1)
            raise


class ClosableContext(ssl.SSLContext):
    """A TLS context that remembers its socket: paho drops one whose handshake failed without closing it."""

    sslsocket_class = _NotingSocket
    opened: ssl.SSLSocket | None = None

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        self.opened = super().wrap_socket(*arguments, **options)
        return self.opened

    @property
    def alert(self) -> ssl.SSLError | None:
        """What the other side said when it ended the connection.

        By TLS 1.3 it looks at who we are when the connection is up already.
        """
        return self.opened.alert if isinstance(self.opened, _NotingSocket) else None


def client_context(address: BrokerAddress, login: Login) -> ClosableContext:
    """The context of a connection.  Raises :class:`~speck.errors.Unreachable` when a file cannot be used."""
    context = ClosableContext(ssl.PROTOCOL_TLS_CLIENT)
    if login.ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cafile=login.ca_file)
        except (OSError, ssl.SSLError) as error:
            what = f"ca_file {login.ca_file!r}"
            raise _unusable(address, what, error, "a PEM file of certificates") from error
    if login.certificate_file is not None:
        try:
            context.load_cert_chain(login.certificate_file, login.key_file, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            what = f"certificate_file {login.certificate_file!r} with key_file {login.key_file!r}"
            right = "PEM files: a certificate and its key, without a password"
            raise _unusable(address, what, error, right) from error
    return context


def _no_password() -> str:
    # OpenSSL would ask for one at the terminal.
    return ""


def _unusable(address: BrokerAddress, what: str, error: OSError, right: str) -> Unreachable:
    why = error.strerror if not isinstance(error, ssl.SSLError) else error.reason or "not what it should be"
    words = str(why).replace("_", " ").lower()
    message = f"broker {address.text}: {what} cannot be used: {words} (expected {right})"
    return Unreachable(message, address=address.text)
