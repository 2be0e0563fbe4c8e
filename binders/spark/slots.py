"""Whether a Connect server's site has a slot for one more job, when others are about to take some too.

A composition asks about all of its jobs before it starts any: what was promised to one is not promised to
another.  A slot is a job, whichever of its copies has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

PROMISED = 60.0  # s, for which a slot is kept for a job that was asked about and not started
FRESH = 1.0  # s, for which what ran there is good enough to promise a slot, and not to refuse one


@dataclass
class Slots:
    """What this process has promised of the slots of one site.

    ``running`` answers the names of the jobs that run there, which takes the server ten times as long as any
    other question.
    """

    running: Callable[[], Iterable[str]]
    _seen: frozenset[str] = field(default=frozenset(), init=False)
    _looked: float = field(default=float("-inf"), init=False)
    _promises: dict[str, float] = field(default_factory=dict, init=False)
    _started: set[str] = field(default_factory=set, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def promise(self, name: str, slots: int) -> int | None:
        """Promise one of so many slots to a job; answers how many others have one if none is left.

        Raises what ``running`` raises.
        """
        with self._turn:
            if time.monotonic() > self._looked + FRESH:
                self._look()
            elif len(self._others(name)) >= slots:
                self._look()  # one may have come free since
            others = len(self._others(name))
            if others >= slots:
                return others
            self._promises[name] = time.monotonic() + PROMISED
            self._started.discard(name)
            return None

    def started(self, name: str) -> None:
        """Note that a job has taken the slot that was promised to it."""
        with self._turn:
            self._started.add(name)

    def freed(self, name: str) -> None:
        """Note that a job has stopped, or could not start.  A slot for a copy to come stays promised."""
        with self._turn:
            if name in self._started:
                self._started.discard(name)
                self._promises.pop(name, None)

    def _look(self) -> None:
        self._seen = frozenset(self.running())
        self._looked = time.monotonic()

    def _others(self, name: str) -> set[str]:
        now = time.monotonic()
        self._promises = {each: until for each, until in self._promises.items() if until > now}
        return {*self._seen, *self._promises} - {name}
