"""The cables between the processes of a pair on this machine, which are cut pairwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping

from speck.testing.wire_trouble import Relay

Ends = frozenset[str]  # the names of two processes


class Cable(Relay):
    """A way to a server on a loopback port.  While it is cut, bytes are neither passed on nor refused.

    That is how a broken network looks: connections stay, new ones are not refused, and nobody answers.
    What was sent meanwhile is lost with its connection.
    """

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self._whole = threading.Event()
        self._whole.set()

    def cut(self) -> None:
        """Lose all bytes from now on."""
        self._whole.clear()

    def mend(self) -> None:
        """Pass on the bytes of new connections; earlier ones may have lost some, and end."""
        self.close_connections()
        self._whole.set()

    def serve(self, connection: socket.socket) -> None:
        """See :class:`~speck.testing.wire_trouble.Relay`."""
        self._whole.wait()  # its connection is made by the system, and hangs
        super().serve(connection)

    def _pieces(self, source: socket.socket) -> Iterator[bytes]:
        for piece in super()._pieces(source):
            if self._whole.is_set():
                yield piece
        self._whole.wait()  # an end is not seen either


class Cables:
    """The cables between named processes that listen on ``ports``."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._cables: dict[tuple[str, str], Cable] = {}

    def url(self, source: str, target: str) -> str:
        """The address by which one process reaches another."""
        cable = self._cables.get((source, target))
        if cable is None:
            cable = self._cables[source, target] = Cable(self._ports[target])
            cable.__enter__()
        return f"http://127.0.0.1:{cable.port}"

    def cut(self, *pairs: Ends) -> None:
        """Cut the cables between these pairs, in both directions."""
        for ends, cable in self._cables.items():
            if frozenset(ends) in pairs:
                cable.cut()

    def mend(self) -> None:
        """Mend all."""
        for cable in self._cables.values():
            cable.mend()

    def close(self) -> None:
        """End all connections."""
        self.mend()
        for cable in self._cables.values():
            cable.__exit__(None, None, None)
