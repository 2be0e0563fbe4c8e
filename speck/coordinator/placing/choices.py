"""Places that an apply has chosen and the store does not have yet, so that they count for the others."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from speck.core.job import Composition


@dataclass
class Choices:
    """Compositions with the places that were chosen for them, from the choice to their acceptance.

    Two compositions that are applied at once would otherwise both be given the same free room.  Who chooses
    must hold a lock of its own from :meth:`others` to :meth:`note`.  Thread-safe.
    """

    _chosen: dict[str, Composition] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def note(self, composition: Composition) -> None:
        """Count the places of a composition for all others."""
        with self._lock:
            self._chosen[composition.name] = composition

    def forget(self, name: str) -> None:
        """Drop the places of a composition: it was accepted, so that the store has them, or refused."""
        with self._lock:
            self._chosen.pop(name, None)

    def others(self, name: str) -> dict[str, Composition]:
        """The compositions but the one of this name, by name."""
        with self._lock:
            return {each: chosen for each, chosen in self._chosen.items() if each != name}
