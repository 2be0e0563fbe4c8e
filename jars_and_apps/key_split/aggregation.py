"""The aggregation: the class that users write, completed by what it may leave out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.slides import Windows

Columns = Mapping[str, NDArray[Any]]
State = Any


class UserAggregation(Protocol):
    """The methods that every aggregation has; ``encode`` with ``decode``, and ``add_all``, are optional."""

    def add(self, columns: Columns) -> State:
        """The state of some rows of one key and slide.

        ``columns`` has ``time`` (int64, microseconds since 1970) and the user's columns, one value a row:
        numbers and true/false in their own types, text and binary as objects.
        """

    def merge(self, one: State, other: State) -> State:
        """The state of the rows of both; associative."""

    def finish(self, state: State) -> Mapping[str, Any]:
        """The fields of the result: text, numbers, true/false, None, lists of them."""


class Aggregation:
    """An aggregation with the optional methods in place.

    Without ``encode`` and ``decode`` a state is JSON.  ``add_all(columns, starts)`` is called for many keys
    and slides at once: their rows one group after another, group i from row ``starts[i]`` (int64) on, no
    group empty (as ``numpy.add.reduceat`` takes it); it returns one state a group.  Without it, ``add`` is
    called for each.
    """

    def __init__(self, user: UserAggregation) -> None:
        self._user = user
        self.merge = user.merge
        self.finish = user.finish

    def encode(self, state: State) -> bytes:
        """The state as bytes; TypeError or ValueError if it is not JSON and the class has no ``encode``."""
        encode = getattr(self._user, "encode", None)
        if encode is None:
            return json.dumps(state, allow_nan=True, separators=(",", ":")).encode()
        return bytes(encode(state))

    def decode(self, data: bytes) -> State:
        """The state that was encoded."""
        decode = getattr(self._user, "decode", None)
        return json.loads(data) if decode is None else decode(data)

    def add_all(self, columns: Columns, starts: NDArray[np.int64]) -> Sequence[State]:
        """The states of the groups that begin at these rows."""
        add_all = getattr(self._user, "add_all", None)
        if add_all is not None:
            states: Sequence[State] = add_all(columns, starts)
            return states
        ends = [*starts[1:].tolist(), len(next(iter(columns.values())))]
        return [
            self._user.add({name: values[start:end] for name, values in columns.items()})
            for start, end in zip(starts.tolist(), ends, strict=True)
        ]


def result(aggregation: Aggregation, windows: Windows, end: int, key: str, state: State) -> bytes:
    """The result of a window and key: a JSON object, the key, start and end first; TypeError if it is none.

    Numbers that are not finite become null, which JSON has.
    """
    start, until = windows.times(end)
    base = {"key": key, "start": start, "end": until}
    fields = {**base, **aggregation.finish(state), **base}
    return json.dumps(_plain(fields), allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """The value in the types of JSON."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
