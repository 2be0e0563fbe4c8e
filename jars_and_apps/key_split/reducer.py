"""The reducer: merges the windows of keys whose rows went to several combiners."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Self

import numpy as np
import pyarrow as pa

from jars_and_apps.key_split.aggregation import result
from jars_and_apps.key_split.frames import PARTIALS, Frame, Header
from jars_and_apps.key_split.panes import merged
from jars_and_apps.key_split.settings import Output, ReducerSetting
from jars_and_apps.key_split.shard import Shard
from jars_and_apps.key_split.slides import NEVER
from jars_and_apps.key_split.streams import Stream, read

Source = tuple[int, int]
"""A combiner and its shard."""


class Reducer(Shard[ReducerSetting]):
    """One shard of the reducer.

    ``step`` takes the combiners' frames of one micro-batch as Combiner's does.  It returns finished windows
    for the sink topic; ``report`` is for ``report/reducer``.

    A combiner that is added by a router without state has not seen which windows are out.  So what another
    one had closed before it was told of the new one is late from that.
    """

    KIND = "reducer"

    def __init__(self, setting: ReducerSetting) -> None:
        super().__init__(setting)
        self._partials: defaultdict[int, defaultdict[str, list[tuple[int, int, int, bytes]]]]
        self._partials = defaultdict(lambda: defaultdict(list))
        self._streams: defaultdict[Source, Stream] = defaultdict(Stream)
        self._ends: dict[Source, int] = {}
        self._named: dict[Source, int] = {}  # combiners that a source has been notified of
        self._out: list[int] = []  # by combiner: the end up to which others had closed before
        self._shards: tuple[int, ...] = ()
        self._closed = NEVER

    @classmethod
    def load(cls, setting: ReducerSetting, data: bytes) -> Self:
        """The reducer whose state was dumped; ValueError for another window or slide, or a damaged state."""
        reducer, meta, values = cls._unpack(setting, data)
        for worker, source, stream, closed, named in meta["sources"]:
            reducer._streams[worker, source] = Stream(**stream)
            reducer._ends[worker, source] = closed
            reducer._named[worker, source] = named
        reducer._out = meta["out"]
        names = ("end", "key", "worker", "source", "number", "state")
        columns = (values[name] if name in ("key", "state") else values[name].tolist() for name in names)
        for end, key, *part in zip(*columns, strict=True):
            reducer._partials[end][key].append(tuple(part))
        reducer._shards, reducer._closed = tuple(meta["shards"]), meta["closed"]
        return reducer

    def dump(self) -> bytes:
        """The state, as Arrow IPC."""
        sources = [
            [*source, each.dump(), self._ends[source], self._named[source]]
            for source, each in sorted(self._streams.items())
        ]
        meta = {"sources": sources, "shards": self._shards, "closed": self._closed, "out": self._out}
        found = [
            (end, key, *part)
            for end, keys in self._partials.items()
            for key, parts in keys.items()
            for part in parts
        ]
        ends, keys, *numbers, states = zip(*found, strict=True) if found else ((),) * 6
        values: dict[str, Any] = {"key": keys, "state": states, "end": np.array(ends, np.int64)}
        for name, column in zip(("worker", "source", "number"), numbers, strict=True):
            values[name] = np.array(column, np.int64)
        return self._pack(meta, values)

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Take the frames of the next batch."""
        self._fields = {"frames": 0, "partials": 0, "finals": 0}
        found: defaultdict[Source, list[Frame]] = defaultdict(list)
        for frame in read(batch, PARTIALS, self._windows, self._is_mine, self._faults):
            found[frame.header.worker, frame.header.source].append(frame)
        for source in sorted(found):
            for frame in sorted(found[source], key=self._streams[source].rank):
                self._take(source, frame)
        return self._close()

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, with its processor time and wall time, s."""
        states = sum(map(len, self._partials.values()))
        return self._report("reducer", self._closed, states, busy, wall)

    def _is_mine(self, frame: Frame) -> bool:
        shards, worker = frame.header.shards, frame.header.worker
        known = worker < len(shards) and frame.header.source < shards[worker]
        ends = frame.batch.column("window").to_numpy() - self._windows.slides
        return known and frame.shard == self._setting.shard and self._windows.has(ends)

    def _take(self, source: Source, frame: Frame) -> None:
        if self._streams[source].lost(frame, self._faults) is None:
            return
        self._shards = max(self._shards, frame.header.shards, key=len)
        self._note_combiners(source, frame.header)
        columns = (frame.batch.column(name).to_pylist() for name in PARTIALS)
        for key, end, state in zip(*columns, strict=True):
            if end > self._closed:
                self._partials[end][key].append((*source, frame.number, state))
            else:  # its other parts are out already
                self._faults["late_partials"] += 1
        self._ends[source] = max(self._ends.get(source, NEVER), frame.header.closed_after)
        self._fields["frames"] += 1
        self._fields["partials"] += frame.batch.num_rows

    def _note_combiners(self, source: Source, header: Header) -> None:
        """Note what this source had closed when it was notified of further combiners."""
        self._out += [NEVER] * (len(self._shards) - len(self._out))
        for worker in range(self._named.get(source, 0), len(header.shards)):
            self._out[worker] = max(self._out[worker], header.closed_before)
        self._named[source] = max(self._named.get(source, 0), len(header.shards))

    def _close(self) -> list[Output]:
        """The windows that all combiners have closed, by end and key."""
        sources = ((worker, shard) for worker, shards in enumerate(self._shards) for shard in range(shards))
        ends = (max(self._ends.get(each, NEVER), self._out[each[0]]) for each in sources)
        self._closed = max(self._closed, min(ends, default=NEVER))
        outputs = []
        of = self._setting.aggregation, self._windows
        named = min(self._named.values(), default=0)  # others that are not notified yet closed before
        for end in sorted(end for end in self._partials if end <= self._closed):
            for key, parts in sorted(self._partials.pop(end).items()):
                timely = [part for part in sorted(parts) if end > self._out[part[0]] and named > part[0]]
                if late := len(parts) - len(timely):
                    self._faults["late_partials"] += late
                if timely:
                    state = merged(of[0], [part[-1] for part in timely])
                    outputs.append(Output("", result(*of, end, key, state)))
        self._fields["finals"] += len(outputs)
        return outputs
