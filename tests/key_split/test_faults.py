"""Frames that a broker lost, states that were lost, and code that changed: counted, and no window twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.combiner import Combiner
from jars_and_apps.key_split.frames import ROWS, Frame, decode, encode
from jars_and_apps.key_split.partitioners.simple import Hash
from jars_and_apps.key_split.reducer import Reducer
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.settings import RouterSetting
from jars_and_apps.key_split.slides import Windows
from testbed.key_split.reference import Row, results
from tests.key_split.examples import fault_test
from tests.key_split.pipeline import Ids, Pipeline, values_of
from tests.key_split.scenarios import SLIDE, START, Scenario, batches_of, pipeline_of, run, scenarios


@pytest.mark.slow("thousands of messages")
@fault_test
@given(scenario=scenarios(), lost=st.sampled_from([0.02, 0.2]))
def test_frames_that_are_lost(scenario: Scenario, lost: float) -> None:
    """Their rows are missing and no others, each is counted, and no window comes twice."""
    random = np.random.default_rng(scenario.seed + 1)
    pipeline = pipeline_of(scenario)
    dropped: list[bytes] = []

    def spoil(frame: bytes) -> bytes | None:
        if random.random() < lost:
            dropped.append(frame)
            return None
        return frame

    pipeline.spoil = spoil
    batches = run(scenario, pipeline)
    expected = results(batches, scenario.windows)
    for place, ids in pipeline.found().items():
        assert set(ids) <= set(expected[place])
    counted = sum(part.report()["faults"].get("lost_frames", 0) for part in pipeline.combiners.values())
    assert counted <= len(dropped)  # the last ones of a worker are not missed yet


@pytest.mark.slow("thousands of messages")
@fault_test
@given(scenario=scenarios(), grows=st.booleans(), behind=st.booleans())
def test_a_router_that_lost_its_state(scenario: Scenario, grows: bool, behind: bool) -> None:
    """One of another origin takes over, perhaps with a combiner more: late rows are late, no other is."""
    scenario = replace(scenario, changes=False)
    random = np.random.default_rng(scenario.seed)
    pipeline, batches = pipeline_of(scenario), batches_of(scenario, random)
    for number, rows in enumerate(batches):
        if random.random() < 0.2:
            for place in sorted(pipeline.waiting):
                pipeline.combine(place, 1 if behind else len(pipeline.waiting[place]))
            lose_state(pipeline, f"origin-{number:02}", seed=int(random.integers(100)), grows=grows)
        pipeline.route(rows)
        if not behind:
            pipeline.drain()
    pipeline.drain()
    assert pipeline.found() == results(batches, scenario.windows)


def lose_state(pipeline: Pipeline, origin: str, seed: int, *, grows: bool) -> None:
    """Let the next batch find a router without state, for one combiner more if the split ``grows``."""
    setting = pipeline.router.setting
    pipeline.router.state = None
    pipeline.change(origin=origin, seed=seed, succeeds=True)
    if grows and len(setting.weights) < 7:
        pipeline.change(weights=(*setting.weights, 1.0), shards=(*setting.shards, 1))


@pytest.mark.parametrize("late", [False, True], ids=["open", "out"])
def test_a_combiner_that_is_added_as_the_state_of_the_router_is_lost(late: bool) -> None:
    """It goes on with a window that another one has begun, and does not repeat one that is out."""
    windows = Windows(SLIDE, SLIDE)
    pipeline = Pipeline(RouterSetting(windows, "hash", Hash, (1.0,), shards=(1,), origin="origin-1"))
    first = [Row("a", START, START, 0)]
    if late:
        first += [Row("b", START + 2 * SLIDE, START, 1)]
    batches = [first, [Row("a", START, START, 2)], [Row("b", START + 4 * SLIDE, START, 3)]]
    pipeline.route(batches[0])
    pipeline.drain()
    lose_state(pipeline, "origin-2", 0, grows=True)
    pipeline.change(weights=(0.0, 1.0))  # all keys are the new one's
    for rows in batches[1:]:
        pipeline.route(rows)
        pipeline.drain()
    assert pipeline.found() == results(batches, windows)
    reports = [part.report()["faults"] for part in pipeline.reducers]
    assert reports == ([{"late_partials": 1}] if late else [{}])


def test_windows_of_a_former_origin_are_merged() -> None:
    """A router that does not know of the former one gives a key to another owner, within a window."""
    windows = Windows(2 * SLIDE, SLIDE)
    setting = RouterSetting(windows, "hash", Hash, (1.0, 0.0), origin="origin-1")
    pipeline = Pipeline(setting)
    batches = [[Row("a", START + number * SLIDE, START, number)] for number in (0, 1, 4)]
    pipeline.route(batches[0])
    pipeline.drain()
    pipeline.router.state = None
    pipeline.change(origin="origin-2", weights=(0.0, 1.0))
    for rows in batches[1:]:
        pipeline.route(rows)
    pipeline.drain()
    assert pipeline.found() == results(batches, windows)


def test_a_late_row_that_a_router_without_state_lets_pass() -> None:
    """The combiner, which has closed the row's window, counts it as late."""
    pipeline = Pipeline(RouterSetting(Windows(SLIDE, SLIDE), "hash", Hash, (1.0,), origin="origin-1"))
    batches = [
        [Row("a", START, START, 0), Row("b", START + 4 * SLIDE, START, 1)],
        [Row("a", START, START, 2)],
        [Row("b", START + 8 * SLIDE, START, 3)],
    ]
    pipeline.route(batches[0])
    pipeline.drain()
    lose_state(pipeline, "origin-2", 0, grows=False)
    for rows in batches[1:]:
        pipeline.route(rows)
        pipeline.drain()
    assert [part.report()["faults"] for part in pipeline.combiners.values()] == [{"late": 1}]
    assert pipeline.found() == results(batches, pipeline.windows)


def test_frames_of_a_former_origin_are_shut_out() -> None:
    """A former router that still writes changes nothing."""
    pipeline, batches = _run_once()
    former = Pipeline(pipeline.router.setting)
    former.route(batches[-1])
    old = former.waiting
    pipeline.router.state = None
    pipeline.change(origin="origin-2")
    pipeline.route(batches[-1])
    pipeline.drain()
    before = pipeline.found(), len(pipeline.partials)
    for place in list(old):
        pipeline.combine(place, 0, old[place])
    outdated = [part.report()["faults"].get("outdated_frames", 0) for part in pipeline.combiners.values()]
    assert outdated == [len(old[place]) for place in pipeline.combiners]
    assert (pipeline.found(), len(pipeline.partials)) == before


def test_frames_of_former_windows_are_shut_out() -> None:
    """All parts begin anew with another slide: numbers of former slides are those of other times."""
    pipeline = Pipeline(RouterSetting(Windows(SLIDE, SLIDE), "hash", Hash, (1.0, 1.0), origin="origin-1"))
    for number in range(3):
        pipeline.route([Row(f"key-{each}", START + number * SLIDE, START, each) for each in range(9)])
    pipeline.drain(reduced=False)
    pipeline.route([Row("a", START + 4 * SLIDE, START, 9)])
    waiting = [len(pipeline.waiting[place]) for place in sorted(pipeline.waiting)]
    partials = len(pipeline.partials)
    assert all([*waiting, partials])
    longer = Windows(4 * SLIDE, 4 * SLIDE)
    pipeline.results.clear()
    for part in (pipeline.router, *pipeline.combiners.values(), *pipeline.reducers):
        part.setting, part.state = replace(part.setting, windows=longer), None
    pipeline.change(origin="origin-2")
    batches = [[Row("b", START + number * SLIDE, START, number)] for number in (4, 5, 12)]
    for rows in batches:
        pipeline.route(rows)
    pipeline.drain()
    assert pipeline.found() == results(batches, longer)
    faults = [part.report()["faults"] for part in (*pipeline.combiners.values(), *pipeline.reducers)]
    assert faults == [{"outdated_frames": number} for number in (*waiting, partials)]


def test_frames_without_the_columns_of_the_class() -> None:
    """One of a foreign origin with a right checksum is counted, and all else goes on."""
    pipeline, place = _expecting("id: int64", "time: int64"), (0, 0)
    _route_rows(pipeline, 1000)
    frame = decode(pipeline.waiting[place][-1], ROWS)
    poor = _with_columns(frame, lambda rows: {"time": rows.field("time")})
    crafted = poor._replace(header=replace(poor.header, origin="crafted"))
    before = pipeline.combiners[place].report()["faults"]
    pipeline.waiting[place].append(encode(crafted))
    pipeline.drain()
    faults = pipeline.combiners[place].report()["faults"]
    assert faults == before | {"bad_frames": before.get("bad_frames", 0) + 1}


def test_frames_of_other_code_wait() -> None:
    """Those of former code for the next one, and those of the next for the former: none is dropped."""
    pipeline, place = _expecting("id: int64", "time: int64"), (0, 0)
    _route_rows(pipeline, 1000)
    former = pipeline.waiting[place]
    latter = [_renamed(each, by=len(former)) for each in former]
    part, before = pipeline.combiners[place], pipeline.combiners[place].report()["faults"]
    words = r"rows of columns {0}: int64, time: int64 are waiting \(expected {1}: int64, time: int64: let the"
    with pytest.raises(ValueError, match=words.format("number", "id")):
        part.step(values_of(latter))
    next_code = replace(part.setting, columns=("number: int64", "time: int64"))
    part.setting, setting = replace(next_code, aggregation=Aggregation(Numbers())), part.setting
    with pytest.raises(ValueError, match=words.format("id", "number")):
        part.step(values_of(former))
    part.setting, next_code = setting, part.setting
    part.step(values_of(former))
    part.setting = next_code
    part.step(values_of([*former, *latter]))  # a broker gives the former ones again
    assert part.report()["faults"] == before | {"repeated_frames": before["repeated_frames"] + len(former)}


class Numbers(Ids):
    """The ids in a column of another name."""

    def add(self, columns: Mapping[str, Any]) -> list[int]:
        """The numbers."""
        return super().add({"id": columns["number"]})


def _renamed(data: bytes, by: int) -> bytes:
    """A later frame with the column under that name."""
    frame = decode(data, ROWS)
    columns = _with_columns(frame, lambda rows: {"time": rows.field("time"), "number": rows.field("id")})
    return encode(columns._replace(number=frame.number + by))


def test_columns_that_a_class_has_not_are_left_out() -> None:
    """Those that its other code has more, before or after it."""
    pipeline, place = _expecting("id: int64", "time: int64"), (0, 0)
    _route_rows(pipeline, 1000)
    more = [
        encode(
            _with_columns(
                decode(each, ROWS),
                lambda rows: {"extra": rows.field("id"), "id": rows.field("id"), "time": rows.field("time")},
            )
        )
        for each in pipeline.waiting[place]
    ]
    seen: list[set[str]] = []

    class Watched(Ids):
        def add(self, columns: Mapping[str, Any]) -> list[int]:
            seen.append(set(columns))
            return super().add(columns)

    part = pipeline.combiners[place]
    part.setting = replace(part.setting, aggregation=Aggregation(Watched()))
    before = part.report()["faults"]
    part.step(values_of(more))
    assert seen
    assert all(each == {"id", "time"} for each in seen)
    assert part.report()["faults"] == before


def _expecting(*columns: str) -> Pipeline:
    """A split at work, whose first combiner has a class with these columns."""
    pipeline, _ = _run_once()
    part = pipeline.combiners[0, 0]
    part.setting = replace(part.setting, columns=columns)
    return pipeline


def _route_rows(pipeline: Pipeline, first: int) -> None:
    now = START + 20 * pipeline.windows.slide_us
    pipeline.route([Row(f"key-{number}", now, now, first + number) for number in range(12)])


def _with_columns(frame: Frame, columns: Callable[[pa.StructArray], Mapping[str, pa.Array]]) -> Frame:
    """The frame with other columns of its rows."""
    whole, at = frame.batch.column("rows"), frame.batch.schema.get_field_index("rows")
    made = columns(whole.flatten())
    rows = pa.StructArray.from_arrays([*made.values()], names=[*made])
    lists = pa.ListArray.from_arrays(whole.offsets, rows)
    return frame._replace(batch=frame.batch.set_column(at, "rows", lists))


def test_settings_that_a_state_does_not_outlive() -> None:
    """Each is refused with what is and what should be."""
    pipeline, _ = _run_once()
    router, combiner = pipeline.router, pipeline.combiners[0, 0]
    assert router.state is not None
    assert combiner.state is not None
    other = Windows(120_000_000, 60_000_000)
    for change, words in (
        (
            {"weights": (1.0, 1.0), "shards": (1, 1)},
            r"2 workers of \[1, 1\] shards, the state has \[1, 1, 1\]",
        ),
        ({"shards": (1, 2, 1)}, r"the state has \[1, 1, 1\] \(expected the same and more at the end"),
        ({"windows": other}, "state is of .*60000000.*120000000"),
    ):
        with pytest.raises(ValueError, match=words):
            Router.load(replace(router.setting, **change), router.state)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 shards of the reducer, the state has 1"):
        Combiner.load(replace(combiner.setting, reducer_shards=2), combiner.state)
    with pytest.raises(ValueError, match="state is of"):
        Combiner.load(replace(combiner.setting, windows=other), combiner.state)
    with pytest.raises(ValueError, match=r"state is of.*combiner.*expected.*reducer"):
        Reducer.load(pipeline.reducers[0].setting, combiner.state)
    for part in (Router, Combiner, Reducer):
        setting = {Router: router, Combiner: combiner, Reducer: pipeline.reducers[0]}[part].setting
        with pytest.raises(ValueError, match="damaged"):
            part.load(setting, b"\x80\x04K\x01.")


def _run_once() -> tuple[Pipeline, list[list]]:  # type: ignore[type-arg]
    windows = Windows(60_000_000, 60_000_000)
    scenario = Scenario(
        seed=3,
        windows=windows,
        partitioner="random",
        workers=3,
        shards=1,
        reducer_shards=1,
        zipf=1.0,
        drift=False,
        batches=6,
        rows=30,
        spread=0.1,
        share=0.2,
        moves=0.1,
        changes=False,
    )
    pipeline = pipeline_of(scenario)
    return pipeline, run(scenario, pipeline)
