"""Planned compositions: kept in memory for a while, so that an apply needs not send the text again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from speck.core.clocks import Clock
from speck.errors import Expired, NotFound
from speck.schema.compositions import Loaded

CAPACITY = 20
LIFETIME = 15 * 60.0  # s


@dataclass
class PlannedCompositions:
    """The last compositions that were planned, by id.  Safe for several threads.

    ``mint`` makes ids, ``steady`` gives the time of a clock that is never set back, s.
    """

    mint: Callable[[], str]
    steady: Clock
    _planned: dict[str, tuple[Loaded, float]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def add(self, loaded: Loaded) -> str:
        """Keep a composition; returns its id."""
        identifier, until = self.mint(), self.steady() + LIFETIME
        with self._lock:
            self._planned[identifier] = (loaded, until)
            while len(self._planned) > CAPACITY:
                del self._planned[next(iter(self._planned))]
        return identifier

    def get(self, identifier: str) -> Loaded:
        """A planned composition.

        Raises :class:`~speck.errors.NotFound` or :class:`~speck.errors.Expired`.
        """
        with self._lock:
            found = self._planned.get(identifier)
        if found is None:
            raise NotFound(f"there is no plan {identifier!r} (expected the composition's text)")
        loaded, until = found
        if self.steady() > until:
            raise Expired(f"plan {identifier!r} has expired (expected the composition's text)")
        return loaded
