"""TLS connections that one thread reads while another one writes, as those of websockets are used.

Their errors in words, too.
"""

from __future__ import annotations

import errno
import os
import select
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

# s, between two looks whether another thread has closed the socket, which wakes nobody who waits for it.
_LOOK = 1.0

NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, without a name in Python

_T = TypeVar("_T")

# Errors of OpenSSL about the dates of a certificate (X509_V_ERR_...), and their cause.
_DATES: Mapping[int, str] = {
    9: "is not valid yet by the clock of this machine ({}): set the clock",
    10: "has expired by the clock of this machine ({}): renew the certificate, or set the clock",
}


def fault_of(error: BaseException) -> str:
    """The text of an error of a connection; one about the dates of a certificate names the clock.

    A board without a battery clock starts years ago, until it gets the time from the network.
    """
    if isinstance(error, ssl.SSLCertVerificationError) and (cause := _DATES.get(error.verify_code)):
        # By day: an agent logs and stores each new reason.
        return "its certificate " + cause.format(time.strftime("%Y-%m-%d", time.gmtime()))
    return str(error) or type(error).__name__


def shared(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context, whose connections may be read and written at the same time."""
    context.sslsocket_class = SharedSocket
    return context


class SharedSocket(ssl.SSLSocket):
    """A TLS connection whose calls take turns.

    OpenSSL permits one call at a time on a connection, and Python 3.11 does not see to it.  One of some
    400 connections hung that took the session tickets of the server while it wrote its first request.
    A call that has to wait lets others in meanwhile.
    """

    _turn: threading.Lock
    _patience: float | None
    _is_open: bool

    def __new__(cls, *args: Any, **options: Any) -> SharedSocket:
        """Without a constructor: :class:`ssl.SSLContext` makes connections otherwise."""
        made = super().__new__(cls, *args, **options)
        made._turn, made._patience, made._is_open = threading.Lock(), None, False
        return made

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands, which one thread does; later calls return at once, and wait for the peer here."""
        super().do_handshake(block)
        self._is_open = True
        super().settimeout(0.0)

    def settimeout(self, value: float | None) -> None:
        """Set the time, in s, that a call may wait; ``None`` for any."""
        self._patience = value
        if not self._is_open:
            super().settimeout(value)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Some of the bytes that come next; none at the end."""
        return self._await(lambda: super(SharedSocket, self).recv(buflen, flags))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send the bytes, or some of them; returns their number."""
        return self._await(lambda: super(SharedSocket, self).send(data, flags))

    def shutdown(self, how: int) -> None:
        """End one or both directions."""
        with self._turn:
            super().shutdown(how)

    def _await(self, call: Callable[[], _T]) -> _T:
        deadline = None if self._patience is None else time.monotonic() + self._patience
        while True:
            try:
                with self._turn:
                    return call()
            except (ssl.SSLWantReadError, BlockingIOError):  # the latter once this end is shut down
                self._wait(select.POLLIN, deadline)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, deadline)

    def _wait(self, event: int, deadline: float | None) -> None:
        while True:
            if (number := self.fileno()) < 0:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            left = _LOOK if deadline is None else min(_LOOK, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError("timed out")
            poll = select.poll()
            poll.register(number, event)
            if poll.poll(left * 1000):
                return
