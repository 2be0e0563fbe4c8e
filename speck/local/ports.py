"""Loopback ports of local servers, reserved from the draw until the server that was given them ends.

A Java server takes seconds to bind its ports, and until then nothing shows that they are taken: another
``speck local up`` may draw the same ones.  A reserved port is therefore a locked byte in a file that all
processes of a user share.  The lock belongs to the open file, which the server inherits, and the system
releases it when the last process that has the file open ends, for whatever reason.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import struct
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from speck.errors import LocalError

# Below the range of ports for outgoing connections, so that a restarted server finds its port free.
PORTS = range(15000, 32000)
_TRIES = 1000  # random ports, before no port counts as free


class Reservation:
    """Ports that no other reservation of this user draws; a context manager that releases them.

    A process that inherits :meth:`fileno` has them reserved too, until it ends.  Reservations of one process
    exclude each other as those of several do.
    """

    def __init__(self) -> None:
        """Reserve nothing yet.  Raises :class:`~speck.errors.LocalError` if the file cannot be opened."""
        path = lock_file()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LocalError(
                f"ports cannot be reserved in {path}: {error.strerror} (expected a file of this user)"
            ) from error
        self._ports: set[int] = set()

    def draw(self, count: int, preferred: Sequence[int] = (), taken: Collection[int] = ()) -> list[int]:
        """Reserve ports without a listener, the preferred ones where possible, and none of ``taken``.

        Raises :class:`~speck.errors.LocalError` if there are not enough.
        """
        found: list[int] = []
        for port in [*preferred, *random.sample(PORTS, min(_TRIES, len(PORTS)))]:
            if len(found) == count:
                break
            if port not in taken and port not in self._ports and self._lock(port, fcntl.F_WRLCK):
                if is_free(port):
                    found.append(port)
                    self._ports.add(port)
                else:
                    self._lock(port, fcntl.F_UNLCK)
        if len(found) < count:
            raise LocalError(f"no free port on 127.0.0.1 between {PORTS.start} and {PORTS.stop - 1}")
        return found

    def keep(self, ports: Iterable[int]) -> None:
        """Reserve ports that were drawn before and by no one since; several reservations may keep one."""
        for port in ports:
            self._lock(port, fcntl.F_RDLCK)

    def fileno(self) -> int:
        """The file descriptor that a process inherits."""
        return self._file

    def close(self) -> None:
        """Release the ports, unless another process has inherited them."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self, port: int, kind: int) -> bool:
        """Lock or unlock a port; false if another reservation holds its lock."""
        if not hasattr(fcntl, "F_OFD_SETLK"):
            return True  # not Linux: ports are checked only
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, port, 1, 0))
        except OSError as error:
            # Any other error means that the file system has no such locks.
            return error.errno not in (errno.EACCES, errno.EAGAIN)
        return True


def is_free(port: int) -> bool:
    """True if no process has bound a loopback port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def lock_file() -> Path:
    """The file with the locks of this user, a byte for each port; it stays empty."""
    return Path(tempfile.gettempdir()) / f"speck-ports-{os.getuid()}"
