"""The reports of the parts of a split, gathered into windows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from speck.core.job import Job
from speck.core.split import Part, Place, Split, expand, part_of
from speck.core.split.metrics import Work
from speck.observe.splits import LOSSES, MOST_SOURCES, Loss, SplitMeter
from testbed.benches.examples import job

HOT = job("hot", "readings", "out", engine="spark", spe_address="sc://d:1")
SECOND = 1_000_000


def part(workers: int = 2, **fields: Any) -> Part:
    places = tuple(Place(spe_address=f"sc://s{each}:1") for each in range(workers))
    times = {"window_us": 60 * SECOND, "slide_us": 60 * SECOND, "metrics_window_us": 3 * SECOND}
    times["metrics_slide_us"] = SECOND
    return routing(
        expand(HOT, Split(**{"combiners": places, "partitioner": "balanced", **times, **fields}))[0]
    )


def routing(of: Job) -> Part:
    found = part_of(of)
    assert found is not None
    return found


def report(rows: int = 0, busy: float = 0.0, **fields: Any) -> bytes:
    value = {"rows": rows, "busy": busy, "wall": busy, "faults": {}, **fields}
    return b"\xff" + json.dumps(value).encode()


@pytest.fixture(name="meter")
def meter_fixture() -> SplitMeter:
    return SplitMeter(part(), began=100.0)


def take(meter: SplitMeter, name: str, payload: bytes, now: float = 100.5) -> list[Loss]:
    return meter.add_report(f"speck/split/hot/report/{name}", payload, now)


def test_a_window_is_of_its_last_slides(meter: SplitMeter) -> None:
    take(meter, "0", report(10, 0.5))
    take(meter, "0", report(10, 0.5, shard=1))
    assert meter.advance(100.9) is None
    first = meter.advance(101.0)
    assert first is not None
    assert (first.end, first.seconds) == (101.0, 1.0)
    assert first.workers == (Work(20, 1.0, 1.0), None)
    take(meter, "1", report(7, 0.25))
    second = meter.advance(102.0)
    assert second is not None
    assert (second.seconds, second.workers) == (2.0, (Work(20, 1.0, 1.0), Work(7, 0.25, 0.25)))
    meter.advance(103.0)
    last = meter.advance(104.0)
    assert last is not None
    assert (last.seconds, last.workers) == (3.0, (None, Work(7, 0.25, 0.25)))


def test_a_long_pause_leaves_nothing_of_before(meter: SplitMeter) -> None:
    take(meter, "0", report(10, 0.5))
    window = meter.advance(1000.5)
    assert window is not None
    assert (window.end, window.workers) == (1000.0, (None, None))
    assert meter.advance(1000.9) is None


def test_the_control_message_is_that_of_the_window(meter: SplitMeter) -> None:
    take(meter, "1", report(10, 0.5))
    window = meter.advance(101.0)
    assert window is not None
    assert json.loads(window.control()) == {
        "end": 101.0,
        "workers": [None, {"rows": 10, "busy": 0.5, "wall": 0.5}],
    }


def test_faults_are_counted_once(meter: SplitMeter) -> None:
    assert take(meter, "partitioner", report(faults={"late": 3, "bad": 1})) == [
        Loss("hot.partitioner", "late", 3),
        Loss("hot.partitioner", "bad row", 1),
    ]
    assert take(meter, "partitioner", report(faults={"late": 3, "bad": 1})) == []
    assert take(meter, "partitioner", report(faults={"late": 5, "bad": 1})) == [
        Loss("hot.partitioner", "late", 2)
    ]
    assert take(meter, "1", report(shard=0, faults={"lost_frames": 2})) == [
        Loss("hot.combiner-1", "lost frame", 2)
    ]
    assert take(meter, "1", report(shard=1, faults={"lost_frames": 2})) == [
        Loss("hot.combiner-1", "lost frame", 2)
    ]
    assert take(meter, "reducer", report(faults={"late_partials": 1})) == [
        Loss("hot.reducer", "late partial", 1)
    ]
    # the state began anew
    assert take(meter, "partitioner", report(faults={"late": 1})) == [Loss("hot.partitioner", "late", 1)]
    assert meter.data(200.0)["late_rows"] == 6
    assert meter.data(200.0)["lost_frames"] == 4


def test_the_policy_in_force_is_shown(meter: SplitMeter) -> None:
    take(meter, "partitioner", report(30, 0.1, policy="none: no work was measured yet"))
    assert meter.data(105.0)["policy"] == "none: no work was measured yet"
    take(meter, "partitioner", report(30, 0.1, policy="zipf-1.5"))
    for bad in ("a" * 201, "a\nb", 7):
        take(meter, "partitioner", report(30, 0.1, policy=bad))
    assert meter.data(105.0)["policy"] == "zipf-1.5"


def test_the_imbalance_is_that_of_the_slides_by_weight(meter: SplitMeter) -> None:
    even = {"loads": [10, 20], "weights": [1 / 3, 2 / 3]}
    take(meter, "partitioner", report(30, 0.1, **even, hot=3, true_hot=1, shared_keys=2, observed_end=90.0))
    meter.advance(101.0)
    shown = meter.data(105.0)
    assert shown["imbalance"] == pytest.approx(0.0, abs=1e-6)
    assert (shown["hot"], shown["true_hot"], shown["shared_keys"]) == (3, 1, 2)
    assert shown["rows_per_second"] == 30.0
    assert shown["table_age_seconds"] == 15.0
    assert shown["policy"] is None
    take(meter, "partitioner", report(20, 0.1, **{**even, "loads": [20, 0]}))
    meter.advance(102.0)
    assert meter.data(105.0)["imbalance"] == pytest.approx(1.0)  # 0 and 2, of the two slides


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("2", report(1)),
        ("-1", report(1)),
        ("01", report(1)),
        ("²", report(1)),
        ("whole", report(1)),
        ("", report(1)),
        ("0", report(1)[1:]),
        ("0", b"\xff"),
        ("0", b"\xff[]"),
        ("0", b"\xff{}"),
        ("0", b"\xff" + b"[" * 100_000),
        ("0", report(-1)),
        ("0", report(1, float("nan"))),
        ("0", report(1, float("inf"))),
        ("0", report(1, shard="a")),
        ("0", report(1, shard=10**30)),
        ("0", report(1, faults=[])),
        ("0", report(1, faults={"late": "many"})),
        ("partitioner", report(1, loads=[1, None])),
        ("partitioner", report(1, weights=3)),
    ],
)
def test_messages_that_are_no_reports_are_ignored(meter: SplitMeter, name: str, payload: bytes) -> None:
    assert take(meter, name, payload) == []
    window = meter.advance(101.0)
    assert window is not None
    assert window.workers == (None, None)
    assert meter.data(101.0)["reported"] is None


def test_the_memory_for_sources_is_bounded(meter: SplitMeter) -> None:
    for shard in range(MOST_SOURCES + 10):
        take(meter, "0", report(1, shard=shard))
    assert meter.totals["0"].rows == MOST_SOURCES
    for _ in range(2000):
        meter.advance(meter._end)
    assert len(meter.windows) == 360
    assert len(meter._slides) == 3


def test_a_change_of_the_windows_begins_anew_and_counts_on(meter: SplitMeter) -> None:
    take(meter, "0", report(10, 0.5, faults={"late": 3}))
    meter.advance(101.0)
    meter.change(replace(meter.part, metrics_slide_us=2 * SECOND, metrics_window_us=4 * SECOND))
    assert list(meter.windows) == []
    assert meter.advance(102.0) is None
    assert take(meter, "0", report(10, 0.5, faults={"late": 4})) == [Loss("hot.combiner-0", "late", 1)]
    window = meter.advance(103.5)
    assert window is not None
    assert (window.end, window.seconds) == (103.0, 2.0)
    meter.change(part(3))
    take(meter, "2", report(5))
    found = meter.advance(200.0)
    assert found is not None
    assert len(found.workers) == 3


@pytest.mark.parametrize("topic", ["0", "whole"])
def test_a_split_in_one_job(topic: str) -> None:
    split = Split(combiners=4, partitioner="shuffle", window_us=SECOND, slide_us=SECOND)
    meter = SplitMeter(routing(expand(HOT, split)[0]), began=0.0)
    losses = take(meter, topic, report(50, 0.5, shard=3, faults={"bad": 2}))
    assert losses == [Loss("hot", "bad row", 2)]
    assert take(meter, "partitioner", report(1)) == []
    meter.advance(10.0)
    assert meter.data(10.0)["rows_per_second"] == 5.0
    assert meter.part_data(topic)["busy_share"] == 0.05


def test_every_fault_that_counts_has_a_reason() -> None:
    from speck.observe.losses import REASONS

    assert set(LOSSES.values()) <= set(REASONS)
