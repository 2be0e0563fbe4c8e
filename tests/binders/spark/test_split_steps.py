"""The functions that run a split's operators at a site, without Spark: rows in any order, code by value."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle

import binders.spark.query.split.query as split_query
from binders.spark.query.split.groups import group_keys, hash_of
from binders.spark.query.split.query import partitioner_of
from binders.spark.query.split.rerouting import RoutedRouter
from binders.spark.query.split.sample import rows_of_a_call
from binders.spark.query.split.steps import ORDER, batch_of, combining, stateful_step
from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.baselines.policy import shipped_text
from jars_and_apps.key_split.collector import Collector, combine
from jars_and_apps.key_split.settings import ReducerSetting, RouterSetting
from jars_and_apps.key_split.slides import Windows
from speck.core.split import POLICIES, Part, split_topic

SECOND = 1_000_000  # us


def rows(*values: tuple[str | None, int | None, int]) -> pa.RecordBatch:
    """Rows of key, event time (s) and number, as Spark gives them to Python."""
    keys, times, numbers = zip(*values, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.utf8()),
            "time": pa.array([None if each is None else each * SECOND for each in times], pa.int64()),
            "_hash": pa.array([int(sha256(str(each).encode()).hexdigest()[:15], 16) for each in keys]),
            "_arrival": pa.array([10**15] * len(keys), pa.int64()),
            "number": pa.array(numbers, pa.int64()),
        }
    )


def test_rows_come_in_the_same_order_however_spark_has_shuffled_them() -> None:
    batch = rows(("a", 1, 1), ("b", 2, 2), ("c", 3, 3), ("d", 4, 4))
    batch = batch.append_column(ORDER, pa.array([7, -3, 2**62, 0], pa.int64()))
    first = batch_of([batch.slice(0, 3), batch.slice(3)], frozenset())
    again = batch_of([batch.take([3, 1]), batch.take([2, 0])], frozenset())
    assert first == again
    assert first is not None
    assert first.column("key").to_pylist() == ["b", "d", "a", "c"]
    assert ORDER not in first.schema.names


def test_no_rows_are_no_batch() -> None:
    assert batch_of([], frozenset()) is None
    assert batch_of([rows(("a", 1, 1)).slice(0, 0)], frozenset()) is None


def test_timestamps_are_timestamps_again() -> None:
    found = batch_of([rows(("a", 1, 1_700_000_000_000_001))], frozenset(["number"]))
    assert found is not None
    assert found.column("number").type == pa.timestamp("us")
    assert found.column("number").to_numpy(zero_copy_only=False)[0] == np.datetime64(
        1_700_000_000_000_001, "us"
    )


def test_each_task_gets_as_many_shards_as_the_others() -> None:
    for tasks in (1, 2, 3, 8):
        keys = group_keys(4 * tasks, tasks)
        assert len(set(keys)) == len(keys)
        assert [hash_of(key) % tasks for key in keys] == [shard % tasks for shard in range(4 * tasks)]


def test_the_hash_is_that_of_spark() -> None:
    # SELECT hash(0), hash(1) on Spark 4.3.0
    assert (hash_of(0), hash_of(1)) == (933211791, -559580957)


def routed_to(*weights: float) -> RouterSetting:
    partitioner = partitioner_of("hash")
    windows = Windows(10 * SECOND, 10 * SECOND)
    return RouterSetting(windows=windows, name="hash", partitioner=partitioner, weights=weights, origin="a")


def test_the_first_batch_of_a_new_form_is_routed_as_before() -> None:
    """It may be one that the former form has begun, whose frames are partly written."""
    former, new = routed_to(1, 1), routed_to(1, 1, 1)
    first, second = (rows(*((f"k{key}", start + key % 9, key) for key in range(50))) for start in (1, 31))
    router = RoutedRouter.begin(former)
    router.step(first)
    state = router.dump()
    begun = RoutedRouter.load(former, state, partitioner_of).step(second)
    repeated = RoutedRouter.load(new, state, partitioner_of)
    assert repeated.step(second) == begun
    third = RoutedRouter.load(new, repeated.dump(), partitioner_of).step(second)
    assert {output.topic for output in third} == {"rows/0", "rows/1", "rows/2"}


CONTROL = b'{"end": 1, "workers": [{"rows": 9, "busy": 4, "wall": 4}, {"rows": 9, "busy": 1, "wall": 1}]}'


def with_policy(*names: str) -> RouterSetting:
    kind = partitioner_of("saspartitioner")
    policies = tuple(map(shipped_text, names))
    return replace(routed_to(1, 1), name="saspartitioner", partitioner=kind, policies=policies)


def policy_of(router: RoutedRouter) -> str:
    return str(json.loads(router.report(0, 0).value[1:])["policy"])


def test_another_policy_routes_from_the_second_batch_on() -> None:
    batches = [rows(*((f"k{key}", start + key % 9, key) for key in range(50))) for start in (1, 31, 61, 91)]
    router = RoutedRouter.begin(with_policy("zipf-1.5"))
    control = pa.array([CONTROL, *[None] * 49], pa.binary())
    router.step(batches[0].append_column("_control", control))
    router.step(batches[1])
    repeated = RoutedRouter.load(with_policy("zipf-2"), router.dump(), partitioner_of)
    assert repeated.step(batches[2]) == router.step(batches[2])
    assert policy_of(repeated) == policy_of(router) == "zipf-1.5"
    last = RoutedRouter.load(with_policy("zipf-2"), repeated.dump(), partitioner_of)
    last.step(batches[3])
    assert policy_of(last) == "none: no work was measured yet"


def test_a_state_from_before_there_were_policies_is_read() -> None:
    router = RoutedRouter.begin(with_policy())
    router.step(rows(("a", 1, 1)))
    state = router.dump()
    size = int.from_bytes(state[:4], "big")
    head = json.loads(state[4 : 4 + size])
    del head["policies"]
    written = json.dumps(head).encode()
    older = len(written).to_bytes(4, "big") + written + state[4 + size :]
    found = RoutedRouter.load(with_policy(), older, partitioner_of)
    assert found.step(rows(("a", 2, 1))) == router.step(rows(("a", 2, 1)))
    assert found.dump() == router.dump()


def test_a_form_with_fewer_workers_fails_in_its_first_batch() -> None:
    router = RoutedRouter.begin(routed_to(1, 1))
    batch = rows(("a", 1, 1))
    router.step(batch)
    fewer = RoutedRouter.load(routed_to(1), router.dump(), partitioner_of)
    fewer.step(batch)
    with pytest.raises(ValueError, match="upgrade: stateless"):
        fewer.dump()


class Greatest:
    """An aggregation of numbers."""

    def add(self, columns: dict[str, np.ndarray]) -> int:
        return int(columns["number"].max())

    def merge(self, one: int, other: int) -> int:
        return max(one, other)

    def finish(self, state: int) -> dict[str, int]:
        return {"greatest": state}


# Runs as a site's Python does: without SpecK.
WITHOUT_SPECK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("speck", "binders", "jars_and_apps", "tests"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import pickle
"""
TAKES_FRAMES = """
import pandas

class State:
    getOption = None
    def update(self, value):
        self.getOption = value

step = pickle.load(open(sys.argv[1], "rb"))
state, found = State(), []
for frame in pickle.load(open(sys.argv[2], "rb")):
    for messages in step((0,), iter([frame]), state):
        found += [value for topic, value in zip(messages.topic, messages.value) if topic is None]
print(b"\\n".join(found).decode())
"""


@pytest.fixture
def by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickle by value for this test alone, as in the process that starts a query."""
    monkeypatch.setattr(cloudpickle.cloudpickle, "_PICKLE_BY_VALUE_MODULES", set())
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    split_query._carry_code()


@pytest.mark.slow("starts a new interpreter")
@pytest.mark.usefixtures("by_value")
def test_the_code_of_a_step_goes_along(tmp_path: Path) -> None:
    setting = ReducerSetting(Windows(10 * SECOND, 10 * SECOND), Aggregation(Greatest()))  # type: ignore[arg-type]
    load = split_query._collector(setting)
    schema = pa.schema({"value": pa.binary()})
    step = stateful_step(load, {0: 0}, schema, frozenset(), "speck/split/greatest/")
    batches = [
        combine(setting, rows(("a", 1, 3), ("a", 2, 9), ("b", 3, 4)), 1),
        combine(setting, rows(("a", 25, 1)), 1),
    ]
    frames = [pd.DataFrame({"value": each.column("value").to_pylist()}) for each in batches]
    for name, value in (("step", step), ("frames", frames)):
        (tmp_path / name).write_bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    command = [
        sys.executable,
        "-c",
        WITHOUT_SPECK + TAKES_FRAMES,
        str(tmp_path / "step"),
        str(tmp_path / "frames"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    found = [line.partition(',"end"')[2].partition(",")[2] for line in ended.stdout.splitlines()]
    assert found == ['"greatest":9}', '"greatest":4}']


TAKES_ROWS = """
import json, pandas

class State:
    getOption = None
    def update(self, value):
        self.getOption = value

step = pickle.load(open(sys.argv[1], "rb"))
state = State()
for frame in pickle.load(open(sys.argv[2], "rb")):
    for messages in step((0,), iter([frame]), state):
        print(json.loads(messages.value.iloc[-1][1:])["policy"])
"""


@pytest.mark.slow("starts a new interpreter")
@pytest.mark.usefixtures("by_value")
def test_the_policies_go_along(tmp_path: Path) -> None:
    """The site has none of their files, and takes measurements in the first batch already."""
    described = {"of": "greatest", "window_us": 10 * SECOND, "slide_us": 10 * SECOND, "seed": 1, "workers": 2}
    part = Part.of_split({"role": "partitioner", "partitioner": "saspartitioner-adaptive", **described})
    frames = []
    for start in (1, 31, 61):
        batch = rows(*((f"k{key % 5}", start, key) for key in range(50)))
        frame = batch.to_pandas()
        frame["_control"] = [CONTROL, *[None] * 49] if start == 31 else [None] * 50
        frames.append(frame)
    schema = batch.schema.append(pa.field("_control", pa.binary()))
    load = split_query._router(part)
    step = stateful_step(load, {0: 0}, schema, frozenset(), "speck/split/greatest/")
    for name, value in (("step", step), ("frames", frames)):
        (tmp_path / name).write_bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    command = [
        sys.executable,
        "-c",
        WITHOUT_SPECK + TAKES_ROWS,
        str(tmp_path / "step"),
        str(tmp_path / "frames"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    first, second, third = ended.stdout.splitlines()
    assert (first, second) == ("none: no work was measured yet",) * 2
    assert third in POLICIES


def test_each_part_reports_to_its_own_topic() -> None:
    aggregation = Aggregation(Greatest())  # type: ignore[arg-type]
    setting = ReducerSetting(Windows(10 * SECOND, 10 * SECOND), aggregation)
    described = {"of": "greatest", "window_us": 10 * SECOND, "slide_us": 10 * SECOND, "seed": 1}
    loads = {
        "partitioner": lambda part: split_query._router(part),
        "combiner": lambda part: split_query._combiner(part, aggregation),
        "reducer": lambda part: split_query._reducer(part, aggregation),
        "whole": lambda _: split_query._collector(setting),
    }
    for role, load in loads.items():
        part = Part.of_split({"role": role, "number": 3, "workers": 2, "partitioner": "hash", **described})
        report = load(part)(0, "query", None).report(0.5, 1.0)
        assert split_topic("greatest", report.topic) == part.report_topic


def test_what_the_workers_of_one_job_took_is_in_the_report() -> None:
    setting = ReducerSetting(Windows(10 * SECOND, 10 * SECOND), Aggregation(Greatest()))  # type: ignore[arg-type]
    step = combining(setting, 2, frozenset())
    partitions = [rows(("a", 1, 3), ("b", 2, 9)), rows(("a", 1, 4))]
    made = [batch for each in partitions for batch in step(iter([each]))]
    own = [value for each in made for shard, value in zip(*map(pa.Array.to_pylist, each.columns), strict=True)
           if shard == 0]  # fmt: skip
    collector = Collector.begin(setting)
    collector.step(pa.RecordBatch.from_arrays([pa.array(own, pa.binary())], names=["value"]))
    report = json.loads(collector.report(0.5, 1.0).value[1:])
    assert [each["rows"] for each in report["workers"]] == [2, 1]
    assert all(each["busy"] > 0 and each["wall"] > 0 for each in report["workers"])
    assert report["faults"] == {}


@pytest.mark.slow("starts a new interpreter")
@pytest.mark.usefixtures("by_value")
def test_the_code_of_each_operator_goes_along(tmp_path: Path) -> None:
    described = {"of": "greatest", "window_us": 10 * SECOND, "slide_us": 10 * SECOND}
    routing = {"workers": 2, "partitioner": "balanced", "lateness_us": 0, "seed": 1}
    aggregation = Aggregation(Greatest())  # type: ignore[arg-type]
    loads = [
        split_query._router(Part.of_split({"role": "partitioner", **described, **routing})),
        split_query._combiner(Part.of_split({"role": "combiner", "number": 1, **described}), aggregation),
        split_query._reducer(Part.of_split({"role": "reducer", **described}), aggregation),
    ]
    (tmp_path / "loads").write_bytes(cloudpickle.dumps(loads))  # type: ignore[no-untyped-call]
    each = "for load in pickle.load(open(sys.argv[1], 'rb')): load(0, 'q', load(0, 'q', None).dump())"
    command = [sys.executable, "-c", WITHOUT_SPECK + each, str(tmp_path / "loads")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_the_rows_of_a_call_follow_from_two_times() -> None:
    """10 calls that take as long as 30 rows each, beside 1,000 rows of a second."""
    assert rows_of_a_call(adding=1300.0, calling=310.0, rows=1000, calls=10) == pytest.approx(30)
    assert (
        rows_of_a_call(adding=310.0, calling=310.0, rows=10, calls=10) == 0
    )  # one row a call: it cannot be seen
    assert rows_of_a_call(adding=300.0, calling=310.0, rows=1000, calls=10) == 0  # chance
