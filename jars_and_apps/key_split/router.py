"""The router: gives rows to combiners, by a partitioner, in numbered frames.

A keyed aggregation in windows is split over workers: the router deals rows out, each combiner aggregates
those that it gets, and a key whose rows of a slide reached one combiner only is complete there.
Otherwise the reducer has to merge partial states.  The router is the one place that knows which keys
those are, and the results are exact whatever the partitioner decides, because of three rules:

1. **Every key has one owner in each slide.**  It is the combiner that may emit the key's windows by
   itself.  An owner changes from the slide after the newest one on, never within one, so that no combiner
   has to be told about rows that it has aggregated already.
2. **Rows off their owner are noticed.**  When a row goes to another combiner than the owner of its key
   in its slide, the pair (key, slide) is *shared* from then on: the batch for the other combiner carries
   a flag, and the owner gets a notice, once.  Both send their partial states to the reducer, which merges
   them.  A key that changes its owner is noticed to both, for windows that reach over both slides.
3. **A slide closes by a count, not by a clock.**  Each frame has a number, by combiner and shard, and
   says up to which slide all rows are closed.  A combiner emits a window when it has all frames up to
   that statement; a frame that comes twice is recognised by its number, and a lost one is seen as a gap.

All state is small and can be dumped: the partitioner's arrays, the owners of the keys seen in open
slides, the notices given, and the numbers of the frames.  A router that is loaded with other workers or
another partitioner cannot know whom its predecessor gave rows, so that all keys up to the newest slide
count as shared: that costs merges, and no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jars_and_apps.key_split.frames import Header, sequence
from jars_and_apps.key_split.groups import Groups, group
from jars_and_apps.key_split.hashing import Hashes, shards_of
from jars_and_apps.key_split.keys import Keys, SlideCounts, Slides, always
from jars_and_apps.key_split.partitioners.protocol import Partitioner, Routing, Setting
from jars_and_apps.key_split.reports import metrics_window, report
from jars_and_apps.key_split.rows import DAY_US, Rows, read
from jars_and_apps.key_split.settings import Output, RouterSetting
from jars_and_apps.key_split.slides import NEVER
from jars_and_apps.key_split.state import pack, unpack

NOTICES = 2048
"""Notices in a frame, at most: some 40 KB, beside the rows of a batch."""


class Router:
    """The partitioner's job, one instance for all rows of the source.

    ``step`` takes the rows of one micro-batch, also one without rows, with these columns, in any order:

    - ``key``: utf8, null or over 1 KiB is a bad row
    - ``time``: int64, microseconds since 1970, null is a bad row
    - ``_hash``: int64 or uint64, Spark's ``xxhash64(key)``
    - ``_arrival``: int64, microseconds since 1970, the message's time; a ``time`` over a day after it is a
      bad row
    - ``_control`` (optional): binary or utf8, not null for control messages, whose other columns are ignored
    - ``times`` (optional): integer, the rows that a row stands for; null, below 0 or over 10,000 is a bad row
    - the user's: numbers, booleans, utf8, binary, timestamps (given to ``add`` as datetime64); names without
      ``_``; a null in integers or booleans, or a row of over 1 MiB, is a bad row

    It returns frames for ``rows/W``.  ``report`` is the message about the last step, for
    ``report/partitioner``.
    """

    def __init__(self, setting: RouterSetting) -> None:
        self._setting = setting
        self._windows = setting.windows
        self._weights = np.array(setting.weights, np.float64)
        self._shards = np.array(setting.shards or [1] * len(setting.weights), np.int64)
        self._starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._shards)))
        self._partition = Setting(
            self._weights, setting.seed, self._windows.slides, setting.options, setting.policies
        )
        self._partitioner: Partitioner = setting.partitioner.begin(self._partition)
        self._keys = Keys(self._weights, setting.seed)
        self._origin = setting.origin
        self._batch = 0
        self._numbers = np.zeros(self._starts[-1], np.int64)
        self._closed = self._newest = self._shared_until = NEVER
        self._noticed: dict[int, Hashes] = {}
        self._counts = SlideCounts()
        self._faults: Counter[str] = Counter()
        self._windows_observed, self._observed_end = 0, 0.0
        self._fields: dict[str, Any] = {}
        self._bytes = 0

    @classmethod
    def begin(cls, setting: RouterSetting) -> Self:
        """A router that has seen no row."""
        return cls(setting)

    @classmethod
    def load(cls, setting: RouterSetting, data: bytes) -> Self:
        """The router whose state was dumped.

        With another partitioner, weights, seed, options or more workers, the partitioner begins anew, and the
        keys of all slides up to the newest count as shared.  ValueError for fewer workers, another window,
        slide or number of shards, or a damaged state.
        """
        meta, values = unpack("router", setting.windows, data)
        router = cls(setting)
        router._check_shards(meta["shards"])
        same = meta["routing"] == router._routing()
        router._origin, router._batch, router._faults = meta["origin"], meta["batch"], Counter(meta["faults"])
        router._closed, router._newest, router._shared_until = meta["slides"]
        router._numbers[: len(values["numbers"])] = values["numbers"]
        router._counts = SlideCounts(values["counts.hash"], values["counts.rows"])
        router._keys = Keys.load(router._weights, setting.seed, values, moves=same)
        if same:
            router._noticed = _by_slide(values["noticed.slide"], values["noticed.hash"])
            arrays = {name[2:]: each for name, each in values.items() if name.startswith("p.")}
            router._partitioner = setting.partitioner.load(router._partition, arrays)
            router._windows_observed, router._observed_end = meta["observed"]
        else:  # The notices so far went to former owners.
            router._shared_until = max(router._shared_until, router._newest)
        return router

    def dump(self) -> bytes:
        """The state, as Arrow IPC."""
        slides = [self._closed, self._newest, self._shared_until]
        meta = {"origin": self._origin, "batch": self._batch, "slides": slides, "faults": self._faults}
        meta |= {"shards": self._shards.tolist(), "routing": self._routing()}
        meta["observed"] = [self._windows_observed, self._observed_end]
        values = {f"p.{name}": np.asarray(each) for name, each in self._partitioner.dump().items()}
        counts = [len(each) for each in self._noticed.values()]
        values |= {"numbers": self._numbers, **self._keys.dump()}
        values |= {"counts.hash": self._counts.hashes, "counts.rows": self._counts.counts}
        values["noticed.slide"] = np.repeat(np.array(list(self._noticed), np.int64), counts)
        values["noticed.hash"] = np.concatenate([np.empty(0, np.uint64), *self._noticed.values()])
        data = pack("router", self._windows, meta, values)
        self._bytes = len(data)
        return data

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Give the rows of the next batch to the workers; TypeError for a column of another type."""
        rows, bad, messages = read(batch)
        if self._setting.succeeds and self._newest == NEVER and len(rows):
            self._shared_until = self._latest(batch)
        slides = rows.times // self._windows.slide_us
        timely = slides + self._windows.slides > self._closed
        late = len(rows) - int(timely.sum())
        closed = max(self._closed, self._windows.closed(int(rows.times.max()))) if len(rows) else self._closed
        newest = max(self._newest, int(slides.max())) if len(rows) else self._newest
        if late:
            rows, slides = rows.take(np.flatnonzero(timely)), slides[timely]
        self._faults.update({name: count for name, count in (("bad", bad), ("late", late)) if count})
        outputs = self._route(rows, slides, closed, newest, late, bad)
        self._batch += 1
        self._forget()
        self._observe(messages)
        return outputs

    def _latest(self, batch: pa.RecordBatch) -> int:
        """The newest slide that a router before this batch can have given to anyone."""
        return int((pc.max(batch.column("_arrival")).as_py() + DAY_US) // self._windows.slide_us)

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, with its processor time and wall time, s."""
        return report("partitioner", {**self._fields, "state_bytes": self._bytes}, self._faults, busy, wall)

    def _route(
        self, rows: Rows, slides: Slides, closed: int, newest: int, late: int, bad: int
    ) -> list[Output]:
        if self._newest != NEVER and newest > self._newest:
            self._partitioner.advance(newest - self._newest)
        routing = self._partitioner.route(rows.hashes, self._batch)
        if len(rows) and not 0 <= routing.workers.min() <= routing.workers.max() < len(self._weights):
            raise ValueError(f"partitioner {self._setting.name!r} gave a row to a worker that is not there")
        to_all = closed > self._closed or newest > self._newest
        before, former, self._newest = self._closed, self._newest, newest
        shards = shards_of(rows.hashes, self._shards[routing.workers])
        groups = group(rows, slides, self._starts[routing.workers] + shards)
        notices = self._move(groups, routing)
        off_owner = groups.places != self._places(groups.hashes, groups.slides)
        notices.append(self._fresh(groups.hashes[off_owner], groups.slides[off_owner]))
        self._closed = closed
        header = Header(self._origin, 0, 0, tuple(self._shards.tolist()), before, before, newest)
        window_us, slide_us = self._windows.window_us, self._windows.slide_us
        header = replace(header, shared_until=self._shared_until, window_us=window_us, slide_us=slide_us)
        at = groups.slides == newest
        self._counts.add(groups.hashes[at], groups.counts[at], anew=newest > former)
        self._describe(rows, groups, routing, late, bad)
        return self._frames(groups, groups.batch(off_owner), Notices.of(notices), header, to_all=to_all)

    def _move(self, groups: Groups, routing: Routing) -> list[Notices]:
        """Note the keys of the groups, and give the moved ones to new owners; the notices of both owners."""
        distinct = np.unique(groups.hashes)
        last = np.full(len(distinct), NEVER)
        np.maximum.at(last, np.searchsorted(distinct, groups.hashes), groups.slides)
        moved, at = np.unique(np.asarray(routing.moved, np.uint64), return_index=True)
        owners = np.asarray(routing.owners, np.int32)[at]
        known = self._keys.known(moved)
        self._keys.see(distinct, last)
        if not len(moved):
            return []
        next_slide = np.full(len(moved), self._newest + 1)
        changed = self._keys.owners(moved, next_slide) != owners
        moved, owners, known, next_slide = (
            moved[changed],
            owners[changed],
            known[changed],
            next_slide[changed],
        )
        since = np.where(known, next_slide, always(moved))
        self._keys.move(moved, since, owners)
        unseen = moved[~self._keys.known(moved)]
        self._keys.see(unseen, np.full(len(unseen), self._newest))
        moved, next_slide = moved[known], next_slide[known]
        return [self._fresh(moved, next_slide - 1), self._notice(moved, next_slide)]

    def _fresh(self, hashes: Hashes, slides: Slides) -> Notices:
        """Notices for the owners of these pairs, of those that had none yet."""
        found = []
        for slide in np.unique(slides[slides > self._shared_until]).tolist():
            known = self._noticed.get(slide, np.empty(0, np.uint64))
            new = np.setdiff1d(hashes[slides == slide], known)
            found.append(self._notice(new, np.full(len(new), slide)))
        return Notices.of(found)

    def _notice(self, hashes: Hashes, slides: Slides) -> Notices:
        for slide in np.unique(slides).tolist():
            known = self._noticed.get(slide, np.empty(0, np.uint64))
            self._noticed[slide] = np.union1d(known, hashes[slides == slide])
        return Notices(self._places(hashes, slides), hashes, slides)

    def _places(self, hashes: Hashes, slides: Slides) -> NDArray[np.int64]:
        """The places (combiner and shard, counted through) of the owners of these pairs."""
        owners = self._keys.owners(hashes, slides)
        return self._starts[owners] + shards_of(hashes, self._shards[owners])

    def _frames(
        self, groups: Groups, batch: pa.RecordBatch, notices: Notices, header: Header, *, to_all: bool
    ) -> list[Output]:
        outputs = []
        for place in range(len(self._numbers)):
            worker = int(np.searchsorted(self._starts, place, side="right")) - 1
            contents = [batch.slice(each.start, each.stop - each.start) for each in groups.pieces_of(place)]
            contents += notices.to(place).batches(batch.schema)
            # A new combiner gets what is closed: the reducer waits for it from now on.
            new = not self._numbers[place] and self._newest != NEVER
            if not contents and (to_all or new):
                contents = [batch.slice(0, 0)]
            shard, own = place - int(self._starts[worker]), replace(header, worker=worker)
            made = sequence(contents, int(self._numbers[place]), shard, own, self._closed)
            outputs += [Output(f"rows/{worker}", each) for each in made]
            self._numbers[place] += len(made)
        return outputs

    def _forget(self) -> None:
        oldest = self._closed - self._windows.slides + 1
        self._keys.forget(oldest)
        # Of a key that is forgotten as well, which may have another owner from now on.
        self._noticed = {
            slide: each[self._keys.known(each)] for slide, each in self._noticed.items() if slide >= oldest
        }

    def _observe(self, messages: Sequence[bytes]) -> None:
        """Hand the metrics windows on, by their time: the rows of a batch come in any order."""
        windows = []
        for message in messages:
            try:
                windows.append(metrics_window(message, len(self._weights)))
            except ValueError:
                self._faults["bad_control"] += 1
        for window in sorted(windows, key=lambda each: each.end):
            self._partitioner.observe(window)
            self._windows_observed += 1
            self._observed_end = window.end

    def _describe(self, rows: Rows, groups: Groups, routing: Routing, late: int, bad: int) -> None:
        """Note what the report says of this step."""
        loads = np.bincount(routing.workers, minlength=len(self._weights)).tolist()
        shared = self._noticed.get(self._newest, np.empty(0, np.uint64))
        hot = self._counts.above(routing.threshold)
        self._fields = {
            "rows": len(rows),
            "late": late,
            "bad": bad,
            "groups": len(groups.hashes),
            "loads": loads,
        }
        self._fields |= {"batch": self._batch, "shared_keys": len(shared), "keys": len(self._keys.hashes)}
        self._fields |= {"closed_us": self._closed_us(), "threshold": _finite(routing.threshold)}
        self._fields |= {"hot": len(hot), "true_hot": int(np.isin(hot, shared).sum())}
        self._fields |= {"weights": self._shares(), "observed": self._windows_observed}
        self._fields["observed_end"] = self._observed_end or None
        if (policy := getattr(self._partitioner, "policy", None)) is not None:
            self._fields["policy"] = policy()

    def _shares(self) -> list[float]:
        """The workers' shares of the rows in this step; they sum to 1."""
        measured = getattr(self._partitioner, "shares", None)
        shares = np.array(measured() if measured else self._weights, np.float64)
        found: list[float] = np.round(shares / shares.sum(), 6).tolist()
        return found

    def _closed_us(self) -> int | None:
        return None if self._closed == NEVER else self._closed * self._windows.slide_us

    def _routing(self) -> list[Any]:
        """Everything that decides on homes and workers; another one resets the partitioner."""
        setting = self._setting
        found = [setting.name, list(setting.weights), setting.seed, dict(setting.options), setting.measured]
        return [*found, list(setting.policies)] if setting.policies else found

    def _check_shards(self, former: list[int]) -> None:
        if self._shards[: len(former)].tolist() != former:
            raise ValueError(
                f"{len(self._shards)} workers of {self._shards.tolist()} shards, the state has {former} "
                "(expected the same and more at the end; upgrade: stateless starts without it)"
            )


@dataclass(frozen=True, slots=True)
class Notices:
    """Pairs of a key's hash and a slide that are shared, and the places to be notified."""

    places: NDArray[np.int64]
    hashes: Hashes
    slides: Slides

    @classmethod
    def of(cls, parts: Sequence[Notices]) -> Notices:
        """The notices of all these, by place, each once."""
        empty = np.empty(0, np.int64)
        places = np.concatenate([empty, *(part.places for part in parts)])
        hashes = np.concatenate([np.empty(0, np.uint64), *(part.hashes for part in parts)])
        slides = np.concatenate([empty, *(part.slides for part in parts)])
        order = np.lexsort((slides, hashes, places))
        return cls(places[order], hashes[order], slides[order])

    def to(self, place: int) -> Notices:
        """Those to one place."""
        first, end = np.searchsorted(self.places, [place, place + 1])
        return Notices(self.places[first:end], self.hashes[first:end], self.slides[first:end])

    def batches(self, schema: pa.Schema) -> list[pa.RecordBatch]:
        """The contents of frames: groups without a key and without rows."""
        return [
            self._batch(schema, slice(start, start + NOTICES))
            for start in range(0, len(self.hashes), NOTICES)
        ]

    def _batch(self, schema: pa.Schema, part: slice) -> pa.RecordBatch:
        hashes = self.hashes[part]
        none = pa.array([[]] * len(hashes), schema.field("rows").type)
        key = pa.nulls(len(hashes), pa.utf8())
        flags = pa.array(np.ones(len(hashes), bool))
        columns = [key, pa.array(hashes), pa.array(self.slides[part]), flags, none]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _by_slide(slides: Slides, hashes: Hashes) -> dict[int, Hashes]:
    return {slide: hashes[slides == slide] for slide in np.unique(slides).tolist()}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
