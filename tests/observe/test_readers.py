"""Jobs that run and do not read are told within a minute, over engines and brokers in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.cli.render.folding import is_troubled
from speck.core.lifecycle import EventKind
from speck.core.runtime import JobMetrics, JobState
from speck.errors import Unreachable
from testbed.benches.jobs_by_hand import make_job
from testbed.benches.reconciler import Bench
from testbed.benches.sessions import named
from testbed.doubles.world import World

A, B = make_job("a"), make_job("b", "out", "end")


def go_round(bench: Bench, times: int = 1) -> None:
    for _ in range(times):
        bench.round()
        bench.services.queries.readers.await_answers()


def reported(bench: Bench) -> list[tuple[str, str]]:
    kinds = (EventKind.UNREAD, EventKind.READING)
    return [(each["kind"], each["job"]) for each in bench.queries.events(1000) if each["kind"] in kinds]


@pytest.fixture(name="unread")
def unread_sessions(bench: Bench, world: World) -> set[str]:
    """The sessions that no job takes; at first that of job a."""
    found = world.broker(A.source_broker).unread
    found.add(named("a"))
    return found


def test_a_job_that_does_not_read_is_told_once_within_a_minute(bench: Bench, unread: set[str]) -> None:
    bench.apply(A, B)
    begun = bench.clock.now
    while not reported(bench):
        go_round(bench)
    assert bench.clock.now - begun <= 60
    go_round(bench, 3)
    assert reported(bench) == [("not reading", "a")]
    shown = bench.job("a")
    assert (shown["state"], shown["reading"]) == ("running", False)
    message = str(shown["message"])
    assert "does not read its source" in message
    assert A.source_broker in message
    assert is_troubled(shown)
    assert (bench.job("b")["reading"], is_troubled(bench.job("b"))) == (True, False)
    (finding,) = [each for each in bench.services.doctor.diagnose() if each["finding"] == "not reading"]
    assert finding["where"] == "a"


def test_an_event_that_the_store_did_not_take_is_written_later(bench: Bench, unread: set[str]) -> None:
    bench.apply(A)
    go_round(bench)
    with bench.full_disk():
        go_round(bench, 3)
    assert reported(bench) == []
    go_round(bench, 2)
    assert reported(bench) == [("not reading", "a")]


def test_a_reader_that_comes_is_told_too(bench: Bench, unread: set[str]) -> None:
    bench.apply(A)
    go_round(bench, 3)
    unread.clear()
    go_round(bench)
    assert reported(bench) == [("not reading", "a"), ("reading", "a")]
    assert bench.job("a")["reading"] is True
    unread.add(named("a"))  # it was seen, and is not looked for again
    go_round(bench, 3)
    assert len(reported(bench)) == 2


def test_healing_in_vain_is_one_fault(bench: Bench, world: World, unread: set[str]) -> None:
    bench.apply(A)
    go_round(bench, 3)
    for _ in range(3):
        world.crash("a", "cannot read topic 'in'")
        go_round(bench, 6)
        assert bench.job("a")["reading"] is False
    assert reported(bench) == [("not reading", "a")]


def test_another_copy_has_its_own_time(bench: Bench, unread: set[str]) -> None:
    unread.clear()
    bench.apply(A)
    go_round(bench, 2)
    unread.add(named("a"))
    bench.apply(replace(A, parallelism=2))
    go_round(bench)
    assert reported(bench) == []
    go_round(bench, 2)
    assert reported(bench) == [("not reading", "a")]


def test_a_closed_watch_begins_no_look(bench: Bench, unread: set[str]) -> None:
    """The end of a coordinator does not wait for answers that nobody uses."""
    bench.apply(A)
    bench.services.queries.readers.close()
    go_round(bench, 3)
    assert reported(bench) == []


def test_a_reader_without_a_claim_is_seen_by_its_connection(
    bench: Bench, world: World, unread: set[str]
) -> None:
    world.metrics["a"] = JobMetrics(1.0, details={"connected": "true"})
    bench.apply(A)
    bench.coordinator.sampler.sample()
    bench.coordinator.sampler.await_answers()
    go_round(bench, 4)
    assert reported(bench) == []


def test_a_broker_that_does_not_answer_says_nothing_of_its_readers(
    bench: Bench, world: World, unread: set[str]
) -> None:
    world.fail("readers", Unreachable("no answer"), address=A.source_broker, times=None)
    bench.apply(A)
    go_round(bench, 4)
    assert reported(bench) == []


def test_a_job_has_its_time_again_once_its_broker_is_back(
    bench: Bench, world: World, unread: set[str]
) -> None:
    world.fail("readers", Unreachable("no answer"), address=A.source_broker, times=None)
    bench.apply(A)
    go_round(bench, 4)
    world.heal()
    go_round(bench)
    assert reported(bench) == []
    go_round(bench)
    assert reported(bench) == [("not reading", "a")]
    assert "for 10 s" in str(bench.job("a")["message"])


def test_a_job_that_is_still_starting_has_more_time(bench: Bench, world: World, unread: set[str]) -> None:
    bench.apply(A)
    (copy,) = world.running("a")
    copy.state = JobState.STARTING
    go_round(bench, 3)
    assert reported(bench) == []
    go_round(bench, 2)
    assert reported(bench) == [("not reading", "a")]
