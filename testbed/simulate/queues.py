"""Queues of a fluid, and the division of what serves them; all of numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.simulate.conditions import Floats

Indices = NDArray[np.intp]
_LEAST = 1e-12  # of a mass, messages
_ROUNDS = 30  # in practice below 8


def divided(needs: Floats, owner: Indices, capacity: Floats) -> tuple[Floats, Floats]:
    """Max-min fair shares of each owner's capacity, and the level that bounds the greatest of them.

    The level is infinite where all needs are met.
    """
    level = np.full(len(capacity), np.inf)
    over = np.bincount(owner, needs, len(capacity)) > capacity
    if not over.any():
        return needs, level
    some = np.nonzero(over[owner])[0]
    need, at = needs[some], owner[some]
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = capacity / np.bincount(at, minlength=len(capacity))
        for _ in range(_ROUNDS):
            large = need > bound[at]
            remaining = capacity - np.bincount(at, np.where(large, 0.0, need), len(capacity))
            following = remaining / np.bincount(at, large, len(capacity))
            if not (np.abs(following - bound)[over] > 1e-9 * bound[over]).any():
                break
            bound = np.where(over, following, bound)
    level[over] = np.maximum(bound[over], 0.0)
    return np.minimum(needs, level[owner]), level


def totals(owner: Indices, values: Floats, count: int) -> Floats:
    """The sums of values by owner."""
    return np.bincount(owner, values, count).astype(np.float64, copy=False)


@dataclass(slots=True)
class Queue:
    """Several queues: of each the mass (messages), and the sum of the times at which these were born, s."""

    mass: Floats
    born: Floats

    @classmethod
    def empty(cls, count: int) -> Queue:
        """This many queues with nothing in them."""
        return cls(np.zeros(count), np.zeros(count))

    def add(self, other: Queue) -> None:
        """Add to each queue."""
        self.mass += other.mass
        self.born += other.born

    def take(self, mass: Floats) -> Queue:
        """Remove this much, well mixed."""
        share = mass / np.maximum(self.mass, _LEAST)
        taken = Queue(self.mass * share, self.born * share)
        self.mass = self.mass - taken.mass
        self.born = self.born - taken.born
        return taken

    def at(self, index: Indices | slice) -> Queue:
        """Some of the queues; those of a slice are no copies."""
        return Queue(self.mass[index], self.born[index])

    def put(self, index: Indices, other: Queue) -> None:
        """Replace some of the queues."""
        self.mass[index], self.born[index] = other.mass, other.born

    def summed(self, owner: Indices, count: int) -> Queue:
        """The sums by owner."""
        return Queue(totals(owner, self.mass, count), totals(owner, self.born, count))

    def later(self, seconds: float | Floats) -> Queue:
        """The same, born later by this."""
        return Queue(self.mass, self.born + self.mass * seconds)

    def times(self, factor: Floats) -> Queue:
        """As many messages for each, of the same ages."""
        return Queue(self.mass * factor, self.born * factor)
