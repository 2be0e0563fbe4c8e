"""TLS for the server: connections that waitress takes for plain ones, and the certificate behind them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import socket
import ssl
import stat
import threading
import time
from pathlib import Path

from speck.core.pem import pem_fault
from speck.errors import Fault, InvalidInput

_RECORD = 1 << 14  # bytes of a TLS record (RFC 8446, section 5.1)
_DRAINED = 64  # times 64 KiB
_CHECK_PERIOD = 5.0  # s between two checks for a renewed certificate
_NOT_PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nConnection: close\r\n"
    b"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    b"X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nCache-Control: no-store\r\n\r\n"
    b'{"type": "about:blank", "title": "Bad Request", "status": 400, '
    b'"detail": "this port speaks HTTPS only (expected https:// in its address)"}'
)


class Certificate:
    """A certificate with its key, from two PEM files, which are read again when they change.

    Raises :class:`~speck.errors.InvalidInput` when they cannot be used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        self._context = self._load()
        self._seen, self._checked = self._marks(), time.monotonic()

    def context(self) -> ssl.SSLContext:
        """The context of new connections; the former one while the renewed files do not match yet."""
        if time.monotonic() - self._checked > _CHECK_PERIOD:
            self._checked = time.monotonic()
            if (marks := self._marks()) != self._seen:
                with contextlib.suppress(InvalidInput):  # one of the two files is renewed first
                    self._context, self._seen = self._load(), marks
        return self._context

    def renewing_context(self) -> ssl.SSLContext:
        """A context of a listener of its own, whose connections have the present certificate."""
        context = self._load()

        def renew(connection: ssl.SSLObject, name: str | None, former: ssl.SSLContext) -> None:
            connection.context = self.context()

        context.sni_callback = renew  # is called for clients that name no server too
        return context

    def fingerprint(self) -> bytes:
        """The SHA-256 of the present certificate, the first one of its file."""
        text = self._certificate.read_text(encoding="ascii", errors="replace")
        begin, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text[begin:end])).digest()

    def _load(self) -> ssl.SSLContext:
        _refuse_public(self._key)
        _refuse_other_forms(self._certificate, self._key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            message = (
                f"{self._certificate} and {self._key} are not a certificate and its key in PEM: {reason}"
            )
            raise _wrong(message) from error
        except OSError as error:
            message = f"{self._certificate} or {self._key} cannot be read: {error.strerror or error}"
            raise _wrong(message) from error
        return context

    def _marks(self) -> tuple[tuple[int, int], ...]:
        return tuple(_mark(path) for path in (self._certificate, self._key))


class SecuredSocket:
    """The server's end of a TLS connection, with the methods that waitress needs.  It never blocks.

    One thread reads while another writes, which TLS itself does not allow.  To read is in two steps:
    :meth:`fill`, whenever bytes came in, and :meth:`recv`, when that has found something.
    """

    def __init__(self, context: ssl.SSLContext, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.getpeername()  # raises for a client that is gone: wrap_socket would do without TLS
        self._socket = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        # One thread at a time in OpenSSL: a request thread writes while the loop reads.
        self._lock = threading.Lock()
        self._data = b""

    @property
    def secured(self) -> bool:
        """True once the handshake has ended."""
        return self._socket.version() is not None

    def fill(self) -> bool:
        """Read the bytes that came in; True if :meth:`recv` has data, or the end, to return."""
        with self._lock:
            try:
                self._data = self._socket.recv(_RECORD)
                while self._socket.pending():
                    self._data += self._socket.recv(_RECORD)
            except ssl.SSLWantReadError:
                return bool(self._data)
            except OSError as error:  # of a client that takes nothing while it must be answered, too
                self._refuse(error)
                self._data = b""
        return True

    def recv(self, size: int) -> bytes:
        """All bytes that :meth:`fill` has read; none at the end."""
        data, self._data = self._data, b""
        return data

    def send(self, data: bytes) -> int:
        """Send as much as can be sent at once; returns the number of bytes."""
        with self._lock:
            try:
                return self._socket.send(data)
            except ssl.SSLWantWriteError as error:
                raise BlockingIOError(errno.EWOULDBLOCK, "would block") from error
            except ssl.SSLError as error:
                raise ConnectionResetError(errno.ECONNRESET, str(error)) from error

    def close(self) -> None:
        """Announce the end (RFC 8446, section 6.1), and close."""
        with self._lock:
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()  # the answer of the other side is not waited for
            # A connection that is closed with unread bytes is reset, and its last answer may be lost.
            with contextlib.suppress(OSError):
                for _ in range(_DRAINED):
                    if not socket.socket.recv(self._socket, 1 << 16):
                        break
            self._socket.close()

    def fileno(self) -> int:
        """The descriptor, to wait for."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """Do nothing: the socket does not block already."""

    def getsockopt(self, level: int, name: int) -> int:
        """See :meth:`socket.socket.getsockopt`."""
        return self._socket.getsockopt(level, name)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """See :meth:`socket.socket.setsockopt`."""
        self._socket.setsockopt(level, name, value)

    def _refuse(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLError) and error.reason == "HTTP_REQUEST":
            with contextlib.suppress(OSError):
                socket.socket.send(self._socket, _NOT_PLAIN)


def _refuse_public(key: Path) -> None:
    try:
        mode = key.stat().st_mode
    except OSError as error:
        raise _wrong(f"{key} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise _wrong(f"{key} can be used by others (expected its owner alone: chmod 600 {key})")


def _refuse_other_forms(certificate: Path, key: Path) -> None:
    for path, is_key in ((certificate, False), (key, True)):
        # A file that cannot be read is reported when both are loaded.
        with contextlib.suppress(OSError):
            if (fault := pem_fault(path.read_bytes(), key=is_key)) is not None:
                raise _wrong(f"{path} {fault}")


def _no_password() -> str:
    """Raise, where OpenSSL would ask at the terminal."""
    raise _wrong("the key of the certificate is encrypted (expected one without a password)")


def _mark(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_ino, status.st_mtime_ns)


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "tls")
