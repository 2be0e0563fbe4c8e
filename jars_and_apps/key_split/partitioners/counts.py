"""The rows of each key in this slide and the last one, and the key's owner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import homes
from jars_and_apps.key_split.partitioners.keytable import KeyTable
from jars_and_apps.key_split.partitioners.protocol import Arrays, Setting
from jars_and_apps.key_split.partitioners.sketch import Sketch

MOST_KEYS = 1_000_000  # with a count of their own
_COLUMNS = {"rows": np.int64, "before": np.int64, "seen": np.int64, "home": np.int32, "owner": np.int32}
Moves = tuple[NDArray[np.uint64], NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Counted:
    """The distinct keys of a batch.

    ``slots`` has the slot of each row, -1 for a key without one; ``keys`` the distinct slots and ``rows``
    their rows in the batch, most rows first.  ``others``: the homes of the rows without a slot, in order.
    Slots from ``first_new`` on are new.
    """

    slots: NDArray[np.int64]
    keys: NDArray[np.int64]
    rows: NDArray[np.int64]
    others: NDArray[np.int32]
    first_new: int


class Counts:
    """The keys of the last window and the present slide: rows, owner.

    A key that is silent for a window is forgotten, with its owner.  Above ``most`` keys, those that are not
    in the table yet stay out of it, at their homes, until a sketch counts more than a share of the slide.
    """

    def __init__(self, setting: Setting, most: int = MOST_KEYS) -> None:
        self.setting = setting
        self.table = KeyTable(_COLUMNS)
        self.slide = 0
        self.total = 0
        self.total_before = 0
        self._most = most
        self._sketch = Sketch.begin(setting.workers)
        self._returned = np.empty(0, np.int64)
        self._remaining: Moves = (np.empty(0, np.uint64), np.empty(0, np.int32))

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays, most: int = MOST_KEYS) -> Self:
        """The counts that were dumped."""
        counts = cls(setting, most)
        counts.table = KeyTable.load(_COLUMNS, {name: arrays[f"keys.{name}"] for name in ("hash", *_COLUMNS)})
        counts.slide, counts.total, counts.total_before = arrays["totals"].tolist()
        counts._sketch = Sketch.load(setting.workers, arrays)
        counts._remaining = (np.array(arrays["left.hash"]), np.array(arrays["left.home"]))
        return counts

    def dump(self) -> dict[str, NDArray[np.generic]]:
        """Columns of the keys, totals, sketch."""
        return {
            **{f"keys.{name}": column for name, column in self.table.dump().items()},
            "totals": np.array([self.slide, self.total, self.total_before], np.int64),
            "sketch": self._sketch.counts.copy(),
            "left.hash": self._remaining[0],
            "left.home": self._remaining[1],
        }

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of each key in this slide, by slot."""
        return self.table["rows"]

    @property
    def before(self) -> NDArray[np.int64]:
        """The rows of each key in the slide before."""
        return self.table["before"]

    @property
    def owner(self) -> NDArray[np.int32]:
        """The owner of each key, by slot."""
        return self.table["owner"]

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each key, by slot."""
        return self.table.hashes

    def take(self, hashes: NDArray[np.uint64], share: float = 0.0) -> Counted:
        """Count a batch.  ``share``: of a slide, above which a key gets a slot even if the table is full."""
        first_new = self.table.size
        slots = self.table.find(hashes)
        missing = np.flatnonzero(slots < 0)
        if len(missing):
            self._add(hashes[missing], share)
            slots[missing] = self.table.find(hashes[missing])
        others = missing[slots[missing] < 0]
        keys, rows = _distinct(slots if not len(others) else slots[slots >= 0], self.table.size)
        away = self.owner[keys] != self.table["home"][keys]
        self._returned = keys[away & (self.table["seen"][keys] < self.slide)]
        self.rows[keys] += rows
        self.table["seen"][keys] = self.slide
        self.total += len(hashes)
        at_home = homes(hashes[others], self.setting.weights, self.setting.seed)
        return Counted(slots, keys, rows, at_home, first_new)

    def advance(self, slides: int) -> None:
        """Begin this number of slides."""
        self.slide += slides
        self.before[:] = self.rows if slides == 1 else 0
        self.rows[:] = 0
        self.total_before, self.total = (self.total if slides == 1 else 0), 0
        self._sketch.clear()
        retained = self.slide - self.table["seen"] <= self.setting.slides
        away = ~retained & (self.owner != self.table["home"])
        hashes, at_home = self._remaining
        remaining = (
            np.concatenate([hashes, self.hashes[away]]),
            np.concatenate([at_home, self.table["home"][away]]),
        )
        self._remaining = remaining
        self.table.keep(retained)

    def moves(self, changed: NDArray[np.int64]) -> Moves:
        """The keys, by hash, with another owner than the router may take them to have, and their owners.

        They are those whose owner ``changed`` in this batch; those away from home that come for the first
        time in this slide, as the router may have forgotten them; and those forgotten since the last batch,
        which are at home again.  To be called once a batch, after ``take``.
        """
        slots = np.union1d(changed, self._returned)
        hashes, at_home = self._remaining
        self._remaining = (np.empty(0, np.uint64), np.empty(0, np.int32))
        still = ~np.isin(hashes, self.hashes[slots])
        owners = np.concatenate([self.owner[slots], at_home[still]])
        return np.concatenate([self.hashes[slots], hashes[still]]), owners

    def threshold(self, hot: float) -> float:
        """The rows of a slide above which a key is hot: ``1 / (hot * workers)`` of the slide before.

        Infinite if that had none.
        """
        return self.total_before / (hot * self.setting.workers) if self.total_before else math.inf

    def _add(self, hashes: NDArray[np.uint64], share: float) -> None:
        new, rows = np.unique(hashes, return_counts=True)
        room = max(self._most - self.table.size, 0)
        rest = new[room:]
        if len(rest):
            estimates = self._sketch.add(rest, rows[room:])
            hot = estimates > share * max(self.total_before, self.total + len(hashes))
            new = np.concatenate([new[:room], rest[hot]])
        slots = self.table.add(new)
        self.owner[slots] = homes(new, self.setting.weights, self.setting.seed)
        self.table["home"][slots] = self.owner[slots]


def _distinct(slots: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct slots and their rows, most rows first, then by slot."""
    if size > 8 * len(slots):
        keys, rows = np.unique(slots, return_counts=True)
    else:
        every = np.bincount(slots, minlength=size)
        keys = np.flatnonzero(every)
        rows = every[keys]
    order = np.argsort(-rows, kind="stable")
    return keys[order], rows[order]
