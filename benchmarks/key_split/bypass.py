"""Windows that come out wrong: by the rule of the notices, and by the flags of a worker's own rows alone.

The whole of router, combiners and reducer runs in memory; a result is wrong if it is missing, comes twice, or
has another count than the rows have.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.key_split.stream import Stream
from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.combiner import Combiner
from jars_and_apps.key_split.partitioners.table import PARTITIONERS
from jars_and_apps.key_split.reducer import Reducer
from jars_and_apps.key_split.router import Notices, Router
from jars_and_apps.key_split.settings import CombinerSetting, ReducerSetting, RouterSetting
from jars_and_apps.key_split.slides import Windows

WORKERS, SLIDES, SECOND = 8, 3, 1_000_000
START = 1_500_000_000 * SECOND


class Count:
    """The number of rows."""

    def add(self, columns: Mapping[str, NDArray[Any]]) -> int:
        return len(columns["time"])

    def merge(self, one: int, other: int) -> int:
        return one + other

    def finish(self, state: int) -> dict[str, int]:
        return {"count": state}


class _Unnoticed(Router):
    """A router that leaves the notices out: a worker judges by the flags of its own rows."""

    def _frames(self, groups: Any, batch: Any, notices: Any, header: Any, *, to_all: bool) -> Any:
        return super()._frames(groups, batch, Notices.of([]), header, to_all=to_all)


def measure() -> Iterator[tuple[str, float]]:
    """The wrong windows of both rules, and all windows, over three partitioners and two exponents."""
    sums: Counter[str] = Counter()
    for name in ("balanced", "dagreedy", "two-choices"):
        for z in (1.0, 1.5):
            stream = Stream(z, 1, keys=500, rows=4_000, batch=1_000, slides=10)
            for key, router in (("bypass_wrong", Router), ("bypass_naive_wrong", _Unnoticed)):
                wrong, windows = _wrong(router, name, stream)
                sums[key] += wrong
                sums["bypass_windows"] += windows if router is Router else 0
    for key, count in sums.items():
        yield key, float(count)


def _wrong(router_of: type[Router], name: str, stream: Stream) -> tuple[int, int]:
    windows = Windows(SLIDES * SECOND, SECOND)
    weights = (1.0,) * WORKERS
    router = router_of.begin(
        RouterSetting(windows, name, PARTITIONERS[name].partitioner, weights, origin="o")
    )
    aggregation = Aggregation(Count())
    combiners = [
        Combiner.begin(CombinerSetting(windows, aggregation, worker, origin="o")) for worker in range(WORKERS)
    ]
    reducer = Reducer.begin(ReducerSetting(windows, aggregation))
    hashes, expected, found = stream.hashes(), Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    repeated = 0
    for slide, ranks in enumerate(stream.ranks()):
        for window in range(slide + 1, slide + SLIDES + 1):
            expected.update((f"{rank}", window) for rank in ranks.tolist())
        for part in np.array_split(ranks, len(ranks) // stream.batch):
            frames = defaultdict(list)
            for topic, value in router.step(_batch(part, hashes, slide)):
                frames[int(topic.removeprefix("rows/"))].append(value)
            partials: list[bytes] = []
            outputs = [
                out for worker, each in frames.items() for out in combiners[worker].step(_values(each))
            ]
            partials = [value for topic, value in outputs if topic == "partials"]
            outputs += reducer.step(_values(partials)) if partials else []
            for topic, value in outputs:
                if topic == "":
                    result = json.loads(value)
                    end = int(np.datetime64(result["end"].removesuffix("Z"), "us").astype(np.int64))
                    place = result["key"], (end - START) // SECOND
                    repeated += place in found
                    found[place] += result["count"]
    due = {place: count for place, count in expected.items() if place[1] < stream.slides}
    return repeated + sum(found[place] != count for place, count in due.items()), len(due)


def _batch(ranks: NDArray[np.int64], hashes: NDArray[np.uint64], slide: int) -> pa.RecordBatch:
    times = np.full(len(ranks), START + slide * SECOND)
    columns = {
        "key": pa.array([str(rank) for rank in ranks.tolist()]),
        "time": pa.array(times),
        "_arrival": pa.array(times),
        "_hash": pa.array(hashes[ranks]),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def _values(frames: Sequence[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(frames, pa.binary())], names=["value"])
