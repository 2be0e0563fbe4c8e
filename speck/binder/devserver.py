"""How to start an engine or a broker of one kind on this machine, for :mod:`speck.local.sites`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from speck.errors import LocalError


class LocalServer(Protocol):
    """How to start an engine or a broker of one kind on this machine, for :mod:`speck.local.sites`."""

    ports: int  # how many loopback ports it needs; the first is that of its address

    def address(self, ports: Sequence[int]) -> str:
        """The address of a server on these loopback ports, as an inventory has it."""

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """The command line and the whole environment of a server that keeps its files in ``directory``.

        ``heap`` is a size as Java has it, such as ``600m``; a server without a Java heap ignores it.  The
        server stays in the foreground.  Raises :class:`~speck.errors.LocalError`, which says what to install.
        """

    def ready(self, ports: Sequence[int]) -> bool:
        """Whether the server on these loopback ports answers in its protocol; takes seconds at most."""

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """What an inventory says of it beside its address, by field of :class:`~speck.core.job.Engine`."""


@runtime_checkable
class Preparable(LocalServer, Protocol):
    """A :class:`LocalServer` whose later starts can be made quicker, once and for all."""

    def prepare(self, ports: Sequence[int], directory: Path) -> None:
        """Do so, with these loopback ports and a folder of its own to work in; takes up to a minute.

        Raises :class:`~speck.errors.LocalError`.
        """


_HEAP = re.compile(r"(\d+)([kmg])\Z")


_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30}


def heap_bytes(heap: str) -> int:
    """The bytes of a Java size such as ``600m``.  Raises :class:`~speck.errors.LocalError`."""
    match = _HEAP.match(heap.lower())
    if match is None:
        raise LocalError(f"heap {heap!r} is not a size (expected a number with k, m or g, such as 600m)")
    return int(match[1]) * _SIZES[match[2]]
