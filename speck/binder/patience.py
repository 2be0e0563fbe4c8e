"""Calls that may take longer than their caller can wait, and that are made again and again.

A time-out is that of :mod:`speck.binder.asking`, but a late answer is that of the next request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from speck.binder.asking import begin

MOMENT = 0.25  # s, for which a call is awaited that was late before

_Key = TypeVar("_Key", bound=Hashable)
_Result = TypeVar("_Result")


@dataclass
class PatientCalls(Generic[_Key, _Result]):
    """Calls side by side, each with a key; a call is not made again while one with its key is under way.

    A result that comes too late is that of the next request with its key, for ``fresh`` seconds.  ``begin``
    makes a call in a thread of a given name.
    """

    name: str
    fresh: float = 15.0
    begin: Callable[[Callable[[], _Result], str], Future[_Result]] = begin
    _begun: dict[_Key, _Call[_Result]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def results(
        self,
        calls: Mapping[_Key, Callable[[], _Result]],
        seconds: float,
        late: Collection[_Key] = (),
        moment: float = MOMENT,
    ) -> dict[_Key, _Result]:
        """The results that are there within ``seconds``; those of other calls are left out.

        Calls that were under way before, and those of the keys in ``late``, are awaited only for a ``moment``
        (s).  Raises the error of a call.
        """
        with self._lock:
            self._forget_old()
            waited = {key for key, call in self._begun.items() if not call.future.done()}.union(late)
            found = {key: self._call(key, call) for key, call in calls.items()}
        wait([each.future for key, each in found.items() if key not in waited], seconds)
        wait([each.future for each in found.values()], moment)
        with self._lock:
            for key, each in found.items():
                if each.future.done() and self._begun.get(key) is each:
                    del self._begun[key]
        return {key: each.future.result() for key, each in found.items() if each.future.done()}

    def _call(self, key: _Key, call: Callable[[], _Result]) -> _Call[_Result]:
        if key not in self._begun:
            self._begun[key] = _Call(self.begin(call, self.name))
        return self._begun[key]

    def _forget_old(self) -> None:
        oldest = time.monotonic() - self.fresh
        self._begun = {key: each for key, each in self._begun.items() if each.ended >= oldest}


@dataclass
class _Call(Generic[_Result]):
    future: Future[_Result]
    ended: float = field(default=float("inf"), init=False)  # monotonic time, s

    def __post_init__(self) -> None:
        self.future.add_done_callback(lambda _: setattr(self, "ended", time.monotonic()))
