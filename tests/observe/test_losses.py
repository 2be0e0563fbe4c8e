"""Losses are counted by job and reason, over restarts of the counters, and reported at a bounded rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from speck.coordinator import build
from speck.core.job import Scalar
from speck.core.lifecycle import EventKind
from speck.core.runtime import JobMetrics
from speck.core.settings import Settings
from speck.errors import StoreError
from speck.observe.losses import EVENT_PERIOD, MOST_JOBS, RECENT, LossRecorder, counts_of
from speck.server.api.exposition import exposition
from speck.store import Event, Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World


@dataclass
class Bench:
    """A recorder with a clock of the test's own."""

    now: float = 1000.0
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recorder = LossRecorder(lambda: self.now, self.events.extend)

    def take(self, details: Mapping[str, Scalar], copy: str = "copy-1", seconds: float = 0.0) -> None:
        self.now += seconds
        self.recorder.record_sample("traffic", "a", copy, details)

    def totals(self) -> dict[str, int]:
        return {each.reason.name: each.total for each in self.recorder.counts()}

    def texts(self) -> list[str]:
        return [each.message for each in self.events]


@pytest.fixture(name="bench")
def bench_fixture() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("details", "found"),
    [
        ({}, {}),
        ({"queued": 3, "batch_at": "now"}, {}),
        ({"duplicatesDropped": 2}, {"repetition": 2}),
        (
            {"lostMessages": 9, "lostSession": 4, "batchGivenUp": 5},
            {"session lost": 4, "batch": 5, "reader": 0},
        ),
        ({"lostMessages": 9, "redeliveryGivenUp": 4}, {"redelivery": 4, "reader": 5}),
        ({"skippedResults": 2, "parkedResults": 1}, {"skipped result": 2, "parked result": 1}),
        ({"collisions": "many", "skipped": -1}, {}),
        ({"collisions": float("nan"), "skipped": float("inf"), "parked": 2.0}, {"parked": 2}),
    ],
)
def test_counters_and_their_reasons(details: Mapping[str, Scalar], found: Mapping[str, int]) -> None:
    assert counts_of(details) == found


def test_messages_that_a_broker_dropped_are_an_event_a_minute(bench: Bench) -> None:
    for total, seconds in ((0, 0.0), (3, 20.0), (5, 20.0), (5, 60.0), (2, 60.0)):
        bench.now += seconds
        bench.recorder.record_dropped("tcp://b1:1883", total)
    assert bench.recorder.dropped() == {"tcp://b1:1883": 7}  # the broker began anew
    assert bench.texts() == [
        f"broker tcp://b1:1883: {count} messages dropped, since a session was full" for count in (3, 2, 2)
    ]
    assert {each.kind for each in bench.events} == {"lost"}


def test_brokers_that_are_no_longer_used_are_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.observe.losses.MOST_BROKERS", 2)
    for broker in ("a", "b", "a", "c"):
        bench.recorder.record_dropped(broker, 1)
    assert bench.recorder.dropped() == {"a": 1, "c": 1}


def test_a_gap_of_messages_at_qos_0_is_told_once_for_each_replacement(bench: Bench) -> None:
    bench.take({"receivedQos0": 7})
    bench.take({"receivedQos0": 9})
    assert bench.texts() == []
    bench.take({"receivedQos0": 0}, copy="copy-2", seconds=5)
    assert bench.totals() == {"qos 0": 1}
    (event,) = bench.events
    assert event.kind == EventKind.SUSPECT
    assert "replacements of a reader whose messages come at QoS 0" in event.message
    bench.take({"receivedQos0": 0}, copy="copy-3", seconds=EVENT_PERIOD)
    assert bench.totals() == {"qos 0": 1}


def test_growth_is_counted_once(bench: Bench) -> None:
    for count in (0, 3, 3, 5):
        bench.take({"lostMessages": count})
    assert bench.totals() == {"reader": 5}


def test_a_counter_that_begins_anew_loses_nothing(bench: Bench) -> None:
    bench.take({"lostMessages": 5})
    bench.take({"lostMessages": 2})  # its task was restarted
    bench.take({"lostMessages": 2}, copy="copy-2")  # another attempt
    bench.take({}, copy="copy-2")  # an engine that does not report it now
    bench.take({"lostMessages": 3}, copy="copy-2")
    assert bench.totals() == {"reader": 10}


def test_a_late_answer_of_the_copy_before_counts_nothing_twice(bench: Bench) -> None:
    bench.take({"lostMessages": 5, "receivedQos0": 1})
    bench.take({"lostMessages": 1, "receivedQos0": 1}, copy="copy-2")
    bench.take({"lostMessages": 6, "receivedQos0": 1})  # its engine was slow; one more was lost since
    bench.take({"lostMessages": 1, "receivedQos0": 1}, copy="copy-2")
    assert bench.totals() == {"reader": 7, "qos 0": 1}


def test_one_event_for_a_job_and_reason_in_a_minute(bench: Bench) -> None:
    bench.take({"lostMessages": 1, "duplicatesDropped": 7})
    for count in range(2, 12):
        bench.take({"lostMessages": count, "duplicatesDropped": 7}, seconds=5)
    assert bench.texts() == [
        "job 'a': 1 message lost by the reader",
        "job 'a': 7 messages dropped as duplicates",
    ]
    bench.now += EVENT_PERIOD
    bench.recorder.report()
    bench.recorder.report()
    assert bench.texts()[2:] == ["job 'a': 10 messages lost by the reader (11 so far)"]
    assert [each.kind for each in bench.events] == ["lost", "repeated", "lost"]
    assert all(each.automatic and each.composition == "traffic" for each in bench.events)


def test_an_event_that_the_store_refuses_is_due_again(bench: Bench) -> None:
    def refuse(events: list[Event]) -> None:
        raise StoreError("the disk is full")

    written, bench.recorder.write = bench.recorder.write, refuse
    with pytest.raises(StoreError):
        bench.take({"lostMessages": 4})
    bench.recorder.write = written
    bench.recorder.report()
    assert bench.texts() == ["job 'a': 4 messages lost by the reader"]
    assert bench.totals() == {"reader": 4}


def test_messages_given_up_by_the_apply_are_counted_and_not_reported_twice(bench: Bench) -> None:
    dropped = Event(bench.now, EventKind.DROPPED, "given up", "traffic", "a", messages=40)
    bench.recorder.note_event(dropped)
    bench.recorder.note_event(Event(bench.now, EventKind.DROPPED, "cannot be counted", "traffic", "a"))
    bench.recorder.note_event(Event(bench.now, EventKind.STOPPED, "stopped", "traffic", "a"))
    bench.recorder.report()
    assert (bench.totals(), bench.events) == ({"session deleted": 40}, [])
    assert [each.number for each in bench.recorder.counts()] == ["at least 40"]


@pytest.mark.parametrize(
    ("messages", "number"),
    [
        ([999], "999"),
        ([1000], "at least 1000"),
        ([1000, 3], "at least 1003"),
        ([5000], "5000"),  # at a broker that counts
        ([0], "at least 1"),
        ([0, 0], "at least 1"),
        ([7, 0], "at least 7"),
    ],
)
def test_what_was_not_counted_is_a_lower_bound(bench: Bench, messages: list[int], number: str) -> None:
    for each in messages:
        bench.recorder.note_event(
            Event(bench.now, EventKind.DROPPED, "given up", "traffic", "a", messages=each)
        )
    assert [each.number for each in bench.recorder.counts()] == [number]
    assert [each["alarm"] for each in bench.recorder.of_job("a")] == [True]


DROPPED, STOPPED, FORGOTTEN = EventKind.DROPPED, EventKind.STOPPED, EventKind.FORGOTTEN


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ([(DROPPED, "s", 0), (DROPPED, "s", 7)], ["7"]),
        ([(DROPPED, "s", 0), (DROPPED, "s", 1000)], ["at least 1000"]),
        ([(DROPPED, "s", 0), (STOPPED, "s", 0)], []),  # none waited
        ([(DROPPED, "", 5), (DROPPED, "s", 0), (STOPPED, "s", 0)], ["5"]),
        ([(DROPPED, "s", 0), (DROPPED, "t", 0), (DROPPED, "s", 7)], ["at least 7"]),
        ([(DROPPED, "s", 0), (DROPPED, "t", 0), (DROPPED, "s", 7), (STOPPED, "t", 0)], ["7"]),
        ([(DROPPED, "s", 0), (FORGOTTEN, "s", 0)], ["at least 1"]),  # it is counted by nobody
        ([(STOPPED, "s", 0), (FORGOTTEN, "t", 0)], []),  # abandoned before this coordinator began
    ],
)
def test_a_count_of_an_abandoned_session_replaces_the_lower_bound(
    bench: Bench, events: list[tuple[EventKind, str, int]], number: list[str]
) -> None:
    for kind, session, messages in events:
        bench.recorder.note_event(
            Event(bench.now, kind, "given up", "traffic", "a", messages=messages, session=session)
        )
    assert [each.number for each in bench.recorder.counts()] == number


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ([(DROPPED, 0, False), (DROPPED, 1415, True)], ["at least 1415"]),  # 1,000 or more waited
        ([(DROPPED, 0, False), (DROPPED, 7, True)], ["at least 7"]),
        (
            [(DROPPED, 0, False), (STOPPED, 0, True)],
            ["at least 1"],
        ),  # none waited, and others are not counted
        ([(DROPPED, 7, True)], ["at least 7"]),  # abandoned before this coordinator began
        ([(STOPPED, 0, True)], []),
    ],
)
def test_a_session_that_was_counted_in_part_stays_a_lower_bound(
    bench: Bench, events: list[tuple[EventKind, int, bool]], number: list[str]
) -> None:
    for kind, messages, at_least in events:
        event = Event(bench.now, kind, "", "traffic", "a", messages=messages, session="s", at_least=at_least)
        bench.recorder.note_event(event)
    assert [each.number for each in bench.recorder.counts()] == number


def test_losses_mark_a_job_for_a_day_and_repetitions_never(bench: Bench) -> None:
    bench.take({"collisions": 1, "duplicatesDropped": 2, "lostMessages": 3})
    found = bench.recorder.of_job("a")
    assert [(each["kind"], each["count"], each["alarm"]) for each in found] == [
        ("lost", 3, True),
        ("suspect", 1, True),
        ("repeated", 2, False),
    ]
    bench.now += RECENT + 1
    assert [each["alarm"] for each in bench.recorder.of_job("a")] == [False, False, False]
    assert bench.recorder.of_job("b") == []


def test_the_jobs_that_are_kept_are_bounded(bench: Bench) -> None:
    for number in range(MOST_JOBS + 1):
        bench.recorder.record_sample("traffic", f"job-{number}", "copy", {"skipped": 1})
    assert len(bench.recorder.counts()) == MOST_JOBS
    assert bench.recorder.of_job("job-0") == []


def test_a_loss_is_seen_though_nobody_reads_the_rates(tmp_path: Path) -> None:
    """A coordinator at work asks by itself: a metric, an event and the job's own data have the loss."""
    world = World()
    with Store(tmp_path / "store") as store:
        services = build(
            store, double_kinds(world), settings=Settings(roots=(write_code(tmp_path),), period=1)
        )
        coordinator, queries = services.coordinator, services.queries
        coordinator.sampler.watch_period = coordinator.sampler.period = 0.02
        coordinator.start()
        operation, _ = user.apply(coordinator, composition(make_job("a")))
        assert operation.wait(30)
        world.metrics["a"] = JobMetrics(7.0, details={"lostMessages": 12, "lostSession": 12})
        text = "job 'a': 12 messages lost with a session that the broker no longer has"
        eventually(lambda: [each["message"] for each in queries.events(job="a")], lambda found: text in found)
        (loss,) = queries.job("a")["losses"]
        assert (loss["kind"], loss["count"], loss["alarm"]) == ("lost", 12, True)
        series = (
            'speck_job_losses_total{composition="traffic",job="a",kind="lost",reason="session lost"} 12.0'
        )
        assert series in exposition(services).decode()
        coordinator.close()
