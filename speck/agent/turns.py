"""Turns: work on one job is done one piece at a time, in the order in which it was asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class Turns:
    """Turns by key.  :meth:`take` fixes the order; the work waits where the turn is entered."""

    _waiting: dict[Hashable, deque[Turn]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, key: Hashable) -> Turn:
        """The next turn of a key: after all that were taken before.  It has to be entered."""
        turn = Turn(self, key)
        with self._changed:
            self._waiting.setdefault(key, deque()).append(turn)
        return turn

    def take_free(self, key: Hashable) -> Turn | None:
        """The turn of a key that no thread holds or awaits, which has to be entered; ``None`` otherwise."""
        with self._changed:
            if key in self._waiting:
                return None
            self._waiting[key] = deque([turn := Turn(self, key)])
            return turn

    def is_taken(self, key: Hashable) -> bool:
        """True if work on this key is under way or waits."""
        with self._changed:
            return key in self._waiting

    def _await(self, turn: Turn) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[turn.key][0] is turn)

    def _end(self, turn: Turn) -> None:
        with self._changed:
            self._waiting[turn.key].popleft()
            if not self._waiting[turn.key]:
                del self._waiting[turn.key]
            self._changed.notify_all()


class Turn:
    """One turn, as a context manager."""

    def __init__(self, turns: Turns, key: Hashable) -> None:
        self.key = key
        self._turns = turns

    def __enter__(self) -> Self:
        self._turns._await(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns._end(self)
