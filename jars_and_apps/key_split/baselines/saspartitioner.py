"""SaSPartitioner: shares of the hottest keys, set each slide."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.policy import Policy
from jars_and_apps.key_split.baselines.ranks import hottest, masks, true_hot
from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.fill import deficit, fill
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.placement import Pieces, workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting

Floats = NDArray[np.float64]
_PASSES = 6


class SasPartitioner:
    """The hottest keys of the last slide go to slices of the workers, by shares; other keys to their homes.

    After auroflow's SaSPartitioner.  The first of the ``hot_keys`` hottest, until one whose part of them is
    less than a worker's, are split over slices; the rest of them over all workers.  The shares in a slice are
    set in closed form: they bring the rows of the last slide nearest to the workers' weights.  With a
    ``policy`` the weights of the hot keys are those that it computes from the measured work, from the first
    metrics window on.
    """

    OPTIONS: ClassVar[Options] = {
        "hot_keys": Option("keys, by rank, that count as hot", 10, 1, 1000, whole=True),
        "true_hot": Option("hot keys that are split; 0: by the rule", 0, 0, 1000, whole=True),
        "spread": Option("workers of each of them; 0: by the rule", 0, 0, 1000, whole=True),
    }

    def __init__(self, setting: Setting, counts: Counts) -> None:
        self._setting, self._counts = setting, counts
        self._options = {name: int(value) for name, value in read(self.OPTIONS, setting.options).items()}
        self._policies = tuple(map(Policy.of_text, setting.policies))
        self._targets: Floats = setting.weights / setting.weights.sum()
        self._observed = False
        self._keys = np.empty(0, np.uint64)
        self._shares = np.empty((0, setting.workers))
        self._given = np.empty((0, setting.workers), np.int64)

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting, Counts(setting))

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = cls(setting, Counts.load(setting, arrays))
        found._keys = np.array(arrays["hot.hash"], np.uint64)
        found._shares = np.array(arrays["hot.shares"], np.float64)
        found._given = np.array(arrays["hot.given"], np.int64)
        if "hot.targets" in arrays:
            found._targets, found._observed = np.array(arrays["hot.targets"], np.float64), True
        return found

    def dump(self) -> Arrays:
        """Keys; of the hot ones the shares of each worker, and the rows given to it in this slide."""
        hot = {"hot.hash": self._keys, "hot.shares": self._shares, "hot.given": self._given}
        if self._observed:
            hot["hot.targets"] = self._targets
        return {**self._counts.dump(), **{name: array.copy() for name, array in hot.items()}}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes)
        whole = self._counts.owner[counted.keys]
        pieces = self._place(counted, whole)
        workers = workers_of(counted, whole, pieces, self._counts.table.size)
        return Routing(workers, self._threshold())

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        self._counts.advance(slides)
        hot = hottest(self._counts, self._options["hot_keys"])
        self._keys = self._counts.hashes[hot].copy()
        self._set_shares(hot)

    def observe(self, window: MetricsWindow) -> None:
        """Have the policy set the workers' shares."""
        if (policy := self._policy()) is not None:
            used = np.flatnonzero(self._setting.weights)
            targets = np.zeros(self._setting.workers)
            targets[used] = policy.shares(window.rows[used], window.busy[used])
            self.aim(targets)

    def aim(self, targets: Floats) -> None:
        """Level the hot keys to these shares of the workers (they sum to 1), from the next batch on."""
        self._targets, self._observed = targets, True
        self._set_shares(self._counts.table.find(self._keys))

    def shares(self) -> Floats:
        """The workers' shares to which the hot keys level."""
        return self._targets

    def policy(self) -> str:
        """The name of the policy that set the shares in force, or ``none`` with the reason."""
        found = self._policy()
        if found is None:
            return "none: the job names none"
        return found.name if self._observed else "none: no work was measured yet"

    def _policy(self) -> Policy | None:
        """The policy that judges what is measured next."""
        return self._policies[0] if self._policies else None

    def _set_shares(self, hot: NDArray[np.int64]) -> None:
        self._shares = self._closed_form(hot)
        self._given = np.zeros(self._shares.shape, np.int64)

    def _threshold(self) -> float:
        """The rows of the last of the hot keys in the last slide."""
        rows = self._counts.before[self._counts.table.find(self._keys)]
        return float(rows.min()) - 1 if len(rows) else float("inf")

    def _place(self, counted: Counted, whole: NDArray[np.int32]) -> Pieces:
        place_of = np.full(self._counts.table.size + 1, -1)  # the last one is that of a key without a slot
        place_of[counted.keys] = np.arange(len(counted.keys))
        pieces: Pieces = {}
        for number, place in enumerate(place_of[self._counts.table.find(self._keys)].tolist()):
            if place < 0:
                continue
            given = deficit(self._shares[number], self._given[number], int(counted.rows[place]))
            self._given[number] += given
            workers = np.flatnonzero(given).tolist()
            whole[place] = workers[0]
            if len(workers) > 1:
                pieces[place] = [(worker, int(given[worker])) for worker in workers]
        return pieces

    def _closed_form(self, hot: NDArray[np.int64]) -> Floats:
        """The shares that level the last slide: key by key, each within its slice, a few times over."""
        counts, weights = self._counts, self._targets
        rows = counts.before[hot]
        split = self._options["true_hot"] or true_hot(rows, int((weights > 0).sum()))
        cold = counts.before.copy()
        cold[hot] = 0
        loads = np.bincount(counts.owner, weights=cold, minlength=len(weights)).astype(np.float64)
        loads += rows[split:].sum() * weights / weights.sum()
        shares = np.tile(weights / weights.sum(), (len(hot), 1))
        slices = masks(rows[:split], np.flatnonzero(weights), self._options["spread"])
        given = np.zeros((len(slices), len(weights)))
        for number, workers in _PASSES * list(enumerate(slices)):
            loads -= given[number]
            given[number, workers] = fill(loads[workers], int(rows[number]), weights[workers])
            loads += given[number]
        shares[: len(slices)] = given / rows[: len(slices), None]
        return shares
