"""A table of keys: dense numbers for hashes, with columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from jars_and_apps.key_split.partitioners.protocol import Arrays

Hashes = NDArray[np.uint64]
Slots = NDArray[np.int64]
_ROOM = 1024  # rows at least; doubled when they are full
_SPARSE = 4  # places in the index a key, so that few keys want the same place


class KeyTable:
    """The slots of keys, dense from 0, and named columns of one value a slot.

    A key is found at the place in an index that the low bits of its hash name; the few keys whose place was
    taken are found by binary search.  Slots depend on nothing but the calls made, in order.
    """

    def __init__(self, columns: Mapping[str, DTypeLike]) -> None:
        self.size = 0
        self._hashes: Hashes = np.zeros(_ROOM, np.uint64)
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(_ROOM, kind) for name, kind in columns.items()
        }
        self._reindex()

    @classmethod
    def load(cls, columns: Mapping[str, DTypeLike], arrays: Arrays) -> Self:
        """The table that was dumped."""
        table = cls(columns)
        table._grow(len(arrays["hash"]))
        table.size = len(arrays["hash"])
        table.hashes[:] = arrays["hash"]
        for name in columns:
            table[name][:] = arrays[name]
        table._reindex()
        return table

    def dump(self) -> dict[str, NDArray[np.generic]]:
        """The hashes, and the columns by name."""
        return {"hash": self.hashes.copy(), **{name: self[name].copy() for name in self._columns}}

    @property
    def hashes(self) -> Hashes:
        """The hashes of the keys, by slot."""
        return self._hashes[: self.size]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column, one value a slot, to be changed in place."""
        return self._columns[name][: self.size]

    def find(self, hashes: Hashes) -> Slots:
        """The slot of each hash, -1 for a key that is not in the table."""
        slots: Slots = self._index[hashes & self._mask]
        slots[(self._hashes[slots] != hashes) | (slots < 0)] = -1
        if len(self._displaced):
            self._find_displaced(hashes, slots)
        return slots

    def add(self, hashes: Hashes) -> Slots:
        """New slots, with zeros in all columns, of distinct hashes that are not in the table."""
        slots = np.arange(self.size, self.size + len(hashes))
        self._grow(self.size + len(hashes))
        self.size += len(hashes)
        self._hashes[slots] = hashes
        for column in self._columns.values():
            column[slots] = 0
        if self.size * _SPARSE > len(self._index):
            self._reindex()
        else:
            self._enter(slots)
        return slots

    def keep(self, retained: NDArray[np.bool_]) -> None:
        """Forget the keys at slots that are not ``kept``; the others close up, in their order."""
        size = int(np.count_nonzero(retained))
        if size == self.size:
            return
        for array in (self._hashes, *self._columns.values()):
            array[:size] = array[: self.size][retained]
        self.size = size
        self._reindex()

    def _grow(self, size: int) -> None:
        room = len(self._hashes)
        if size <= room:
            return
        room = max(2 * room, size)
        self._hashes = _longer(self._hashes, room)
        self._columns = {name: _longer(column, room) for name, column in self._columns.items()}

    def _reindex(self) -> None:
        places = 1 << max(12, (2 * _SPARSE * self.size).bit_length())
        self._mask = np.uint64(places - 1)
        self._index: Slots = np.full(places, -1, np.int64)
        self._displaced: Slots = np.empty(0, np.int64)
        self._enter(np.arange(self.size))

    def _enter(self, slots: Slots) -> None:
        places = self.hashes[slots] & self._mask
        free = self._index[places] < 0
        self._index[places[free]] = slots[free]
        remaining = slots[self._index[places] != slots]
        found = np.concatenate([self._displaced, remaining])
        self._displaced = found[np.argsort(self._hashes[found])]
        self._displaced_hashes = self._hashes[self._displaced]

    def _find_displaced(self, hashes: Hashes, slots: Slots) -> None:
        missing = np.flatnonzero(slots < 0)
        desired = hashes[missing]
        at = np.searchsorted(self._displaced_hashes, desired)
        at[at == len(self._displaced)] = 0
        same = self._displaced_hashes[at] == desired
        slots[missing[same]] = self._displaced[at[same]]


def _longer(array: NDArray[Any], room: int) -> NDArray[Any]:
    longer = np.zeros(room, array.dtype)
    longer[: len(array)] = array
    return longer
