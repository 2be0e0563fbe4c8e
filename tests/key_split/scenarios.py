"""Runs of a split in memory: any routing, batches, lateness, repetitions and changes of the router."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners import table
from jars_and_apps.key_split.partitioners.protocol import Partitioner, Routing
from jars_and_apps.key_split.partitioners.simple import Random
from jars_and_apps.key_split.settings import RouterSetting
from jars_and_apps.key_split.slides import Windows
from testbed.key_split.reference import DAY, Row
from tests.key_split.pipeline import Pipeline, hash_of

SLIDE = 60_000_000
START = 1_500_000_000_000_000 // SLIDE * SLIDE


class Rumours(Random):
    """Gives any keys to new owners, also those without rows, and those that the router has forgotten."""

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """Workers at random, and moves of any keys."""
        routing = super().route(hashes, batch)
        random = np.random.Generator(np.random.Philox(key=self._setting.seed + 1, counter=batch))
        every = np.array([hash_of(f"key-{number}") for number in range(12)], np.uint64)
        moved = every[random.random(len(every)) < self._setting.options.get("moves", 0.2)]
        owners = random.choice(np.flatnonzero(self._setting.weights), len(moved)).astype(np.int32)
        return replace(routing, moved=moved, owners=owners)


PARTITIONERS: dict[str, type[Partitioner]] = {
    **{name: kind.partitioner for name, kind in table.PARTITIONERS.items()},
    "random": Random,
    "rumours": Rumours,
}


@dataclass(frozen=True)
class Scenario:
    """One run; everything that is random in it comes from ``seed``."""

    seed: int
    windows: Windows
    partitioner: str
    workers: int
    shards: int
    reducer_shards: int
    zipf: float
    drift: bool
    batches: int
    rows: int
    spread: float
    share: float
    moves: float
    changes: bool


@st.composite
def scenarios(draw: st.DrawFn, partitioners: tuple[str, ...] = tuple(PARTITIONERS)) -> Scenario:
    """Any scenario."""
    window, slide = draw(st.sampled_from([(1, 1), (5, 1), (6, 2)]))
    lateness = draw(st.sampled_from([0, SLIDE // 2, 2 * SLIDE]))
    return Scenario(
        seed=draw(st.integers(0, 2**32 - 1)),
        windows=Windows(window * SLIDE, slide * SLIDE, lateness),
        partitioner=draw(st.sampled_from(("random", "rumours")))
        if draw(st.booleans()) and "random" in partitioners
        else draw(st.sampled_from(partitioners)),
        workers=draw(st.integers(1, 7)),
        shards=draw(st.integers(1, 2)),
        reducer_shards=draw(st.integers(1, 2)),
        zipf=draw(st.sampled_from([0.0, 1.0, 1.5, 2.0])),
        drift=draw(st.booleans()),
        batches=draw(st.integers(1, 12)),
        rows=draw(st.integers(1, 30)),
        spread=draw(st.sampled_from([0.1, 1.0, 3.0])),
        share=draw(st.sampled_from([0.0, 0.05, 0.5])),
        moves=draw(st.sampled_from([0.0, 0.05, 0.3])),
        changes=draw(st.booleans()),
    )


def batches_of(scenario: Scenario, random: np.random.Generator) -> list[list[Row]]:
    """The rows: event time passes a good slide in four batches, rows stray by ``spread`` slides."""
    batches: list[list[Row]] = []
    number = 0
    for batch in range(scenario.batches):
        count = 0 if random.random() < 0.15 else int(random.integers(1, scenario.rows + 1))
        now = START + int(batch * 0.3 * scenario.windows.slide_us)
        ranks = random.choice(12, count, p=_zipf(scenario.zipf))
        shift = batch // 4 if scenario.drift else 0
        times = now + (random.normal(0, scenario.spread, count) * scenario.windows.slide_us).astype(np.int64)
        rows = [
            Row(f"key-{(rank + shift) % 12}", int(time), now + DAY // 2, number + at)
            for at, (rank, time) in enumerate(zip(ranks.tolist(), times.tolist(), strict=True))
        ]
        batches.append([_spoilt(row, random) if random.random() < 0.03 else row for row in rows])
        number += count
    return batches


def pipeline_of(scenario: Scenario) -> Pipeline:
    """The split of a scenario, that has seen no row."""
    setting = RouterSetting(
        windows=scenario.windows,
        name=scenario.partitioner,
        partitioner=PARTITIONERS[scenario.partitioner],
        weights=(1.0,) * scenario.workers,
        seed=scenario.seed,
        options=_options(scenario) if scenario.partitioner in ("random", "rumours") else {},
        shards=(scenario.shards,) * scenario.workers,
        origin="origin-1",
    )
    return Pipeline(setting, scenario.reducer_shards)


def _options(scenario: Scenario) -> dict[str, float]:
    return {"share": scenario.share, "moves": scenario.moves}


def run(scenario: Scenario, pipeline: Pipeline) -> list[list[Row]]:
    """Run the pipeline over the rows, its parts as far behind one another as may be; the batches."""
    random = np.random.default_rng(scenario.seed)
    batches = batches_of(scenario, random)
    for rows in batches:
        if scenario.changes and random.random() < 0.2:
            change(pipeline, random)
        pipeline.route(rows, controls(pipeline, random))
        for place in sorted(pipeline.waiting):
            if random.random() < 0.5:
                frames = pipeline.waiting[place]
                pipeline.combine(place, int(random.integers(0, len(frames) + 1)), frames[:1])
        if random.random() < 0.5:
            pipeline.reduce(int(random.integers(0, len(pipeline.partials) + 1)), pipeline.partials[:1])
    pipeline.drain()
    return batches


def change(pipeline: Pipeline, random: np.random.Generator) -> None:
    """Update the router: a worker more, other weights (one 0), another seed, or another partitioner."""
    setting = pipeline.router.setting
    kind = random.integers(4)
    if kind == 0 and len(setting.weights) < 7:
        pipeline.change(weights=(*setting.weights, 1.0), shards=(*setting.shards, int(random.integers(1, 3))))
    elif kind == 1:
        weights = random.integers(0, 3, len(setting.weights)).astype(float)
        weights[random.integers(len(weights))] = 1.0
        pipeline.change(weights=tuple(weights.tolist()))
    elif kind == 2:
        name = sorted(PARTITIONERS)[random.integers(len(PARTITIONERS))]
        pipeline.change(name=name, partitioner=PARTITIONERS[name], options={})
    else:
        pipeline.change(seed=int(random.integers(2**31)))


def controls(pipeline: Pipeline, random: np.random.Generator) -> list[bytes]:
    """Measured work of some of the workers, or none; one message in four is of another number of workers."""
    if random.random() < 0.6:
        return []
    count = len(pipeline.router.setting.weights) + (random.random() < 0.25)
    work = [
        {"rows": int(rows), "busy": rows / 10 ** random.integers(5), "wall": 1.0}
        for rows in random.integers(0, 99, count)
    ]
    workers = [each if random.random() < 0.8 else None for each in work]
    return [json.dumps({"end": float(random.integers(9)), "workers": workers}).encode()]


def _zipf(exponent: float) -> np.ndarray:
    shares = np.arange(1, 13) ** -exponent
    return shares / shares.sum()


def _spoilt(row: Row, random: np.random.Generator) -> Row:
    """A bad row."""
    faults = [{"key": None}, {"time": None}, {"time": -1}, {"time": row.arrival + DAY + 1}]
    return row._replace(**faults[random.integers(len(faults))])
