"""DAGreedy: hot keys by their fan-out against the loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from jars_and_apps.key_split.baselines.hot_keys import Floats, HotKey, HotKeys, Parts
from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.fill import fill
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.protocol import Setting


class DaGreedy(HotKeys):
    """A row of a hot key goes to the worker of greatest ``alpha * holds - (1 - alpha) * (L - avg) / avg``.

    ``holds``: 1 for a worker that has rows of the key in the window, else 0; L: its rows in the window by its
    weight; avg: their mean.  Zapridou, Mytilinis and Ailamaki, "Dalton: learned partitioning for distributed
    data streams", VLDB 2022.  A key that is hot in a slide stays so in the next.  Here the rows that
    a key has in a batch are placed at once.
    """

    OPTIONS: ClassVar[Options] = {
        "alpha": Option("weight of fan-out against load", 0.5, 0, 0.99),
        "hot": Option("a key is hot above 1/(hot * workers) of a slide", 100, 0.1, 1000),
    }

    def __init__(self, setting: Setting, counts: Counts, loads: Loads, holders: Holders) -> None:
        super().__init__(setting, counts, loads, holders)
        options = read(self.OPTIONS, setting.options)
        self._bonus = options["alpha"] / (1 - options["alpha"])
        self._hot = options["hot"]

    def _place(self, keys: Sequence[HotKey], rows: Floats, batch: int) -> list[Parts]:
        return [self._placed(key, rows) for key in keys]

    def _placed(self, key: HotKey, rows: Floats) -> Parts:
        known = self._holders.of(key.hash)
        holding = known or [key.owner]
        given = self._given(rows, holding, key.rows)
        rows += given
        parts = [(worker, int(given[worker])) for worker in np.flatnonzero(given).tolist()]
        if len(holding) > 1 or parts != [(key.owner, key.rows)]:
            first = () if known else holding
            self._holders.mark(key.hash, (*first, *(worker for worker, _ in parts)), self._counts.slide)
        return parts

    def _given(self, rows: Floats, holding: list[int], count: int) -> Floats:
        """The rows of one key for each worker: holders first, until one that has none of it scores higher."""
        shares = self._shares
        levels = np.divide(rows, shares, out=np.full(len(rows), np.inf), where=shares > 0)
        bonus = self._bonus * max((rows.sum() + count / 2) / len(rows), 1.0)
        given = np.zeros(len(rows))
        holders = list(holding)
        levels[holders] = np.inf  # from here on, of those that do not hold it
        while True:
            next_one = int(levels.argmin())
            level = levels[next_one] + bonus
            now = rows[holders] + given[holders]
            room = np.maximum(level * shares[holders] - now, 0.0)
            remaining = count - int(given.sum())
            if remaining <= room.sum():
                given[holders] += fill(now, remaining, shares[holders])
                return given
            given[holders] += np.floor(room)
            given[next_one] += 1
            holders.append(next_one)
            levels[next_one] = np.inf
            if int(given.sum()) == count:
                return given
