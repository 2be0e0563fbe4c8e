"""The collector: merges the partial states of all partitions of one job."""

from __future__ import annotations

from collections import defaultdict
from typing import Self

import numpy as np
import pyarrow as pa

from jars_and_apps.key_split.aggregation import result
from jars_and_apps.key_split.frames import STATES, Frame, Header, cut, sequence
from jars_and_apps.key_split.groups import group
from jars_and_apps.key_split.hashing import shards_of
from jars_and_apps.key_split.panes import Panes, merged, widths
from jars_and_apps.key_split.reports import measured
from jars_and_apps.key_split.rows import Rows, arrays
from jars_and_apps.key_split.rows import read as read_rows
from jars_and_apps.key_split.settings import Output, ReducerSetting
from jars_and_apps.key_split.shard import Shard
from jars_and_apps.key_split.slides import NEVER
from jars_and_apps.key_split.streams import read


def combine(setting: ReducerSetting, rows: pa.RecordBatch, shards: int) -> pa.RecordBatch:
    """The partial states of one partition's rows of a micro-batch, for each shard one frame and more.

    ``rows`` as the Router takes them, all of the partition at once.  The answer has the columns ``shard``
    (int32) and ``value`` (binary); no row if there was no good row and no bad one.
    """
    good, bad, _ = read_rows(rows)
    values = _frames(setting, good, bad, shards) if len(good) or bad else []
    columns = [
        pa.array([shard for shard, _ in values], pa.int32()),
        pa.array([v for _, v in values], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["shard", "value"])


class Collector(Shard[ReducerSetting]):
    """One shard of the stateful operator of a split in one job.

    ``step`` takes the frames of ``combine`` of one micro-batch and all partitions: a batch with the column
    ``value`` (binary), in any order.  It returns finished windows for the sink topic; ``report`` is for
    ``report/whole``, and has the measurements that are among the frames, one a partition, as ``workers``.
    """

    KIND = "collector"

    def __init__(self, setting: ReducerSetting) -> None:
        super().__init__(setting)
        self._panes = Panes(setting.windows, setting.aggregation)

    @classmethod
    def load(cls, setting: ReducerSetting, data: bytes) -> Self:
        """The collector whose state was dumped; ValueError for another window or slide, or damage."""
        collector, meta, values = cls._unpack(setting, data)
        collector._panes.load(meta["closed"], values)
        return collector

    def dump(self) -> bytes:
        """The state, as Arrow IPC."""
        closed, values = self._panes.dump()
        return self._pack({"closed": closed}, values)

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Take the frames of the next batch."""
        workers = [measured(value.as_py() or b"") for value in batch.column("value")]
        batch = batch.filter(pa.array([each is None for each in workers], pa.bool_()))
        # By their bytes: the partitions come in any order, also when a batch is run again.
        batch = batch.sort_by("value")
        found = list(read(batch, STATES, self._windows, self._is_mine, self._faults))
        self._fields = {"frames": len(found), "rows": 0, "groups": 0, "finals": 0}
        self._fields["workers"] = [each for each in workers if each is not None]
        parts: defaultdict[tuple[int, str, int], list[bytes]] = defaultdict(list)
        for frame in found:
            self._gather(frame, parts)
        for (slide, key, hashed), states in parts.items():
            self._panes.add(slide, key, hashed, merged(self._setting.aggregation, states))
        self._fields |= {"groups": len(parts), "partials": sum(map(len, parts.values()))}
        return self._close(max((frame.header.closed_after for frame in found), default=NEVER))

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, with its processor time and wall time, s."""
        return self._report("whole", self._panes.closed, len(self._panes), busy, wall)

    def _is_mine(self, frame: Frame) -> bool:
        slides = frame.batch.column("slide").to_numpy()
        return frame.shard == self._setting.shard and self._windows.has(slides)

    def _gather(self, frame: Frame, parts: dict[tuple[int, str, int], list[bytes]]) -> None:
        """Add the states of the frame to those of the batch, except for slides that were closed before it."""
        columns = (frame.batch.column(name).to_pylist() for name in STATES)
        for key, hashed, slide, count, state in zip(*columns, strict=True):
            if self._panes.open(slide):
                parts[slide, key, hashed].append(state)
                self._fields["rows"] += count
            else:
                self._faults["late"] += count
        if frame.header.bad:
            self._faults["bad"] += frame.header.bad

    def _close(self, until: int) -> list[Output]:
        of = self._setting.aggregation, self._windows
        outputs = [
            Output("", result(*of, each.end, each.key, each.state)) for each in self._panes.close(until)
        ]
        self._fields["finals"] = len(outputs)
        return outputs


def _frames(setting: ReducerSetting, rows: Rows, bad: int, shards: int) -> list[tuple[int, bytes]]:
    aggregation, windows = setting.aggregation, setting.windows
    slides = rows.times // windows.slide_us
    groups = group(rows, slides, shards_of(rows.hashes, shards).astype(np.int64), piece=None)
    starts = groups.starts[:-1]
    states = aggregation.add_all(arrays(groups.rows), starts) if len(starts) else []
    encoded = pa.array([aggregation.encode(state) for state in states], pa.binary())
    columns = [
        groups.keys,
        pa.array(groups.hashes),
        pa.array(groups.slides),
        pa.array(groups.counts),
        encoded,
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[*STATES])
    closed = windows.closed(int(rows.times.max())) if len(rows) else NEVER
    made = []
    for shard in range(shards):
        first, end = np.searchsorted(groups.places, [shard, shard + 1]).tolist()
        own = batch.slice(first, end - first)
        header = Header(source=shard, shards=(shards,), bad=0 if shard else bad)
        pieces = cut(own, widths(own))
        made += [(shard, each) for each in sequence(pieces, 0, shard, header, closed)]
    return made
