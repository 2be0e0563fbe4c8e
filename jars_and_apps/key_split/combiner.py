"""The combiner: aggregates the rows of its frames, and finishes the windows that are its alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa

from jars_and_apps.key_split.aggregation import result
from jars_and_apps.key_split.frames import ROWS, Frame, Header, columns_of, cut, sequence
from jars_and_apps.key_split.hashing import shards_of
from jars_and_apps.key_split.panes import Closing, Panes, widths
from jars_and_apps.key_split.rows import arrays
from jars_and_apps.key_split.settings import CombinerSetting, Output
from jars_and_apps.key_split.shard import Shard
from jars_and_apps.key_split.slides import NEVER
from jars_and_apps.key_split.streams import Stream, read


class Combiner(Shard[CombinerSetting]):
    """One shard of a combiner.

    ``step`` takes the frames of one micro-batch, in any order, repeated or damaged ones among them: a batch
    with the column ``value`` (binary), all with this shard in their head (``frames.SHARD``).  It returns
    finished windows for the sink topic and frames for ``partials``; ``report`` is for ``report/W``.
    """

    KIND = "combiner"

    def __init__(self, setting: CombinerSetting) -> None:
        super().__init__(setting)
        self._panes = Panes(setting.windows, setting.aggregation)
        self._stream = Stream()
        self._origin = setting.origin
        self._columns: tuple[str, ...] = ()  # of the frames so far
        self._numbers = [0] * setting.reducer_shards
        self._shards: tuple[int, ...] = ()
        self._newest = self._shared_until = NEVER
        self._shared: defaultdict[int, set[int]] = defaultdict(set)

    @classmethod
    def load(cls, setting: CombinerSetting, data: bytes) -> Self:
        """The combiner whose state was dumped.

        ValueError for another window, slide or number of the reducer's shards, or a damaged state.
        """
        combiner, meta, values = cls._unpack(setting, data)
        if len(meta["numbers"]) != setting.reducer_shards:
            raise ValueError(
                f"{setting.reducer_shards} shards of the reducer, the state has {len(meta['numbers'])} "
                "(expected the same; upgrade: stateless starts without it)"
            )
        combiner._panes.load(meta["closed"], values)
        combiner._stream, combiner._origin = Stream(**meta["stream"]), meta["origin"]
        combiner._numbers, combiner._shards = meta["numbers"], tuple(meta["shards"])
        combiner._newest, combiner._shared_until = meta["newest"], meta["shared_until"]
        for slide, hashed in zip(
            values["shared.slide"].tolist(), values["shared.hash"].tolist(), strict=True
        ):
            combiner._shared[slide].add(hashed)
        combiner._columns = tuple(meta["columns"])
        return combiner

    def dump(self) -> bytes:
        """The state, as Arrow IPC."""
        closed, values = self._panes.dump()
        meta = {
            "closed": closed,
            "stream": self._stream.dump(),
            "origin": self._origin,
            "numbers": self._numbers,
            "columns": self._columns,
        }
        meta |= {"shards": self._shards, "newest": self._newest, "shared_until": self._shared_until}
        pairs = [(slide, each) for slide in sorted(self._shared) for each in sorted(self._shared[slide])]
        values["shared.slide"] = np.array([slide for slide, _ in pairs], np.int64)
        values["shared.hash"] = np.array([hashed for _, hashed in pairs], np.uint64)
        return self._pack(meta, values)

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Take the frames of the next batch."""
        self._fields = {"frames": 0, "rows": 0, "groups": 0, "finals": 0, "partials": 0}
        found = list(read(batch, ROWS, self._windows, self._is_mine, self._faults))
        outputs = []
        for frame in sorted(found, key=self._stream.rank):
            outputs += self._take(frame)
        return outputs

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, with its processor time and wall time, s."""
        return self._report(str(self._setting.worker), self._panes.closed, len(self._panes), busy, wall)

    def _is_mine(self, frame: Frame) -> bool:
        slides = frame.batch.column("slide").to_numpy()
        header = frame.header
        mine = (header.worker, frame.shard) == (self._setting.worker, self._setting.shard)
        return mine and self._windows.has(slides) and header.worker < len(header.shards) and self._fits(frame)

    def _fits(self, frame: Frame) -> bool:
        """True if the rows have the columns of the class, or will be skipped.

        ValueError for those of its other code: they wait until a combiner with that code takes them.
        """
        found, expected = columns_of(frame.batch.schema.field("rows").type.value_type), self._setting.columns
        if set(expected) <= set(found):
            self._columns = found
            return True
        if self._stream.has_passed(frame):
            return True
        if frame.header.origin == self._stream.origin or found == self._columns:
            raise ValueError(
                f"rows of columns {', '.join(found)} are waiting (expected {', '.join(expected)}: "
                "let the code that has these columns take them first, or upgrade: stateless)"
            )
        return False

    def _take(self, frame: Frame) -> list[Output]:
        header, former = frame.header, self._stream.origin
        lost = self._stream.lost(frame, self._faults)
        if lost is None:
            return []
        if former not in (None, header.origin):
            self._shared_until = max(self._shared_until, self._newest)
        if lost:  # with the notices in them, of slides up to the one after the newest
            self._shared_until = max(self._shared_until, header.newest + 1)
        self._shared_until = max(self._shared_until, header.shared_until)
        self._newest = max(self._newest, header.newest)
        outputs = self._name_combiners(header.shards)
        outputs += self._close(header.closed_before)
        self._add(frame.batch)
        self._fields["frames"] += 1
        return outputs + self._close(header.closed_after)

    def _name_combiners(self, shards: tuple[int, ...]) -> list[Output]:
        """Pass on that there are more combiners; what is closed now was so before them."""
        if len(shards) <= len(self._shards):
            return []
        former, self._shards = self._shards, shards
        return self._partials([], self._panes.closed) if former else []

    def _add(self, batch: pa.RecordBatch) -> None:
        slides, hashes = batch.column("slide").to_numpy(), batch.column("hash").to_numpy()
        for at in np.flatnonzero(batch.column("off_owner").to_numpy(zero_copy_only=False)).tolist():
            if self._panes.open(int(slides[at])):
                self._shared[int(slides[at])].add(int(hashes[at]))
        batch = self._timely(batch)
        if not batch.num_rows:
            return
        rows = batch.column("rows")
        starts = rows.offsets.to_numpy()[:-1].astype(np.int64) - rows.offsets[0].as_py()
        states = self._setting.aggregation.add_all(arrays(rows.flatten(), self._setting.columns), starts)
        columns = (batch.column(name).to_pylist() for name in ("slide", "key", "hash"))
        for slide, key, hashed, state in zip(*columns, states, strict=True):
            self._panes.add(slide, key, hashed, state)
        self._fields["rows"] += len(rows.flatten())
        self._fields["groups"] += batch.num_rows

    def _timely(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The groups that have rows of open slides; others, of a router that was reset, are late."""
        counts = np.diff(batch.column("rows").offsets.to_numpy())
        timely = batch.column("slide").to_numpy() + self._windows.slides > self._panes.closed
        late = int(counts[~timely].sum())
        if late:
            self._faults["late"] += late
        useful = timely & (counts > 0) & batch.column("key").is_valid().to_numpy(zero_copy_only=False)
        return batch if useful.all() else batch.filter(pa.array(useful))

    def _close(self, until: int) -> list[Output]:
        if until <= self._panes.closed:
            return []
        before, outputs, partials = self._panes.closed, list[Output](), list[Closing]()
        of = self._setting.aggregation, self._windows
        for window in self._panes.close(until):
            if self._is_shared(window):
                partials.append(window)
            else:
                outputs.append(Output("", result(*of, window.end, window.key, window.state)))
        self._fields["finals"] += len(outputs)
        self._fields["partials"] += len(partials)
        for slide in [slide for slide in self._shared if not self._panes.open(slide)]:
            del self._shared[slide]
        return outputs + self._partials(partials, before)

    def _is_shared(self, window: Closing) -> bool:
        start = window.end - self._windows.slides
        if start <= self._shared_until:
            return True
        return any(
            start <= slide < window.end and window.hash in self._shared[slide] for slide in self._shared
        )

    def _partials(self, closing: list[Closing], before: int) -> list[Output]:
        """The frames to each shard of the reducer, which needs the end of what is closed in any case."""
        shards = shards_of(np.array([each.hash for each in closing], np.uint64), len(self._numbers)).tolist()
        outputs = []
        header = Header(self._origin, self._setting.worker, self._setting.shard, self._shards, before)
        header = replace(header, window_us=self._windows.window_us, slide_us=self._windows.slide_us)
        for shard, number in enumerate(self._numbers):
            own = [each for each, to in zip(closing, shards, strict=True) if to == shard]
            states = [self._setting.aggregation.encode(each.state) for each in own]
            ends = pa.array([each.end for each in own], pa.int64())
            columns = [pa.array([each.key for each in own], pa.utf8()), ends, pa.array(states, pa.binary())]
            batch = pa.RecordBatch.from_arrays(columns, names=["key", "window", "state"])
            pieces = cut(batch, widths(batch))
            made = sequence(pieces, number, shard, header, self._panes.closed)
            outputs += [Output("partials", each) for each in made]
            self._numbers[shard] += len(made)
        return outputs
