"""``python -m benchmarks.key_split simulate``: the partitioners on streams by Zipf's law.

10,000 keys and 100,000 rows a slide (n = 128: 200,000; n = 1000: 100,000 keys and 400,000 rows), windows of 5
slides, batches of 16,384 rows (n = 1000: 65,536); the first window is left out.  Imbalances are the greatest
load over the mean, less 1; times are processor seconds of one thread.  No engine and no broker is in it.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from benchmarks.common import Figure
from benchmarks.key_split import bypass, model
from benchmarks.key_split.stream import Run, Stream, imbalance, run
from jars_and_apps.key_split.baselines.policy import shipped, shipped_text
from jars_and_apps.key_split.partitioners.protocol import Partitioner
from jars_and_apps.key_split.partitioners.table import PARTITIONERS
from testbed.results import add_output_options, published

EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0)
UNEVEN_EXPONENTS = (0.5, 1.5)
COSTS = (0.1, 1.0, 10.0, 100.0)
WORKERS = 32
SIZES: Mapping[int, dict[str, int]] = {
    4: {},
    8: {},
    32: {},
    128: {"rows": 200_000},
    1000: {"keys": 100_000, "rows": 400_000, "batch": 65_536},
}
# the name of a row of the tables -> partitioner and options
LINES: Mapping[str, tuple[str, dict[str, float]]] = {
    "hash": ("hash", {}),
    "shuffle": ("shuffle", {}),
    "two-choices": ("two-choices", {}),
    "cam": ("cam", {}),
    "dagreedy": ("dagreedy", {}),
    "dalton-original": ("dalton-original", {}),
    "dalton-original-cap-n": ("dalton-original", {"cap": 0}),
    "saspartitioner": ("saspartitioner", {}),
    "balanced": ("balanced", {}),
}


class Measured(NamedTuple):
    """A row of the tables about unequal speeds, whose partitioner takes measured work."""

    partitioner: str
    policies: tuple[str, ...] = ()
    options: Mapping[str, float] = MappingProxyType({})


MORE_KEYS = MappingProxyType({"hot_keys": 40})
MEASURED: Mapping[str, Measured] = {
    "balanced-measured": Measured("balanced"),
    "dalton-metrics": Measured("dalton-metrics"),
    "saspartitioner-trained": Measured("saspartitioner", ("zipf-1.5",)),
    "saspartitioner-trained-40": Measured("saspartitioner", ("zipf-1.5",), MORE_KEYS),
    "saspartitioner-adaptive": Measured("saspartitioner-adaptive", shipped()),
    "saspartitioner-adaptive-40": Measured("saspartitioner-adaptive", shipped(), MORE_KEYS),
}
FEW = ("hash", "shuffle", "two-choices", "balanced")  # at n = 1000: the others take minutes
SKEWED = ("dagreedy",)  # at n = 128 for z of 1 and more: below, each of 10,000 keys is hot
SLOW = 4.0  # times: the slower half, or the one, of a profile
PICTURE = Path(__file__).parent.parent / "key_split.svg"
Figures = dict[str, list[float]]


def main(arguments: list[str]) -> int:
    """Measure and print; draw the picture, if all numbers of workers were measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.key_split simulate", description=__doc__)
    add_output_options(parser)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds at n = 32 (default: 5)")
    parser.add_argument(
        "--workers",
        type=int,
        nargs="+",
        choices=SIZES,
        default=list(SIZES),
        help="numbers of them (default: all)",
    )
    parser.add_argument(
        "--picture", type=Path, default=PICTURE, help=f"where it is drawn (default: {PICTURE})"
    )
    settings = parser.parse_args(arguments)
    began = time.process_time()
    found: Figures = defaultdict(list)
    for name, value in measure(settings.seeds, settings.workers):
        found[name].append(value)
    found["processor_seconds"].append(time.process_time() - began)
    figures = {name: Figure.of(values) for name, values in found.items()}
    if set(settings.workers) == set(SIZES):
        _draw(figures, settings.picture)
    if not published(
        settings,
        "key_split-simulate",
        dict(pair for name, each in figures.items() for pair in each.named(name)),
    ):
        print("\n".join(f"{name}: {figure}" for name, figure in figures.items()))
    return 0


def measure(seeds: int, sizes: Collection[int]) -> Iterator[tuple[str, float]]:
    """Each figure of each seed, by key."""
    for seed in range(1, seeds + 1) if WORKERS in sizes else ():
        _say(f"n = {WORKERS}, seed {seed} of {seeds}")
        yield from skewed(seed)
    for workers in sizes:
        if workers != WORKERS:
            _say(f"n = {workers}")
            yield from sized(workers)
    if WORKERS in sizes:
        _say("references")
        yield from references()
    _say("bypass")
    yield from bypass.measure()


def skewed(seed: int) -> Iterator[tuple[str, float]]:
    """The figures at n = 32, by exponent, by the speeds of the workers, and after a drift."""
    for z in EXPONENTS:
        runs = {name: _run(name, Stream(z, seed), WORKERS) for name in _lines()}
        yield from _grid(runs, WORKERS, z)
        yield from _speedups(runs, z)
        if z in UNEVEN_EXPONENTS:
            yield from _uneven(runs, z, seed)
    yield from _drifting(seed)


def _lines() -> list[str]:
    return [name for name, (partitioner, _) in LINES.items() if partitioner in PARTITIONERS]


def _class(name: str) -> type[Partitioner]:
    return PARTITIONERS[LINES[name][0]].partitioner


def _run(name: str, stream: Stream, workers: int) -> Run:
    return run(_class(name), stream, workers, LINES[name][1])


def sized(workers: int) -> Iterator[tuple[str, float]]:
    """The figures at another number of workers, of one seed."""
    for z in EXPONENTS:
        names = FEW if workers == 1000 else _lines()
        names = [name for name in names if workers < 128 or z >= 1 or name not in SKEWED]
        stream = Stream(z, 1, slides=8, **SIZES[workers])
        yield from _grid({name: _run(name, stream, workers) for name in names}, workers, z)


def _grid(runs: Mapping[str, Run], workers: int, z: float) -> Iterator[tuple[str, float]]:
    at_home = runs["hash"].mean(lambda slide: slide.slide_partials)
    for name, found in runs.items():
        key = f"{name}.n{workers}.z{z:g}"
        yield f"{key}.slide_imbalance", found.mean(lambda slide: imbalance(slide.loads))
        yield f"{key}.window_imbalance", found.mean(lambda slide: imbalance(slide.window_loads))
        yield f"{key}.replication", found.mean(lambda slide: slide.partials.sum() / slide.keys)
        yield f"{key}.shared_share", found.mean(lambda slide: slide.shared / slide.keys)
        yield f"{key}.partials_ratio", found.mean(lambda slide: slide.slide_partials) / at_home
        yield f"{key}.rows_per_s", found.rows_per_s


def _speedups(runs: Mapping[str, Run], z: float) -> Iterator[tuple[str, float]]:
    """The model's figures; ``times_hash`` and ``times_best`` (of hash and Dalton) at one reducer."""
    for name, found in runs.items():
        for cost in COSTS:
            for reducers in (1, 4):
                yield f"speedup.{name}.z{z:g}.c{cost:g}.r{reducers}", model.speedup(found, cost, reducers)
            at_home = model.speedup(runs["hash"], cost)
            yield f"times_hash.{name}.z{z:g}.c{cost:g}", model.speedup(found, cost) / at_home
    for cost in COSTS:
        others = ("hash", "dalton-original", "dalton-original-cap-n")
        best = max(model.speedup(runs[name], cost) for name in others)
        yield f"times_best.balanced.z{z:g}.c{cost:g}", model.speedup(runs["balanced"], cost) / best
    for other in ("hash", "balanced"):
        cost = model.crossover(runs["shuffle"], runs[other])
        if math.isfinite(cost):
            yield f"crossover_c.z{z:g}.shuffle_below_{other}", cost


def _uneven(runs: Mapping[str, Run], z: float, seed: int) -> Iterator[tuple[str, float]]:
    """Workers of unequal speeds: the share of the throughput that an ideal routing has."""
    speeds = {"equal": np.ones(WORKERS), "one": np.ones(WORKERS), "half": np.ones(WORKERS)}
    speeds["one"][0] = speeds["half"][::2] = 1 / SLOW
    stream = Stream(z, seed, slides=16)
    for profile, speed in speeds.items():
        for name, found in runs.items():
            yield f"hetero.{profile}.z{z:g}.{name}.ideal_share", _ideal_share(found, speed)
        for title, measured in MEASURED.items():
            found = _measured(measured, stream, speed)
            key = f"hetero.{profile}.z{z:g}.{title}"
            yield f"{key}.ideal_share", _ideal_share(found, speed)
            yield f"{key}.replication", found.mean(lambda slide: slide.partials.sum() / slide.keys)


def _measured(
    measured: Measured, stream: Stream, speeds: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Run:
    """A run in which the partitioner gets the work of each slide; the first 8 slides are left out."""
    policies = tuple(map(shipped_text, measured.policies))
    kind = PARTITIONERS[measured.partitioner].partitioner
    return run(kind, stream, WORKERS, dict(measured.options), speeds, first=8, policies=policies)


def _ideal_share(found: Run, speeds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    ideal = sum(slide.loads.sum() for slide in found.slides) / speeds.sum()
    return float(ideal / sum((slide.loads / speeds).max() for slide in found.slides))


def _drifting(seed: int) -> Iterator[tuple[str, float]]:
    """All hot keys change at once: the share of the ideal from then on, and the slides to 90% (99: never)."""
    for name in _lines():
        found = run(_class(name), Stream(1.5, seed, slides=16, drift_at=8), WORKERS, LINES[name][1])
        shares = [1 / (1 + imbalance(slide.loads)) for slide in found.slides[3:]]
        yield f"drift.{name}.first_slide", shares[0]
        reached = [number for number, share in enumerate(shares) if share >= 0.9]
        yield f"drift.{name}.slides_to_90", float(reached[0]) if reached else 99.0
        for number, share in enumerate(shares):
            yield f"drift.{name}.slide{number}", share


def references() -> Iterator[tuple[str, float]]:
    """Row by row, in plain Python: 20,000 rows a slide."""
    from benchmarks.key_split.reference import measured

    for z in (1.0, 1.5):
        yield from measured(Stream(z, 1, rows=20_000, slides=12), WORKERS)


def _draw(figures: Mapping[str, Figure], path: Path) -> None:
    try:
        from benchmarks.key_split.picture import draw
    except ImportError as error:
        print(f"no picture: {error} (the extra graph has matplotlib)", file=sys.stderr)
        return
    draw(figures, path)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
