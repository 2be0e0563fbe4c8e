"""What makes later starts of engines on this machine quicker, done once for this installation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from speck.binder import Prepares, Registry, installed
from speck.local_record import free_ports


def prepare(registry: Registry | None = None, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """Prepare every kind of engine that can be; answers their names.

    Raises :class:`~speck.errors.LocalError`, for example without Java.
    """
    prepared = []
    for kind in (registry or installed()).engines:
        if isinstance(kind.local, Prepares):
            progress(f"{kind.name}: started once, to archive the classes that it loads")
            with tempfile.TemporaryDirectory(prefix="speck-") as directory:
                kind.local.prepare(free_ports(kind.local.ports, (), taken=set()), Path(directory).resolve())
            prepared.append(kind.name)
    return prepared
