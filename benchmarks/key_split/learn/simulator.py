"""A split in the simulator: real partitioners, workers of any speed, one metrics window a slide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.key_split.stream import Stream
from jars_and_apps.key_split.baselines.saspartitioner import SasPartitioner
from jars_and_apps.key_split.partitioners.protocol import MetricsWindow, Partitioner, Setting
from speck.core.split.metrics import Work, WorkWindow

Floats = NDArray[np.float64]
PROFILES = ("equal", "one-slow", "half-slow", "uneven", "drifting")
SLOW = 4.0  # times, at most, that a worker is slower than another
NOISE = 0.05  # of a busy time, as a share of it
ROWS, KEYS, BATCHES = 500, 2_000, 2  # rows a worker and slide; batches a slide
MICROSECONDS = 20.0  # to add a row, at speed 1
HOT_KEYS = 40  # of saspartitioner: with 10, the cold keys of a slow worker can be all that it has time for


@dataclass(frozen=True)
class Episode:
    """An episode: its workers, Zipf exponent, profile of speeds, and seed."""

    workers: int
    z: float
    profile: str
    seed: int
    steps: int = 50

    def speeds(self) -> Iterator[Floats]:
        """The speeds of the workers in each slide, at most 1."""
        random = np.random.default_rng([self.seed, 1])
        speeds = self._first(random)
        for step in range(10**9):
            if self.profile == "drifting" and step and step % 15 == 0:
                speeds = self._first(random)
            yield speeds

    def _first(self, random: np.random.Generator) -> Floats:
        speeds = np.ones(self.workers)
        if self.profile == "one-slow":
            speeds[0] = 1 / SLOW
        elif self.profile == "half-slow":
            speeds[: self.workers // 2] = 1 / SLOW
        elif self.profile in ("uneven", "drifting"):
            speeds = SLOW ** -random.random(self.workers)
        return np.asarray(random.permutation(speeds))


class Simulated:
    """A split that runs slide by slide; ``partitioner`` routes real rows."""

    def __init__(self, episode: Episode, partitioner: type[Partitioner], **options: float) -> None:
        rows = ROWS * episode.workers
        stream = Stream(episode.z, episode.seed, KEYS, rows, rows // BATCHES, slides=10**9)
        self.setting = Setting(np.ones(episode.workers), episode.seed, 1, options)
        self.partitioner = partitioner.begin(self.setting)
        self._stream, self._hashes = stream, stream.hashes()
        self._ranks, self._speeds = stream.ranks(), episode.speeds()
        self._noise = np.random.default_rng([episode.seed, 2])
        self._batch = 0

    def step(self) -> dict[str, Any]:
        """Route a slide, and let the next begin; its metrics window, as plain data."""
        hashes, size = self._hashes[next(self._ranks)], self._stream.batch
        loads = np.zeros(self.setting.workers)
        for start in range(0, len(hashes), size):
            found = self.partitioner.route(hashes[start : start + size], self._batch)
            loads += np.bincount(found.workers, minlength=len(loads))
            self._batch += 1
        busy = loads / next(self._speeds) * np.exp(NOISE * self._noise.standard_normal(len(loads)))
        window = self._window(loads, busy * MICROSECONDS / 1e6)
        self.partitioner.observe(window)
        self.partitioner.advance(1)
        return self._recorded(window)

    def _window(self, loads: Floats, busy: Floats) -> MetricsWindow:
        return MetricsWindow(loads, busy, busy, float(self._batch))

    def _recorded(self, window: MetricsWindow) -> dict[str, Any]:
        """The window as the coordinator would receive it."""
        works = (
            Work(int(rows), float(busy), float(busy))
            for rows, busy in zip(window.rows, window.busy, strict=True)
        )
        return WorkWindow(window.end, 1.0, tuple(works), self._in_force(window.rows)).data()

    def _in_force(self, loads: Floats) -> tuple[float, ...]:
        """The shares by which the slide was given away."""
        return tuple((loads / loads.sum()).tolist())


class Steered(Simulated):
    """A split by saspartitioner whose shares are set from outside; the action recorded is that."""

    partitioner: SasPartitioner

    def __init__(self, episode: Episode) -> None:
        super().__init__(episode, SasPartitioner, hot_keys=HOT_KEYS)
        self._aimed = np.full(episode.workers, 1 / episode.workers)
        for _ in range(2):  # the first slide has no hot keys yet
            self.step()

    def aim(self, shares: Floats) -> None:
        """Set the workers' shares from the next slide on."""
        self._aimed = shares
        self.partitioner.aim(shares)

    def _in_force(self, loads: Floats) -> tuple[float, ...]:
        return tuple(self._aimed.tolist())
