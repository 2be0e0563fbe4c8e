"""The rows that a router takes: good, bad, repeated, controls; and its report."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from jars_and_apps.key_split.aggregation import Aggregation, result
from jars_and_apps.key_split.frames import ROWS, decode
from jars_and_apps.key_split.hashing import homes, shards_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting
from jars_and_apps.key_split.partitioners.simple import Hash, Shuffle
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.rows import DAY_US, KEY_BYTES, MOST_TIMES, ROW_BYTES
from jars_and_apps.key_split.settings import RouterSetting
from jars_and_apps.key_split.slides import Windows

WINDOWS = Windows(60_000_000, 60_000_000)
NOW = 1_500_000_000_000_000


def _batch(**columns: Any) -> pa.RecordBatch:
    """A batch of good rows, but for these columns."""
    count = len(next(iter(columns.values())))
    base = {
        "key": pa.array(["a"] * count, pa.utf8()),
        "time": pa.array([NOW] * count, pa.int64()),
        "_arrival": pa.array([NOW] * count, pa.int64()),
        "_hash": pa.array([1] * count, pa.int64()),
        **columns,
    }
    return pa.RecordBatch.from_arrays([*base.values()], names=[*base])


def _router(partitioner: type[Hash] = Hash, workers: int = 2) -> Router:
    return Router.begin(RouterSetting(WINDOWS, "any", partitioner, (1.0,) * workers, origin="begun"))


def _taken(router: Router, batch: pa.RecordBatch) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The rows in the frames, and the faults in the report."""
    frames = [decode(output.value, ROWS) for output in router.step(batch)]
    rows = [row for frame in frames for row in frame.batch.column("rows").flatten().to_pylist()]
    return rows, json.loads(router.report(0.5, 1.0).value[1:])["faults"]


GOOD_TIMES = [0, NOW, NOW + DAY_US]
BAD: dict[str, tuple[list[Any], list[Any], pa.DataType]] = {
    "key": (
        ["", "k" * KEY_BYTES, "å" * (KEY_BYTES // 2)],
        [None, "k" * (KEY_BYTES + 1), "å" * 513],
        pa.utf8(),
    ),
    "_arrival": ([NOW, NOW - DAY_US], [NOW - DAY_US - 1, None], pa.int64()),
    "times": ([1], [None, -1, MOST_TIMES + 1], pa.int32()),
    "number": ([0, 2**40], [None], pa.int64()),
    "flag": ([True], [None], pa.bool_()),
    "speed": ([1.5, None, float("nan")], [], pa.float64()),
    "text": (["", None, "x" * 1000], ["x" * ROW_BYTES], pa.utf8()),
    "data": ([b"", None], [b"x" * ROW_BYTES], pa.binary()),
    "moment": ([0, None], [], pa.timestamp("us")),
}


@pytest.mark.parametrize("column", BAD)
def test_bad_rows_are_dropped_and_counted(column: str) -> None:
    """At the bound a row is good, beyond it bad."""
    good, bad, kind = BAD[column]
    rows, faults = _taken(_router(), _batch(**{column: pa.array(good + bad, kind)}))
    assert len(rows) == len(good)
    assert faults == ({"bad": len(bad)} if bad else {})


def test_bad_times() -> None:
    """A null, one before 1970, and one over a day after its message's arrival."""
    bad = [None, -1, NOW + DAY_US + 1]
    rows, faults = _taken(_router(), _batch(time=pa.array(bad + GOOD_TIMES)))
    assert sorted(row["time"] for row in rows) == GOOD_TIMES
    assert faults == {"bad": 3}


def test_late_rows_are_counted_apart() -> None:
    """By the batches before, not by their own."""
    router = _router()
    _taken(router, _batch(time=pa.array([NOW])))
    rows, faults = _taken(router, _batch(time=pa.array([NOW - 60_000_000, NOW + 600_000_000, NOW, None])))
    assert len(rows) == 2
    assert faults == {"late": 1, "bad": 1}


def test_a_message_stands_for_rows() -> None:
    """As many as its ``times``, none for 0."""
    columns = {"times": pa.array([3, 0, 2], pa.int32()), "number": pa.array([7, 8, 9])}
    rows, _ = _taken(_router(), _batch(**columns))
    assert [row["number"] for row in rows] == [7, 7, 7, 9, 9]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.decimal128(9, 2), pa.struct([("a", pa.int64())])])
def test_a_column_that_numpy_has_no_type_for(kind: pa.DataType) -> None:
    """Named, with the right types."""
    words = r"column 'odd' is .* \(expected numbers, text, binary or timestamps\)"
    with pytest.raises(TypeError, match=words):
        _router().step(_batch(odd=pa.nulls(2, kind)))


def test_without_a_row() -> None:
    """Nothing is written, not even by the first batch."""
    assert _router().step(_batch(key=pa.array([], pa.utf8()))) == []


class Noting(Hash):
    """Notes what was measured."""

    windows: list[MetricsWindow]

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner with no note."""
        partitioner = cls(setting)
        partitioner.windows = []
        return partitioner

    def observe(self, window: MetricsWindow) -> None:
        """Note it."""
        self.windows.append(window)

    def dump(self) -> Arrays:
        """The busy times."""
        return {"busy": np.array([window.busy for window in self.windows]).reshape(-1)}


def test_control_messages() -> None:
    """They are no rows; a good one reaches the partitioner after the batch, others are counted."""
    good = {"end": 1, "workers": [{"rows": 5, "busy": 0.5, "wall": 2}, None]}
    bad = ["{", "[]", "{}", '{"workers": [1, 2]}', '{"workers": [null]}', '{"workers": null}', "[" * 2000]
    router = _router(Noting)
    batch = _batch(_control=pa.array([None, json.dumps(good), *bad]), key=pa.array(["a"] + [None] * 8))
    rows, faults = _taken(router, batch)
    assert len(rows) == 1
    assert faults == {"bad_control": len(bad)}
    assert np.array_equal(router._partitioner.dump()["busy"], [0.5, np.nan], equal_nan=True)


def test_the_report_of_a_router() -> None:
    """JSON behind a byte that sorts after every frame and result."""
    router = _router(Shuffle, workers=3)
    router.step(_batch(key=pa.array(["a"] * 9)))
    topic, value = router.report(0.5, 1.0)
    assert topic == "report/partitioner"
    assert value[:1] == b"\xff"
    report = json.loads(value[1:])
    assert (report["rows"], report["loads"], report["busy"], report["wall"]) == (9, [3, 3, 3], 0.5, 1.0)


class Halves(Hash):
    """The rows of each key to two workers in turn; hot from the third row of a slide on."""

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers."""
        return Routing(np.arange(len(hashes), dtype=np.int32) % 2, threshold=2.0)


def test_hot_keys_are_counted_over_the_batches_of_a_slide() -> None:
    """Three rows of one key in two batches make it hot; with the next slide none is."""
    router, found = _router(Halves), []
    for keys, time in (("aab", 0), ("abb", 0), ("a", 1)):
        hashes = pa.array([ord(key) for key in keys], pa.int64())
        times = pa.array([NOW + time * 60_000_000] * len(keys), pa.int64())
        router.step(_batch(key=pa.array([*keys]), _hash=hashes, time=times))
        report = json.loads(router.report(0.5, 1.0).value[1:])
        found.append((report["hot"], report["true_hot"]))
        router = Router.load(router._setting, router.dump())
    assert found == [(0, 0), (2, 2), (0, 0)]


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [0.0, 3.0, 1.0], [2.0, 1.0, 0.0]])
def test_homes_and_shards_follow_the_weights(weights: list[float]) -> None:
    """None at a weight of 0; the shards of a home are even."""
    hashes = np.random.default_rng(1).integers(0, 2**63, 60_000).astype(np.uint64)
    workers = homes(hashes, np.array(weights), 3)
    shares = np.bincount(workers, minlength=3) / len(hashes)
    assert shares == pytest.approx(np.array(weights) / sum(weights), abs=0.01)
    counts = np.bincount(shards_of(hashes[workers == 1], 4)) / (workers == 1).sum()
    assert counts == pytest.approx([0.25] * 4, abs=0.02)


class Mean:
    """A mean, with a pair of forms of its own and all groups at once."""

    def add(self, columns: Any) -> tuple[float, int]:
        """The sum and count."""
        return float(columns["speed"].sum()), len(columns["speed"])

    def add_all(self, columns: Any, starts: NDArray[np.int64]) -> list[tuple[float, int]]:
        """The same of many groups."""
        counts = np.diff(np.append(starts, len(columns["speed"])))
        return [*zip(np.add.reduceat(columns["speed"], starts).tolist(), counts.tolist(), strict=True)]

    def merge(self, one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        """Both."""
        return one[0] + other[0], one[1] + other[1]

    def finish(self, state: tuple[float, int]) -> dict[str, Any]:
        """The mean, in a type of numpy, and an infinite number."""
        return {
            "mean": np.float32(state[0] / state[1]),
            "all": [np.int64(state[1]), float("inf")],
            "key": "other",
        }


def test_all_groups_at_once_are_as_one_after_another() -> None:
    """``add_all`` and the loop over ``add``."""
    columns = {"speed": np.arange(7.0)}
    starts = np.array([0, 2, 3])
    mean = Mean()
    expected = [mean.add({"speed": part}) for part in np.split(columns["speed"], starts[1:])]
    assert Aggregation(mean).add_all(columns, starts) == expected


def test_a_result() -> None:
    """The key, start and end first, numbers that JSON lacks as null, times in UTC."""
    found = json.loads(result(Aggregation(Mean()), WINDOWS, NOW // 60_000_000, "a", (3.0, 2)))
    times = {"start": "2017-07-14T02:39:00Z", "end": "2017-07-14T02:40:00Z"}
    assert list(found)[:3] == ["key", "start", "end"]
    assert found == {"key": "a", **times, "mean": 1.5, "all": [2, None]}


@pytest.mark.parametrize(("window", "slide"), [(0, 1), (1, 0), (5, 2), (-2, -1)])
def test_windows_that_are_none(window: int, slide: int) -> None:
    """Refused, with the sizes."""
    with pytest.raises(ValueError, match=f"window of {window} us by {slide} .expected a multiple"):
        Windows(window, slide)
