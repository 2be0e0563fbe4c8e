"""The uplink of a site on this machine: ways to servers elsewhere, closed to the site's processes alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable

import psutil

from speck.testing.wire_trouble import Relay


class Uplink:
    """The state that all ways of a site share; ``pids`` are the ids of the site's processes."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self.pids = pids
        self._up = threading.Event()
        self._up.set()

    def way(self, server_port: int) -> Way:
        """A way to a server elsewhere."""
        return Way(self, server_port)

    def cut(self) -> None:
        """Refuse new connections of the site; it is called when the site's processes have ended."""
        self._up.clear()

    def sever(self, *ways: Way) -> None:
        """Refuse new connections of the site, and end those that it has on these ways."""
        self.cut()
        for way in ways:
            way.end_connections(self.pids())

    def restore(self) -> None:
        """Let the site connect again."""
        self._up.set()

    def refuses(self, port: int) -> bool:
        """True for a connection from this local port while the uplink is down, if the site opened it."""
        return not self._up.is_set() and any(port in _ports(pid) for pid in self.pids())


class Way(Relay):
    """The way to one server, which other programs of this machine may use at any time."""

    def __init__(self, uplink: Uplink, server_port: int) -> None:
        super().__init__(server_port)
        self._uplink = uplink
        self._servers: dict[socket.socket, socket.socket] = {}

    @property
    def address(self) -> str:
        """The address of a broker by this way."""
        return f"tcp://127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        if self._uplink.refuses(connection.getpeername()[1]):
            connection.close()
            return
        try:
            super().serve(connection)
        finally:  # a trial opens thousands, and clients that use select() take no more than 1,024
            connection.close()
            self._servers.pop(connection, connection).close()

    def end_connections(self, pids: Iterable[int]) -> None:
        """End the connections that these processes opened."""
        ports = {port for pid in pids for port in _ports(pid)}
        for connection in list(self._servers):
            with contextlib.suppress(OSError):
                if connection.getpeername()[1] in ports:
                    connection.shutdown(socket.SHUT_RDWR)

    def reach(self, server_port: int, connection: socket.socket) -> socket.socket:
        """See :meth:`Relay.reach`; the connection to the server ends with the other."""
        self._servers[connection] = found = super().reach(server_port, connection)
        return found


def _ports(pid: int) -> set[int]:
    """The local ports of a process's connections."""
    with contextlib.suppress(psutil.Error):
        return {each.laddr.port for each in psutil.Process(pid).net_connections("tcp") if each.laddr}
    return set()
