"""Clocks that are set back or forward while a coordinator runs, over engines and brokers in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.adaptation import AdaptationState, Ban, StepRecord
from speck.core.change import Apply, Request
from speck.core.lifecycle import EventKind
from speck.core.settings import HistoryBounds
from speck.errors import Expired
from speck.observe.losses import EVENT_PERIOD, RECENT, LossRecorder
from speck.observe.readers import GRACE
from speck.placement.adaptation import limits
from speck.placement.adaptation.verdict import LONGEST_DELAY
from speck.store import Event
from speck.store.retention import deletion_order
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job
from testbed.benches.reconciler import WAITS, Bench, Clock
from testbed.benches.sessions import named
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

JUMPS = pytest.mark.parametrize("jump", [-3600.0, -10 * 365 * 86_400.0, 3600.0, 10 * 365 * 86_400.0])
(A,) = chain("a")


def steady(bench: Bench) -> Clock:
    """A steady clock of its own for the reconciler of a bench, as outside of tests."""
    clock = bench.coordinator.reconciler.steady = Clock(500.0)
    return clock


def dead_after_its_first_healing(bench: Bench, world: World, clock: Clock) -> None:
    bench.apply(A)
    for _ in range(2):
        world.crash("a")
        go_round(bench, clock, 1)
    assert len(world.running("a")) == 0
    due = bench.coordinator.backoff.next_try("a")
    assert due is not None
    assert due - clock.now == pytest.approx(WAITS, abs=2)


def go_round(bench: Bench, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    bench.round(1, seconds)


@JUMPS
def test_a_job_is_healed_as_soon_as_without_the_jump(bench: Bench, world: World, jump: float) -> None:
    clock = steady(bench)
    dead_after_its_first_healing(bench, world, clock)
    bench.clock.now += jump
    go_round(bench, clock, 1)
    assert world.running("a") == []
    shown = bench.job("a")["next_try"]
    assert isinstance(shown, float)
    assert 0 < shown - bench.clock.now <= WAITS  # by the clock as it is now
    go_round(bench, clock, WAITS)
    assert len(world.running("a")) == 1


@JUMPS
def test_a_jump_while_the_server_is_down_delays_no_job_for_longer_than_a_try(
    bench: Bench, world: World, jump: float
) -> None:
    bench.apply(A)
    for _ in range(2):
        world.crash("a")
        bench.round(1, 1)
    bench.close()
    bench.clock.now += jump
    bench.move_to(bench.store.directory)
    clock = steady(bench)
    # What was stored by Unix time is read by the steady clock of the next process.
    bench.coordinator.backoff.keep_in(bench.store, clock.now, lambda: bench.clock.now - clock.now)
    go_round(bench, clock, 306)
    go_round(bench, clock, 1)
    assert len(world.running("a")) == 1


def test_operations_keep_their_order_and_the_newest_stay(
    tmp_path: Path, world: World, known_owner: None
) -> None:
    bench = Bench.begin(world, tmp_path, HistoryBounds(operations=3))
    try:
        ids = []
        for number in range(8):
            bench.clock.now += -3600 if number % 2 else 60
            ids.append(bench.apply(replace(A, labels={"n": str(number)})).id)
            if number == 4:
                bench.restart()
        assert ids == sorted(ids)
        assert [each["id"] for each in bench.store.operations()] == ids[-3:]
        shown = bench.coordinator.operations.last(2)
        assert [each["id"] for each in shown] == ids[:-3:-1]
    finally:
        bench.close()


def test_the_composition_that_was_deleted_first_comes_first(bench: Bench) -> None:
    found = []
    for _ in range(3):
        bench.clock.now -= 3600
        bench.apply(A)
        assert user.delete_composition(bench.coordinator, "traffic").wait(30)
        found += bench.store.deletions()
    assert sorted(found, key=deletion_order) == found
    assert sorted(found, key=lambda each: each.at) == found[::-1]


@JUMPS
def test_losses_are_reported_once_a_minute_and_alarm_no_longer(jump: float) -> None:
    events: list[Event] = []
    unix, clock = Clock(), Clock(7.0)
    recorder = LossRecorder(unix, events.extend)
    recorder.steady = clock
    recorder.record_sample("traffic", "a", "copy", {"lostMessages": 1})
    assert len(events) == 1
    unix.now += jump
    clock.now += EVENT_PERIOD - 1
    recorder.record_sample("traffic", "a", "copy", {"lostMessages": 2})
    assert len(events) == 1
    clock.now += 1
    recorder.report()
    assert len(events) == 2
    assert recorder.of_job("a")[0]["last"] == unix.now
    assert [each["alarm"] for each in recorder.of_job("a")] == [True]
    clock.now += RECENT
    assert [each["alarm"] for each in recorder.of_job("a")] == [False]


def test_a_plan_expires_whatever_the_clock_shows(bench: Bench) -> None:
    plans = bench.services.retained_plans
    plans.steady = clock = Clock(0.0)
    first, second = (plans.show(Apply(composition(make_job("a"))), Request()) for _ in range(2))
    bench.clock.now -= 1e6
    assert plans.accept(first.id, Request()).wait(30)
    clock.now += 3600
    with pytest.raises(Expired):
        plans.accept(second.id, Request())


@JUMPS
def test_a_job_that_does_not_read_is_reported_as_soon_as_without_the_jump(
    bench: Bench, world: World, jump: float
) -> None:
    """Neither later, while messages fill its session, nor at once, while it is only starting to read."""
    watch = bench.queries.readers
    watch.steady = clock = Clock(7.0)
    world.broker(A.source_broker).unread.add(named("a"))

    def reported(seconds: float) -> list[str]:
        clock.now += seconds
        bench.round(1, seconds)
        watch.await_answers()
        return [each["kind"] for each in bench.queries.events(1000) if each["kind"] == EventKind.UNREAD]

    bench.apply(A)
    assert reported(1) == []
    bench.clock.now += jump
    assert reported(GRACE - 1) == []
    assert reported(1) == ["not reading"]
    assert f"for {GRACE:.0f} s, no reader" in str(bench.job("a")["message"])


# --- the memory of the adaptation

STEP = StepRecord(
    jobs=("a",),
    source="A",
    target="B",
    at=5000.0,
    due=5030.0,
    objective=1,
    predicted=0.5,
    age_p95=1,
    looked=5030,
)
MEMORY = AdaptationState(
    steps=(STEP,),
    bans=(Ban(jobs=("a",), target="B", until=5000 + limits.BAN, times=1, reason="slow"),),
    paused=5000.0 + 3600,
    advise_only_until=5000.0 + 3600,
)


def test_a_memory_of_the_present_is_as_it_is() -> None:
    assert limits.bounded(MEMORY, 5000.0) == MEMORY


def test_no_time_of_a_memory_is_further_ahead_than_it_may_be() -> None:
    now = -1e8
    found = limits.bounded(MEMORY, now)
    assert (found.steps[0].at, found.steps[0].due, found.steps[0].looked) == (now, *[now + LONGEST_DELAY] * 2)
    assert found.bans[0].until == now + limits.BAN
    assert (found.paused, found.advise_only_until) == (now + 30 * limits.DAY, now + limits.DAY)
