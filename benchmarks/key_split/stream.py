"""A stream of keys by Zipf's law, and what becomes of it in a partitioner, slide by slide."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import homes, mix64
from jars_and_apps.key_split.partitioners.protocol import MetricsWindow, Partitioner, Routing, Setting

WINDOW = 5  # slides
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Stream:
    """``keys`` keys of Zipf exponent ``z``, ``rows`` rows a slide, in micro-batches of ``batch`` rows.

    From slide ``drift_at`` on other keys are the hot ones.
    """

    z: float
    seed: int
    keys: int = 10_000
    rows: int = 100_000
    batch: int = 16_384
    slides: int = 13
    drift_at: int | None = None

    def ranks(self) -> Iterator[Ints]:
        """The ranks of each slide's rows, from 0."""
        shares = np.cumsum(np.arange(1, self.keys + 1) ** -float(self.z))
        random = np.random.default_rng(self.seed)
        for slide in range(self.slides):
            ranks = np.searchsorted(shares, random.random(self.rows) * shares[-1])
            drifted = self.drift_at is not None and slide >= self.drift_at
            yield (ranks + self.keys // 2) % self.keys if drifted else ranks

    def hashes(self) -> Hashes:
        """The hash of each rank's key."""
        return mix64(np.arange(1, self.keys + 1, dtype=np.uint64) + np.uint64(self.seed * 1_000_003))


@dataclass(frozen=True)
class Slide:
    """The figures of a slide, and in the window that ends with it.

    ``loads``: rows of each worker; ``window_loads``: of the window; ``partials``: pairs of key and worker in
    the window, by worker; ``reduced``: those of keys that the reducer must merge; ``keys``: in the window;
    ``shared``: of them, those that the reducer must merge; ``slide_partials``, ``slide_keys``: pairs and keys
    of the slide alone.
    """

    loads: Ints
    window_loads: Ints
    partials: Ints
    reduced: int
    keys: int
    shared: int
    slide_partials: int
    slide_keys: int


@dataclass
class Run:
    """The slides of a run, those of the first window left out, and the rows routed a second of processor."""

    slides: list[Slide] = field(default_factory=list)
    rows_per_s: float = 0.0

    def mean(self, value: Callable[[Slide], float]) -> float:
        """The mean over the slides."""
        return float(np.mean([value(slide) for slide in self.slides]))


def imbalance(loads: Ints | Floats) -> float:
    """The greatest load over the mean, less 1."""
    return float(loads.max() / loads.mean() - 1)


def run(
    partitioner: type[Partitioner],
    stream: Stream,
    workers: int,
    options: dict[str, float] | None = None,
    speeds: Floats | None = None,
    *,
    first: int = WINDOW,
    policies: tuple[str, ...] = (),
) -> Run:
    """Route the stream.  With ``speeds`` (rows/s, one a worker) each slide's busy times are observed."""
    setting = Setting(np.ones(workers), stream.seed, WINDOW, options or {}, policies)
    routed, books = partitioner.begin(setting), _Books(stream, setting)
    hashes, found, seconds, batch = stream.hashes(), Run(), 0.0, 0
    for number, ranks in enumerate(stream.ranks()):
        for start in range(0, len(ranks), stream.batch):
            part = ranks[start : start + stream.batch]
            keys = hashes[part]
            began = time.process_time()
            routing = routed.route(keys, batch)
            seconds += time.process_time() - began
            books.take(part, routing)
            batch += 1
        slide = books.end()
        if number >= first:
            found.slides.append(slide)
        if speeds is not None:
            busy = slide.loads / speeds
            routed.observe(MetricsWindow(slide.loads.astype(np.float64), busy, busy))
        routed.advance(1)
    found.rows_per_s = stream.slides * stream.rows / seconds
    return found


class _Books:
    """The owners as the router has them, and the keys that have rows away from their owner."""

    def __init__(self, stream: Stream, setting: Setting) -> None:
        self._workers = setting.workers
        hashes = stream.hashes()
        self._order = np.argsort(hashes)
        self._sorted = hashes[self._order]
        self._home = homes(hashes, setting.weights, setting.seed)
        self._owner, self._next = self._home.copy(), self._home.copy()
        self._seen = np.full(stream.keys, -(10**9))
        self._slide = 0
        self._shared = np.full(stream.keys, -(10**9))  # the last slide that makes a window shared
        self._rows: list[tuple[Ints, NDArray[np.int32]]] = []
        self._window: list[tuple[Ints, Ints]] = []

    def take(self, ranks: Ints, routing: Routing) -> None:
        """Note a batch."""
        moved = self._order[np.searchsorted(self._sorted, routing.moved)]
        holding = self._seen[moved] > self._slide - WINDOW
        self._next[moved] = routing.owners
        self._owner[moved[~holding]] = routing.owners[~holding]
        self._seen[ranks] = self._slide
        self._shared[ranks[routing.workers != self._owner[ranks]]] = self._slide
        self._rows.append((ranks, routing.workers))

    def end(self) -> Slide:
        """End the slide."""
        ranks = np.concatenate([ranks for ranks, _ in self._rows])
        workers = np.concatenate([workers for _, workers in self._rows])
        pairs = self._distinct(ranks * self._workers + workers)
        loads = np.bincount(workers, minlength=self._workers)
        self._rows = []
        self._window = [*self._window[1 - WINDOW :], (pairs, loads)]
        every = self._distinct(*(each for each, _ in self._window))
        of, at = every // self._workers, every % self._workers
        keys = _runs(of)
        shared = self._shared > self._slide - WINDOW
        slide = Slide(
            loads=loads,
            window_loads=np.sum([each for _, each in self._window], axis=0),
            partials=np.bincount(at, minlength=self._workers),
            reduced=int(shared[of].sum()),
            keys=len(keys),
            shared=int(shared[keys].sum()),
            slide_partials=len(pairs),
            slide_keys=len(_runs(pairs // self._workers)),
        )
        self._begin()
        return slide

    def _distinct(self, *pairs: Ints) -> Ints:
        """The distinct pairs, rising, by a table of all that can be: faster than to sort them."""
        table = np.zeros(len(self._home) * self._workers, np.bool_)
        for each in pairs:
            table[each] = True
        return np.flatnonzero(table)

    def _begin(self) -> None:
        """Begin the next slide: moves hold, and a window over one is shared; silent keys are forgotten."""
        changed = self._owner != self._next
        self._slide += 1
        # a window over the move has the old owner's slide and the new one's
        self._shared[changed] = np.maximum(self._shared[changed], self._slide - 1)
        self._owner[:] = self._next
        silent = self._seen <= self._slide - 1 - WINDOW
        self._owner[silent] = self._next[silent] = self._home[silent]


def _runs(rising: Ints) -> Ints:
    """The distinct values of a rising array."""
    return rising[np.flatnonzero(np.diff(rising, prepend=-1))]
