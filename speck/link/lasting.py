"""Answers that last: what the coordinator asks a site at rest again and again, and need not ask.

Where an answer is as the one before but for its times, the agent marks it as *lasting*.  From then on the
agent looks by itself whether it is still right, and withdraws it by a short message otherwise; meanwhile the
coordinator uses it without a call.  As a look (:mod:`speck.link.look`), it belongs to one connection, and
ends with it.

Only the last call of a method at an engine or a broker may have such an answer, so that both ends agree on
what the agent looks after.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# Observations, by which nothing is decided: by ``behind``, for one, a drain decides that it is over.
METHODS = frozenset({"measure", "stored", "dropped"})
# Of a call: an answer that lasts is accepted; of an answer: it lasts; alone: the number of one withdrawn.
LASTS = "l"
LOOK = 10.0  # s between two looks of the agent at such an answer
SHARE = 5  # times the duration of a look, after which the agent looks again
PATIENCE = 10.0  # s, for one look
LONGEST = 300.0  # s, after which the coordinator asks again
SELDOM = 15.0  # s since the question before; one that is asked more often has a reader, who gets new answers

_PASSING = frozenset({"observed_at", "counted_at", "batch_id", "batch_duration_ms"})  # of a job's metrics
_MARGIN = 60.0  # s, for which the agent looks longer than the coordinator may use an answer
_MOST_WITHDRAWN = 64  # numbers that are kept

_Place = tuple[str, ...]


def is_same(before: str, after: str) -> bool:
    """True if two answers (JSON) differ in times at most; false if there is an error in them."""
    present = json.loads(after)
    return not _has_error(present) and _without_times(json.loads(before)) == _without_times(present)


def _has_error(answer: Any) -> bool:
    values = answer.values() if isinstance(answer, dict) else ()
    return any(isinstance(each, dict) and "$error" in each for each in values)


def _without_times(answer: Any) -> Any:
    return {key: _lasting_part(each) for key, each in answer.items()} if isinstance(answer, dict) else answer


def _lasting_part(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name not in _PASSING}


def _place(call: Mapping[str, Any]) -> _Place:
    """The engine or broker of a call, its method and its owner."""
    return tuple(str(call.get(each)) for each in "emo")


# --- the coordinator's end


@dataclass(frozen=True, slots=True)
class _Usable:
    """The last answer (JSON) of a place, to the call ``number`` with the text ``key``; ``noted`` is in s."""

    number: int
    key: str
    text: str
    lasts: bool
    noted: float


@dataclass
class UsableAnswers:
    """The answers of one connection that last.  ``clock`` is steady, s.  Safe to use from several threads."""

    clock: Callable[[], float] = time.monotonic
    _last: dict[_Place, _Usable] = field(default_factory=dict, init=False)
    _asked: dict[_Place, float] = field(default_factory=dict, init=False)
    _withdrawn: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_WITHDRAWN), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def note(self, call: Mapping[str, Any], key: str, number: int, text: str, *, lasts: bool) -> None:
        """Note the answer (JSON) to a call with this text and number, whether it lasts or not."""
        with self._lock:
            known = self._last.get(place := _place(call))
            if known is None or known.number < number:
                lasts = lasts and number not in self._withdrawn
                self._last[place] = _Usable(number, key, text, lasts, self.clock())

    def withdraw(self, number: object) -> None:
        """Note that the answer to this call lasts no longer; that may be before the answer is noted."""
        if type(number) is not int:
            return
        with self._lock:
            self._withdrawn.append(number)
            for place, known in self._last.items():
                if known.number == number:
                    self._last[place] = replace(known, lasts=False)

    def get(self, call: Mapping[str, Any], key: str) -> tuple[Any, float] | None:
        """The answer to a call and its age, s; ``None`` if it has to be asked for."""
        with self._lock:
            now, known = self.clock(), self._last.get(place := _place(call))
            asked, self._asked[place] = self._asked.get(place, now), now
            if known is None or known.key != key or not known.lasts:
                return None
            if now - known.noted > LONGEST or now - asked < SELDOM:
                return None
            return json.loads(known.text), now - known.noted


# --- the agent's end


@dataclass(slots=True)
class Watched:
    """An answer (JSON) that lasts, to the call ``number``; ``due`` and ``end`` are steady times, s."""

    number: int
    call: Mapping[str, Any]
    text: str
    due: float
    end: float


@dataclass
class WatchedAnswers:
    """The answers of one connection that the agent looks after; otherwise as :class:`UsableAnswers`."""

    clock: Callable[[], float] = time.monotonic
    _last: dict[_Place, tuple[int, Watched | None]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def note(self, call: Mapping[str, Any], number: int, text: str, *, lasts: bool) -> None:
        """Note the answer (JSON) to a call, whether it lasts or not."""
        now = self.clock()
        watched = Watched(number, call, text, now + LOOK, now + LONGEST + _MARGIN) if lasts else None
        with self._lock:
            known = self._last.get(place := _place(call))
            if known is None or known[0] < number:
                self._last[place] = number, watched

    def due(self) -> list[Watched]:
        """The answers that are to be looked at."""
        now = self.clock()
        with self._lock:
            watched = [each for _, each in self._last.values() if each is not None]
        for each in watched:
            if each.end < now:
                self._forget(each)
        return [each for each in watched if each.due <= now <= each.end]

    def looked(self, watched: Watched, begun: float, text: str | None) -> bool:
        """Note the answer of a look at ``begun``, ``None`` without one; true if the former is withdrawn."""
        if text is None or not is_same(watched.text, text):
            return self._forget(watched)
        now = self.clock()
        watched.due = now + max(LOOK, SHARE * (now - begun))
        return False

    def _forget(self, watched: Watched) -> bool:
        """Look no longer after an answer; false if a later call has taken its place."""
        with self._lock:
            known = self._last.get(place := _place(watched.call))
            if known is None or known[1] is not watched:
                return False
            self._last[place] = watched.number, None
            return True
