"""Engines and brokers as processes of this machine, for :mod:`speck.local.sites`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from speck.errors import LocalError


class LocalServer(Protocol):
    """One kind of engine or broker as a process of this machine."""

    ports: int  # the number of loopback ports that it needs; the first is that of its address

    def address(self, ports: Sequence[int]) -> str:
        """The address of a server on these loopback ports, as in an inventory."""

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """The command line and the whole environment of a server with its files in ``directory``.

        ``heap`` is a size in Java's notation, such as ``600m``; a server without a Java heap ignores it.  The
        server stays in the foreground.  Raises :class:`~speck.errors.LocalError` with what to install.
        """

    def ready(self, ports: Sequence[int]) -> bool:
        """True if the server on these loopback ports answers in its protocol; takes seconds at most."""

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """Its inventory entry without the address, by field of :class:`~speck.core.inventory.Engine`."""


@runtime_checkable
class Preparable(LocalServer, Protocol):
    """A :class:`LocalServer` whose later starts can be made faster by one preparation."""

    def prepare(self, ports: Sequence[int], directory: Path) -> None:
        """Prepare, with these loopback ports and a temporary ``directory``; takes up to a minute.

        Raises :class:`~speck.errors.LocalError`.
        """


@runtime_checkable
class Networked(LocalServer, Protocol):
    """A :class:`LocalServer` that can run in a network namespace of this machine (:mod:`speck.local.wan`)."""

    def at(self, host: str, states: Path) -> LocalServer:
        """The same server at an address of its namespace instead of loopback.

        ``states`` is a directory for what jobs keep, which the engines of all sites share.
        """


@runtime_checkable
class Scalable(LocalServer, Protocol):
    """A :class:`LocalServer` of an engine whose workers can be servers of their own."""

    worker_ports: int  # the number of loopback ports of a worker

    def without_workers(self) -> LocalServer:
        """The same server, which starts no worker and is ready without one."""

    def scale(self, heap: str) -> Mapping[str, Any]:
        """``cores``, ``slots`` and ``memory`` of a worker, as in the inventory's ``scale``."""

    def worker(
        self, number: int, engine: WorkersEngine, ports: Sequence[int], directory: Path
    ) -> tuple[list[str], Mapping[str, str]]:
        """The command line and the environment of a worker with its files in ``directory``."""

    def is_worker(self, identifier: str, number: int, ports: Sequence[int]) -> bool:
        """True if the engine's id of a worker is that of the worker with this number and these ports."""


@dataclass(frozen=True, slots=True)
class WorkersEngine:
    """The engine of a worker: its ports, the directory of its files, and the heap of a worker."""

    ports: tuple[int, ...]
    directory: Path
    heap: str


_HEAP = re.compile(r"(\d+)([kmg])\Z")
_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30}


def heap_bytes(heap: str) -> int:
    """The number of bytes of a Java size such as ``600m``.  Raises :class:`~speck.errors.LocalError`."""
    match = _HEAP.match(heap.lower())
    if match is None:
        raise LocalError(f"heap {heap!r} is not a size (expected a number with k, m or g, such as 600m)")
    return int(match[1]) * _SIZES[match[2]]
