"""Locks by name, for as long as they are used."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary


class NamedLocks:
    """Locks that are created on demand, and forgotten once no thread holds or awaits them.  Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # two threads must not create the lock of one name
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def of(self, name: str) -> threading.Lock:
        """The lock of a name, the same one for all threads that use it."""
        with self._guard:
            return self._locks.setdefault(name, threading.Lock())
