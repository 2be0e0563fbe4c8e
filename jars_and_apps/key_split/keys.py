"""The keys of the open slides and their owners."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import Hashes, homes
from jars_and_apps.key_split.slides import NEVER

Slides = NDArray[np.int64]
Workers = NDArray[np.int32]


class Keys:
    """The keys that had rows in open slides, by hash, and the owners of those that were moved.

    A key without a move is its home's.  A move (hash, since, owner) holds from slide ``since`` to the key's
    next.
    """

    def __init__(self, weights: NDArray[np.float64], seed: int) -> None:
        self._weights, self._seed = weights, seed
        self.hashes = np.empty(0, np.uint64)
        self.last = np.empty(0, np.int64)
        self._moved = np.empty(0, np.uint64)
        self._since = np.empty(0, np.int64)
        self._owner = np.empty(0, np.int32)

    @classmethod
    def load(cls, weights: NDArray[np.float64], seed: int, values: dict[str, Any], *, moves: bool) -> Self:
        """The keys that were dumped, with their moves or without."""
        keys = cls(weights, seed)
        keys.hashes, keys.last = values["keys.hash"], values["keys.last"]
        if moves:
            keys._moved, keys._since = values["moves.hash"], values["moves.since"]
            keys._owner = values["moves.owner"]
        return keys

    def dump(self) -> dict[str, Any]:
        """The keys as arrays."""
        moves = {"moves.hash": self._moved, "moves.since": self._since, "moves.owner": self._owner}
        return moves | {"keys.hash": self.hashes, "keys.last": self.last}

    def owners(self, hashes: Hashes, slides: Slides) -> Workers:
        """The owner of each of these pairs."""
        owners = homes(hashes, self._weights, self._seed)
        if not len(self._moved):
            return owners
        first = np.searchsorted(self._moved, hashes, side="left")
        at = np.searchsorted(self._moved, hashes, side="right") - 1
        while (early := (at >= first) & (self._since[np.maximum(at, 0)] > slides)).any():
            at[early] -= 1
        return np.where(at >= first, self._owner[np.maximum(at, 0)], owners)

    def known(self, hashes: Hashes) -> NDArray[np.bool_]:
        """True for each key that had rows in open slides."""
        at = np.minimum(np.searchsorted(self.hashes, hashes), max(0, len(self.hashes) - 1))
        return self.hashes[at] == hashes if len(self.hashes) else np.zeros(len(hashes), bool)

    def see(self, hashes: Hashes, slides: Slides) -> None:
        """Note rows of these keys (distinct, rising) up to these slides."""
        known = self.known(hashes)
        at = np.searchsorted(self.hashes, hashes[known])
        self.last[at] = np.maximum(self.last[at], slides[known])
        into = np.searchsorted(self.hashes, hashes[~known])
        self.hashes = np.insert(self.hashes, into, hashes[~known])
        self.last = np.insert(self.last, into, slides[~known])

    def move(self, hashes: Hashes, since: Slides, owners: Workers) -> None:
        """Give these keys (distinct) to new owners from these slides on, instead of moves at them."""
        moved = np.concatenate((hashes, self._moved))
        begun = np.concatenate((since, self._since))
        given = np.concatenate((owners, self._owner)).astype(np.int32)
        order = np.lexsort((begun, moved))
        again = (moved[order][1:] == moved[order][:-1]) & (begun[order][1:] == begun[order][:-1])
        order = order[np.concatenate(([True], ~again))[: len(order)]]
        self._moved, self._since, self._owner = moved[order], begun[order], given[order]

    def forget(self, oldest: int) -> None:
        """Forget the keys whose rows are all before this slide, and the moves before a key's last at it."""
        recent = self.last >= oldest
        if not recent.all():
            self.hashes, self.last = self.hashes[recent], self.last[recent]
        if len(self._moved):
            followed = (self._moved[1:] == self._moved[:-1]) & (self._since[1:] <= oldest)
            useful = self.known(self._moved) & ~np.concatenate((followed, [False]))
            self._moved, self._since = self._moved[useful], self._since[useful]
            self._owner = self._owner[useful]


class SlideCounts:
    """The rows of each key in the newest slide, by which a key is hot."""

    def __init__(self, hashes: Hashes | None = None, counts: NDArray[np.int64] | None = None) -> None:
        self.hashes = np.empty(0, np.uint64) if hashes is None else hashes
        self.counts = np.empty(0, np.int64) if counts is None else counts

    def add(self, hashes: Hashes, counts: NDArray[np.int64], *, anew: bool) -> None:
        """Count these rows of the slide; ``anew``: they are the first of it."""
        if not anew:
            hashes, counts = np.concatenate((self.hashes, hashes)), np.concatenate((self.counts, counts))
        self.hashes, at = np.unique(hashes, return_inverse=True)
        self.counts = np.bincount(at, counts, len(self.hashes)).astype(np.int64)

    def above(self, threshold: float) -> Hashes:
        """The keys of more rows than this."""
        return self.hashes[self.counts > threshold]


def always(hashes: Hashes) -> Slides:
    """For moves that hold in all slides."""
    return np.full(len(hashes), NEVER)
