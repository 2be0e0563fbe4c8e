"""The states of open slides, by key, and the windows made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jars_and_apps.key_split.aggregation import Aggregation, State
from jars_and_apps.key_split.slides import NEVER, Windows


class Closing(NamedTuple):
    """A window of a key that closes, by its end, and the merged state of its slides."""

    end: int
    key: str
    hash: int
    state: State


class Panes:
    """States of slides (panes), encoded: what they become does not depend on how often they are stored."""

    def __init__(self, windows: Windows, aggregation: Aggregation) -> None:
        self._windows, self._aggregation = windows, aggregation
        self._slides: defaultdict[int, dict[str, tuple[int, bytes]]] = defaultdict(dict)
        self.closed = NEVER

    def __len__(self) -> int:
        return sum(map(len, self._slides.values()))

    def open(self, slide: int) -> bool:
        """True if a window of the slide is not closed."""
        return slide + self._windows.slides > self.closed

    def add(self, slide: int, key: str, hashed: int, state: State) -> None:
        """Merge the state of more rows into that of the slide and key."""
        slides = self._slides[slide]
        if key in slides:
            state = self._aggregation.merge(self._aggregation.decode(slides[key][1]), state)
        slides[key] = hashed, self._aggregation.encode(state)

    def close(self, until: int) -> Iterator[Closing]:
        """Close the windows up to this end: they come by end and key; call for all of them."""
        for end in self._windows.ends(self._slides, self.closed, until):
            yield from self._window(end)
        self.closed = max(self.closed, until)
        for slide in [slide for slide in self._slides if not self.open(slide)]:
            del self._slides[slide]

    def dump(self) -> tuple[int, dict[str, Any]]:
        """The end up to which windows are closed, and the states."""
        found = [(slide, key, *each) for slide, keys in self._slides.items() for key, each in keys.items()]
        slides, keys, hashes, states = zip(*found, strict=True) if found else ((), (), (), ())
        values: dict[str, Any] = {"panes.slide": np.array(slides, np.int64)}
        values |= {"panes.hash": np.array(hashes, np.uint64), "panes.key": keys, "panes.state": states}
        return self.closed, values

    def load(self, closed: int, values: dict[str, Any]) -> None:
        """Take what was dumped."""
        self.closed = closed
        columns = (values[f"panes.{name}"] for name in ("key", "hash", "state"))
        for slide, key, hashed, state in zip(values["panes.slide"].tolist(), *columns, strict=True):
            self._slides[slide][key] = int(hashed), state

    def _window(self, end: int) -> Iterator[Closing]:
        parts: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for slide in sorted(self._slides):
            if end - self._windows.slides <= slide < end:
                for key, part in self._slides[slide].items():
                    parts[key].append(part)
        for key in sorted(parts):
            yield Closing(end, key, parts[key][0][0], merged(self._aggregation, [s for _, s in parts[key]]))


def merged(aggregation: Aggregation, states: list[bytes]) -> State:
    """The state of all these, merged from the first on."""
    first, *others = (aggregation.decode(state) for state in states)
    for other in others:
        first = aggregation.merge(first, other)
    return first


def widths(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The bytes of each row of a key and a state."""
    keys, states = pc.binary_length(batch.column("key")), pc.binary_length(batch.column("state"))
    return np.asarray(pc.add(pc.add(keys, states), 24).to_numpy(), np.int64)
