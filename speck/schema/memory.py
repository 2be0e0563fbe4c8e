"""The garbage collector of Python while a long document is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock


@dataclass
class _Pauses:
    lock: Lock = field(default_factory=Lock)
    number: int = 0  # of threads within a pause
    was_enabled: bool = False


_PAUSES = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collection of reference cycles in this process.

    The values of a document are kept until it is read, and none is part of a cycle; the collector would visit
    them again and again as they become more, for a third of the time.  A document is bounded in size, and so
    is the memory that the other threads leave meanwhile.
    """
    with _PAUSES.lock:
        if not _PAUSES.number:
            _PAUSES.was_enabled = gc.isenabled()
            gc.disable()
        _PAUSES.number += 1
    try:
        yield
    finally:
        with _PAUSES.lock:
            _PAUSES.number -= 1
            if not _PAUSES.number and _PAUSES.was_enabled:
                gc.enable()
