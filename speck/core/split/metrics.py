"""Windows of the measured work of a split's combiners, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NORMAL = 0.5  # the imbalance at which the reward is 0
MOST_SHARE = 2.0  # of an observed share of the rows, by the mean


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a part in a window of time: rows, and seconds of processor and of wall time."""

    rows: int = 0
    busy: float = 0.0
    wall: float = 0.0

    def __add__(self, other: Work) -> Work:
        """Both together."""
        return Work(self.rows + other.rows, self.busy + other.busy, self.wall + other.wall)

    def data(self) -> dict[str, float]:
        """The work as in control messages."""
        return {"rows": self.rows, "busy": round(self.busy, 6), "wall": round(self.wall, 6)}


@dataclass(frozen=True, slots=True)
class WorkWindow:
    """A window that ends at ``end`` (Unix time, s) and is ``seconds`` long.

    ``workers``: the work of each combiner, ``None`` for one that did not report.  ``weights``: the shares by
    which the partitioner gave rows away, empty if it did not report.
    """

    end: float
    seconds: float
    workers: tuple[Work | None, ...]
    weights: tuple[float, ...] = ()

    def control(self) -> bytes:
        """The control message to the partitioner."""
        return json.dumps({"end": self.end, "workers": self._workers()}, separators=(",", ":")).encode()

    def data(self) -> dict[str, Any]:
        """The window as plain data."""
        return {
            "end": self.end,
            "seconds": self.seconds,
            "workers": self._workers(),
            "weights": list(self.weights),
        }

    def _workers(self) -> list[dict[str, float] | None]:
        return [None if each is None else each.data() for each in self.workers]


def imbalance(loads: Sequence[float], weights: Sequence[float] = ()) -> float | None:
    """The greatest load over the mean, less 1; both by weight if there are some; ``None`` without load.

    Workers of weight 0 are left out: they finish what they have.
    """
    shares = weights or [1.0] * len(loads)
    used = [(load, share) for load, share in zip(loads, shares, strict=True) if share > 0]
    total = sum(load for load, _ in used)
    if total <= 0:
        return None
    mean = total / sum(share for _, share in used)
    return max(load / share for load, share in used) / mean - 1


def reward(busy: Sequence[float]) -> float:
    """The reward of a routing by the busy times that it led to: 0 at an imbalance of 0.5, 3 at none.

    With p the mean of max/mean - 1 and mean(abs(b - mean))/mean, and f = (0.5 - p)/0.5: (1 + f)**2 - 1, or
    -((1 - f)**2 - 1) for f < 0.
    """
    mean = sum(busy) / len(busy)
    if mean <= 0:
        return 0.0
    spread = sum(abs(each - mean) for each in busy) / len(busy) / mean
    gain = (NORMAL - (max(busy) / mean - 1 + spread) / 2) / NORMAL
    return (1 + gain) ** 2 - 1 if gain >= 0 else -((1 - gain) ** 2 - 1)


def observation(window: Mapping[str, Any]) -> list[float]:
    """The observation of a window (plain data): shares of the rows (mean 1, at most 2), then busy shares."""
    workers = [each or Work().data() for each in window["workers"]]
    mean = sum(each["rows"] for each in workers) / len(workers)
    rows = [min(each["rows"] / mean, MOST_SHARE) if mean else 0.0 for each in workers]
    return [*rows, *(each["busy"] / window["seconds"] for each in workers)]


def transition(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """A step of a recorded run: ``obs, action, reward, next_obs``, of two windows (plain data) in turn.

    The action is the weights in force in the later window; without a report of them the shares of its rows.
    """
    following = observation(after)
    workers = len(after["workers"])
    shares = [each / workers for each in following[:workers]]
    return {
        "obs": observation(before),
        "action": after["weights"] or shares,
        "reward": reward([each["busy"] if each else 0.0 for each in after["workers"]]),
        "next_obs": following,
    }
