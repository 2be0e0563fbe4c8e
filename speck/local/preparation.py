"""Makes the later starts of engines of this machine faster, by one start of each kind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from speck.binder import Preparable, Registry, installed
from speck.local.state import free_ports


def prepare(registry: Registry | None = None, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """Prepare all kinds of engines that support it; returns their names.

    Raises :class:`~speck.errors.LocalError`, for example without Java.
    """
    prepared = []
    for kind in (registry or installed()).engines:
        if isinstance(kind.local, Preparable):
            progress(f"{kind.name}: started once, to archive the classes that it loads")
            with tempfile.TemporaryDirectory(prefix="speck-") as directory:
                kind.local.prepare(free_ports(kind.local.ports, (), taken=set()), Path(directory).resolve())
            prepared.append(kind.name)
    return prepared
