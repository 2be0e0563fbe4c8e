"""A split in memory: a router, combiners and a reducer, whose states and frames are bytes all along the way.

Each step loads the state that the step before dumped; each third is run twice, the second time with its
frames in another order, and must give the same again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.combiner import Combiner
from jars_and_apps.key_split.reducer import Reducer
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.settings import CombinerSetting, Output, ReducerSetting, RouterSetting
from jars_and_apps.key_split.slides import Windows
from testbed.key_split.reference import Row


class Ids:
    """The ids of all rows: a row that is missing or twice is seen."""

    def add(self, columns: Mapping[str, Any]) -> list[int]:
        """The ids."""
        ids: list[int] = columns["id"].tolist()
        return ids

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        """The ids of both."""
        return one + other

    def finish(self, state: list[int]) -> dict[str, Any]:
        """The ids, rising."""
        return {"ids": sorted(state)}


def batch_of(rows: Sequence[Row], controls: Sequence[bytes] = ()) -> pa.RecordBatch:
    """The rows as a Router takes them, and control messages behind them."""
    if controls:
        none = [Row(None, None, 0, 0)] * len(controls)
        messages = pa.array([*[None] * len(rows), *controls], pa.binary())
        return batch_of([*rows, *none]).append_column("_control", messages)
    keys = [row.key for row in rows]
    columns = {
        "key": pa.array(keys, pa.utf8()),
        "time": pa.array([row.time for row in rows], pa.int64()),
        "_arrival": pa.array([row.arrival for row in rows], pa.int64()),
        "_hash": pa.array([hash_of(key) for key in keys], pa.uint64()),
        "id": pa.array([row.id for row in rows], pa.int64()),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])


def hash_of(key: str | None) -> int:
    """A hash of 64 bits, the same in every process."""
    return int.from_bytes(blake2b((key or "").encode(), digest_size=8).digest(), "little")


def values_of(frames: Sequence[bytes]) -> pa.RecordBatch:
    """The frames as Combiner and Reducer take them."""
    return pa.RecordBatch.from_arrays([pa.array(frames, pa.binary())], names=["value"])


@dataclass
class Part:
    """An operator with its setting: it exists as its state alone."""

    kind: Any
    setting: Any
    state: bytes | None = None
    steps: int = 0

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Load, step and dump; each third time twice over, with the frames in another order."""
        self.steps += 1
        before = self.state
        outputs, self.state = self._run(batch, before)
        if self.steps % 3 == 0:
            again = batch.take(np.arange(batch.num_rows)[::-1]) if batch.schema.names == ["value"] else batch
            assert self._run(again, before) == (outputs, self.state), (
                "run again, a batch gives the same bytes"
            )
        return outputs

    def report(self) -> dict[str, Any]:
        """The report after a step without rows or frames."""
        operator = self.kind.load(self.setting, self.state)
        value = operator.report(0.25, 0.5).value
        assert value[0] == 0xFF
        report: dict[str, Any] = json.loads(value[1:])
        return report

    def _run(self, batch: pa.RecordBatch, state: bytes | None) -> tuple[list[Output], bytes]:
        operator = self.kind.begin(self.setting) if state is None else self.kind.load(self.setting, state)
        outputs = operator.step(batch)
        return outputs, operator.dump()


Spoil = Callable[[bytes], bytes | None]


class Pipeline:
    """A whole split.  ``spoil`` changes each of the router's frames, as a fault would."""

    def __init__(
        self, router: RouterSetting, reducer_shards: int = 1, spoil: Spoil = lambda frame: frame
    ) -> None:
        self.router = Part(Router, router)
        self.spoil = spoil
        self.aggregation = Aggregation(Ids())
        self.reducer_shards = reducer_shards
        self.combiners: dict[tuple[int, int], Part] = {}
        self.reducers = [
            Part(Reducer, ReducerSetting(router.windows, self.aggregation, shard))
            for shard in range(reducer_shards)
        ]
        self.waiting: defaultdict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.partials: list[bytes] = []
        self.results: list[bytes] = []
        self.counts: Counter[str] = Counter()

    @property
    def windows(self) -> Windows:
        """The windows of all parts."""
        windows: Windows = self.router.setting.windows
        return windows

    def change(self, **setting: Any) -> None:
        """Update the router."""
        self.router.setting = replace(self.router.setting, **setting)

    def route(self, rows: Sequence[Row], controls: Sequence[bytes] = ()) -> None:
        """Let the router take a batch; its frames wait for their combiners."""
        for topic, value in self.router.step(batch_of(rows, controls)):
            frame = self.spoil(value)
            worker = int(topic.removeprefix("rows/"))
            if frame is not None:
                self.waiting[worker, int.from_bytes(value[12:14], "big")].append(frame)

    def combine(self, place: tuple[int, int], count: int, again: Sequence[bytes] = ()) -> None:
        """Let a combiner take its next frames, and some again, in any order."""
        taken, self.waiting[place] = self.waiting[place][:count], self.waiting[place][count:]
        if place not in self.combiners:
            setting = CombinerSetting(self.windows, self.aggregation, *place, self.reducer_shards, "begun")
            self.combiners[place] = Part(Combiner, setting)
        self._sort(self.combiners[place].step(values_of([*again, *reversed(taken)])))

    def reduce(self, count: int, again: Sequence[bytes] = ()) -> None:
        """Let the reducer take its next frames, and some again, in any order."""
        taken, self.partials = self.partials[:count], self.partials[count:]
        for shard, part in enumerate(self.reducers):
            own = [each for each in (*again, *reversed(taken)) if int.from_bytes(each[12:14], "big") == shard]
            self._sort(part.step(values_of(own)))

    def drain(self, *, reduced: bool = True) -> None:
        """Let all parts take whatever waits for them, the reducer or not."""
        for place in sorted(self.waiting):
            self.combine(place, len(self.waiting[place]))
        if reduced:
            self.reduce(len(self.partials))

    def found(self) -> dict[tuple[str, int], list[int]]:
        """The results by key and end of window, none of which comes twice."""
        found: dict[tuple[str, int], list[int]] = {}
        for value in self.results:
            result = json.loads(value)
            end = np.datetime64(result["end"].removesuffix("Z"), "us").astype(np.int64)
            place = result["key"], int(end) // self.windows.slide_us
            assert place not in found, f"{place} comes twice"
            found[place] = result["ids"]
        return found

    def _sort(self, outputs: Sequence[Output]) -> None:
        for topic, value in outputs:
            self.counts[topic] += 1
            (self.partials if topic == "partials" else self.results).append(value)
