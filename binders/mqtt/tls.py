"""TLS to a broker: trusted authorities, the client certificate, and the alert that ended a connection."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, Any

from binders.common.tls_files import load_files
from binders.mqtt.address import BrokerAddress
from speck.core.inventory import Login

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_WOULD_BLOCK = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_NO_ALERT = (*_WOULD_BLOCK, ssl.SSLZeroReturnError, ssl.SSLEOFError)


class _NotingSocket(ssl.SSLSocket):
    """Stores the alert that ended the connection, which paho drops."""

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
            if not isinstance(error, _WOULD_BLOCK):
                # A broker that closes the connection has sent an alert before.
                with contextlib.suppress(OSError):
                    self.recv(1)
            raise


class ClosableContext(ssl.SSLContext):
    """A TLS context that stores its socket: paho drops one whose handshake failed without closing it."""

    sslsocket_class = _NotingSocket
    opened: ssl.SSLSocket | None = None

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        self.opened = super().wrap_socket(*arguments, **options)
        return self.opened

    @property
    def alert(self) -> ssl.SSLError | None:
        """The alert with which the other side ended the connection.

        With TLS 1.3, the client certificate is verified when the connection is already established.
        """
        return self.opened.alert if isinstance(self.opened, _NotingSocket) else None


def client_context(address: BrokerAddress, login: Login) -> ClosableContext:
    """The context of a connection.  Raises :class:`~speck.errors.Unreachable` if a file cannot be used."""
    context = ClosableContext(ssl.PROTOCOL_TLS_CLIENT)
    load_files(context, address.text, login)
    return context
