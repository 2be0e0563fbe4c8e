"""The jobs of a wave must run all the while before the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from speck.apply.settling import Settling, Unhealthy, awaited
from speck.coordinator import Coordinator
from speck.core.runtime import JobState
from speck.errors import Unreachable
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition
from testbed.doubles.world import World

A, B = chain("a", "b")


class Watch:
    """Settles jobs over engines in memory; ``events`` happen before the looks of these numbers."""

    def __init__(self, coordinator: Coordinator, **events: Callable[[], object]) -> None:
        self.now, self.looks, self.reports = 0.0, 0, list[str]()
        self._events = events
        self._settling = Settling(
            coordinator.deployments.store,
            coordinator.pool,
            lambda: self.now,
            self._sleep,
            self.reports.append,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.looks += 1
        self._events.get(f"after_{self.looks}", lambda: None)()

    def settle(self, seconds: float) -> None:
        self._settling.settle([A, B], seconds, patience=20)


@pytest.fixture(name="deployed")
def deployed_fixture(coordinator: Coordinator) -> Coordinator:
    user.apply(coordinator, composition(A, B))[0].wait(60)
    return coordinator


def test_it_takes_the_time(deployed: Coordinator) -> None:
    watch = Watch(deployed)
    watch.settle(30)
    assert watch.now == 30


@pytest.mark.parametrize(
    ("running", "away", "text"),
    [
        ("ab", "", "all its jobs must have been running for 30 s"),
        ("b", "", "job 'a' is not running yet (1 of 2 jobs are running)"),
        ("", "e1 does not answer", "e1 does not answer (0 of 2 jobs are running)"),
    ],
)
def test_what_the_next_wave_waits_for(running: Sequence[str], away: str, text: str) -> None:
    assert awaited("ab", running, away, 30.0) == text


def test_what_the_next_wave_waits_for_is_reported_at_each_look(deployed: Coordinator, world: World) -> None:
    watch = Watch(
        deployed, after_2=lambda: world.down(A.spe_address), after_3=lambda: world.up(A.spe_address)
    )
    watch.settle(2)
    assert [each.rpartition(" (")[2] for each in watch.reports] == [
        "all its jobs must have been running for 2 s",
        "all its jobs must have been running for 2 s",
        "0 of 2 jobs are running)",
        "all its jobs must have been running for 2 s",
        "all its jobs must have been running for 2 s",
    ]


def test_no_time_is_one_look(deployed: Coordinator) -> None:
    watch = Watch(deployed)
    watch.settle(0)
    assert watch.looks == 0


def test_a_job_that_ends_is_named(deployed: Coordinator, world: World) -> None:
    watch = Watch(deployed, after_5=lambda: world.crash("b", "out of memory"))
    with pytest.raises(Unhealthy, match="job 'b' is failed: out of memory"):
        watch.settle(30)
    assert watch.now == 5


def test_a_job_that_is_lost_is_named(deployed: Coordinator, world: World) -> None:
    watch = Watch(deployed, after_2=lambda: world.crash("a", state=JobState.LOST))
    with pytest.raises(Unhealthy, match="job 'a' is lost"):
        watch.settle(30)


def test_an_engine_that_is_away_is_awaited_and_the_time_begins_again(
    deployed: Coordinator, world: World
) -> None:
    watch = Watch(
        deployed, after_5=lambda: world.down(A.spe_address), after_9=lambda: world.up(A.spe_address)
    )
    watch.settle(10)
    assert watch.now == 19


def test_an_engine_that_stays_away_makes_the_next_wave_wait(deployed: Coordinator, world: World) -> None:
    watch = Watch(deployed, after_5=lambda: world.down(A.spe_address))
    with pytest.raises(Unreachable):
        watch.settle(10)
    assert watch.now == 31


def test_a_job_that_was_never_started_is_named(coordinator: Coordinator) -> None:
    with pytest.raises(Unhealthy, match="job 'a' is not started"):
        Watch(coordinator).settle(10)
