"""A Spark Connect server on this machine, for :mod:`speck.local.sites`."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from binders.spark.local.class_archive import make
from binders.spark.local.commands import CONNECTORS, connect_server_command, connect_server_environment
from speck.binder.devserver import heap_bytes
from speck.errors import LocalError

# HTTP/2 (RFC 9113, section 3.4): the client's preface and an empty SETTINGS frame; the server's first frame
# is a SETTINGS frame too (type 4).
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_FRAME_HEADER = 9  # bytes; RFC 9113, 4.1
# Several servers start at once on a developer's few cores, for minutes: the optimizing compiler would cost
# more than it saves.  Measured on 2 busy cores with the road-traffic demo, one run each: 17 jobs deployed in
# 16 s instead of 35 s, a day of readings counted in 39 s instead of 54 s.
_QUICK_START = ("-XX:TieredStopAtLevel=1",)
_SETTINGS = 4  # the type of an HTTP/2 frame; RFC 9113, 6.5
_MIN_HEAP = "512m"  # Spark's own minimum is 450 MiB of the part that Java leaves of it
_SLOTS = 32  # a 600 MB heap held 17 jobs of the road-traffic composition


class ConnectServer:
    """The :class:`~speck.binder.LocalServer` of Spark Connect, with those of its ``jars`` that are built."""

    ports = 1

    def __init__(self, jars: Sequence[Path] = CONNECTORS) -> None:
        self._jars = jars

    def address(self, ports: Sequence[int]) -> str:
        """``sc://127.0.0.1:PORT``."""
        return f"sc://127.0.0.1:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`."""
        (port,) = ports
        if heap_bytes(heap) < heap_bytes(_MIN_HEAP):
            raise LocalError(f"heap {heap!r} is too small for Spark (expected {_MIN_HEAP} or more)")
        jars = [each for each in self._jars if each.exists()]
        command = connect_server_command(port, jars, heap, directory=directory, jvm_options=_QUICK_START)
        return command, connect_server_environment()

    def ready(self, ports: Sequence[int]) -> bool:
        """True if gRPC answers: the server opens its port last, after its Spark session is up."""
        try:
            with socket.create_connection(("127.0.0.1", ports[0]), timeout=2) as connection:
                connection.sendall(_PREFACE)
                answer = connection.recv(_FRAME_HEADER)
        except OSError:
            return False
        return len(answer) == _FRAME_HEADER and answer[3] == _SETTINGS

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """Its slots, its memory, and its checkpoint directory."""
        checkpoints = directory / "checkpoints"
        checkpoints.mkdir(parents=True, exist_ok=True)
        return {"slots": _SLOTS, "memory": heap_bytes(heap), "checkpoint_dir": str(checkpoints)}

    def prepare(self, ports: Sequence[int], directory: Path) -> None:
        """See :class:`speck.binder.Preparable`: an archive of Spark's classes."""
        (port,) = ports
        make(port, directory, lambda: self.ready(ports))


CONNECT_SERVER = ConnectServer()
