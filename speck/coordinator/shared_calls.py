"""Calls that are made once for all who ask for the same at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True)
class SharedCalls:
    """The calls that are under way, by key.  A caller that comes meanwhile gets the result, or the error."""

    _under_way: dict[Hashable, Future[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, key: Hashable, call: Callable[[], _T]) -> _T:
        """The result of the call with this key: of the one that is under way, or else of a new one."""
        with self._lock:
            shared = self._under_way.get(key)
            own: Future[_T] | None = None
            if shared is None:
                shared = self._under_way[key] = own = Future()
        if own is not None:
            self._make(key, call, own)
        result: _T = shared.result()
        return result

    def _make(self, key: Hashable, call: Callable[[], _T], own: Future[_T]) -> None:
        try:
            result = call()
        except BaseException as error:  # whatever it is, all who wait get it
            self._end(key)
            own.set_exception(error)
        else:
            self._end(key)
            own.set_result(result)

    def _end(self, key: Hashable) -> None:
        with self._lock:
            del self._under_way[key]
