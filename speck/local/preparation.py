"""Makes the later starts of engines of this machine faster, by one start of each kind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from speck.binder import Preparable, Registry, installed
from speck.local.ports import Reservation


def prepare(registry: Registry | None = None, progress: Callable[[str], None] = lambda _: None) -> list[str]:
    """Prepare all kinds of engines that support it; returns their names.

    Raises :class:`~speck.errors.LocalError`, for example without Java.
    """
    prepared = []
    for name, server in (registry or installed()).local_engines().items():
        if isinstance(server, Preparable):
            progress(f"{name}: started once, to archive the classes that it loads")
            with tempfile.TemporaryDirectory(prefix="speck-") as directory, Reservation() as reservation:
                server.prepare(reservation.draw(server.ports), Path(directory).resolve())
            prepared.append(name)
    return prepared
