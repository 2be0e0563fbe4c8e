"""An agent alone: an engine that loses its jobs, and an agent that is started again, with the doubles."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.agent.agent import Agent
from speck.agent.attempt_files import AttemptFiles
from speck.agent.run_state import Phase, Record
from speck.agent.status import status
from speck.binder import EngineBinder
from speck.core.inventory import Engine
from speck.core.job import Job
from speck.core.runtime import Attempt, JobState
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable
from speck.link.places import PlaceOfJobs
from speck.testing import attempt_of
from speck.testing.waiting import eventually
from testbed.benches.agents import LinkBench, link_bench
from testbed.benches.double import BROKER, ENGINE, DoubleBench
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

PATIENCE = 20.0
MANY_LOOKS = 0.2  # s, in which the agent would have started a job that it must not start


@pytest.fixture(name="link")
def link_fixture(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkBench]:
    monkeypatch.setattr("speck.agent.decide.LOOK_AGAIN", 0.02)
    monkeypatch.setattr("speck.agent.decide.FIRST_PAUSE", 0.02)
    monkeypatch.setattr("speck.agent.decide.ASK_AGAIN", 0.02)
    monkeypatch.setattr("speck.agent.supervisor.LOOK", 0.01)
    monkeypatch.setattr("speck.link.dial.FIRST_PAUSE", 0.02)
    with link_bench(tmp_path, double_kinds(world), [Engine(spe_address=ENGINE)], BROKER) as bench:
        yield bench


@pytest.fixture(name="engine")
def engine_fixture(link: LinkBench) -> EngineBinder:
    return link.engine(ENGINE)


def job(world: World, name: str = "clean") -> Job:
    bench = DoubleBench()
    bench.world = world
    return bench.job(name)


def running(world: World, name: str = "clean") -> int:
    return len(world.running(name))


def await_that(ask: Callable[[], bool]) -> None:
    eventually(ask, bool, PATIENCE)


def phase(link: LinkBench, attempt: Attempt) -> Phase | None:
    record = link.agent.attempts.get(attempt.id)
    return None if record is None else record.phase


def test_a_job_that_its_engine_has_lost_runs_again_without_the_coordinator(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    link.hub.close()
    world.restart(ENGINE)
    assert running(world) == 0
    await_that(lambda: running(world) == 1)
    assert link.agent.attempts.of_handle(ENGINE, handle) is not None
    assert world.violations == []


def test_a_job_whose_record_cannot_be_stored_holds_up_no_other(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("clean", "count"):
        engine.submit(job(world, name), attempt_of(job(world, name)))
    write = AttemptFiles.write

    def full(files: AttemptFiles, record: Record) -> None:
        if record.attempt.job_name == "clean":
            raise BinderError("no space left on the device", address=ENGINE)
        write(files, record)

    with monkeypatch.context() as patched:
        patched.setattr(AttemptFiles, "write", full)
        world.restart(ENGINE)
        await_that(lambda: running(world, "count") == 1)
        assert running(world) == 0
    await_that(lambda: running(world) == 1)


def test_a_job_whose_start_fails_by_a_defect_says_so_and_is_tried_again(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    handle = engine.submit(job(world), attempt_of(job(world)))
    defect = RuntimeError("a defect")
    world.fail("submit", defect, name="clean", times=None)  # type: ignore[arg-type]
    world.restart(ENGINE)
    await_that(lambda: "internal error: RuntimeError('a defect')" in engine.status(handle).message)
    world.heal()
    await_that(lambda: running(world) == 1)


def test_a_job_that_waits_for_a_full_disk_says_so(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = engine.submit(job(world), attempt_of(job(world)))

    def full(files: AttemptFiles, record: Record) -> None:
        raise BinderError("no space left on the device", address=ENGINE)

    with monkeypatch.context() as patched:
        patched.setattr(AttemptFiles, "write", full)
        world.restart(ENGINE)
        await_that(lambda: "no space left on the device" in engine.status(handle).message)
        assert engine.status(handle).state is JobState.STARTING
        assert running(world) == 0
    await_that(lambda: running(world) == 1)
    await_that(lambda: engine.status(handle).state is JobState.RUNNING)


def test_a_job_whose_end_cannot_be_stored_holds_up_no_other(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = {name: attempt_of(job(world, name)) for name in ("clean", "count")}
    for name, attempt in attempts.items():
        engine.submit(job(world, name), attempt)
    write = AttemptFiles.write

    def full(files: AttemptFiles, record: Record) -> None:
        if record.attempt.job_name == "clean":
            raise BinderError("no space left on the device", address=ENGINE)
        write(files, record)

    InMemoryBroker(world, BROKER).fence(attempts["clean"].session, 2)
    with monkeypatch.context() as patched:
        patched.setattr(AttemptFiles, "write", full)
        world.restart(ENGINE)
        await_that(lambda: running(world, "count") == 1)
        time.sleep(MANY_LOOKS)
        assert [each.job for each in link.agent.journal.after(0)] == ["count"]
    await_that(lambda: phase(link, attempts["clean"]) is Phase.ENDED)
    await_that(lambda: len(link.agent.journal.after(0)) == 2)
    assert [(each.job, each.started) for each in link.agent.journal.after(0)] == [
        ("count", True),
        ("clean", False),
    ]
    assert running(world) == 0


def test_an_agent_that_is_started_again_starts_what_was_lost_meanwhile(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    handle = engine.submit(job(world), attempt_of(job(world)))
    link.end_agent()
    world.restart(ENGINE)
    assert engine.status(handle).state is JobState.UNKNOWN
    link.agent = link.start_agent()
    link.await_contact()
    await_that(lambda: running(world) == 1)
    await_that(lambda: engine.status(handle).state is JobState.RUNNING)
    assert world.violations == []


def test_the_numbers_that_have_ended_are_known_to_the_coordinator(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = replace(attempt_of(job(world), 3), owner="one")
    handle = engine.submit(job(world), attempt)
    assert engine.last_ended("clean", "one") == 0
    engine.stop(handle, keep_state=False)
    link.restart_agent()
    assert [engine.last_ended("clean", each) for each in ("one", "other")] == [3, 0]
    assert engine.last_ended("other", "one") == 0
    again = engine.submit(job(world), replace(attempt_of(job(world), 4), owner="one"))
    assert engine.status(again).state is JobState.RUNNING


def test_a_stop_is_final(link: LinkBench, engine: EngineBinder, world: World) -> None:
    attempt = attempt_of(job(world))
    engine.stop(engine.submit(job(world), attempt), keep_state=True)
    world.restart(ENGINE)
    link.restart_agent()
    time.sleep(MANY_LOOKS)
    assert running(world) == 0
    for late in (attempt, replace(attempt, id="b" * 32)):
        with pytest.raises(Rejected, match="ended before"):
            engine.submit(job(world), late)
    engine.submit(job(world), attempt_of(job(world), 2))
    assert running(world) == 1


def test_a_stop_whose_answer_was_lost_is_final(link: LinkBench, engine: EngineBinder, world: World) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    world.fail("stop", OutcomeUnknown("no answer", address=ENGINE), name="clean")
    with pytest.raises(OutcomeUnknown):
        engine.stop(handle, keep_state=True)
    world.restart(ENGINE)
    time.sleep(MANY_LOOKS)
    assert running(world) == 0
    assert phase(link, attempt) is Phase.STOPPING


def test_a_job_that_was_replaced_elsewhere_ends(link: LinkBench, engine: EngineBinder, world: World) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    InMemoryBroker(world, BROKER).fence(attempt.session, 2)
    world.restart(ENGINE)
    await_that(lambda: phase(link, attempt) is Phase.ENDED)
    status = engine.status(handle)
    assert status.state is JobState.FAILED
    assert "replaced by attempt 2" in status.message
    assert running(world) == 0


def test_a_job_that_was_deleted_elsewhere_ends(link: LinkBench, engine: EngineBinder, world: World) -> None:
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    InMemoryBroker(world, BROKER).fence(attempt.session, 1)
    InMemoryBroker(world, BROKER).delete_session(attempt.session)
    world.restart(ENGINE)
    await_that(lambda: phase(link, attempt) is Phase.ENDED)
    assert running(world) == 0


def test_a_fence_that_names_no_attempt_of_a_coordinator_keeps_its_job_alone_from_being_started(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    """Its message is damaged, or of anybody who may publish there: the reader would not begin either."""
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    engine.submit(job(world, "other"), attempt_of(job(world, "other")))
    InMemoryBroker(world, BROKER).fence(attempt.session, 10**12)
    world.restart(ENGINE)
    await_that(lambda: "names attempt 1000000000000" in engine.status(handle).message)
    await_that(lambda: running(world, "other") == 1)
    assert phase(link, attempt) is Phase.GONE
    assert engine.status(handle).state is JobState.STARTING
    world.broker(BROKER).fences[attempt.session] = 1  # the message was removed
    await_that(lambda: running(world) == 1)


def test_a_job_that_was_replaced_ends_before_any_work_on_the_others(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    for name in ("a", "b"):
        attempt = attempt_of(job(world, name))
        engine.submit(job(world, name), attempt)
    InMemoryBroker(world, BROKER).fence(attempt.session, 2)
    hold = world.hold("claim_session")
    try:
        world.restart(ENGINE)
        await_that(lambda: phase(link, attempt) is Phase.ENDED)
        await_that(hold.reached.is_set)
        assert [running(world, name) for name in ("a", "b")] == [0, 0]
    finally:
        hold.release()
    await_that(lambda: running(world, "a") == 1)


def test_a_broker_that_does_not_answer_holds_up_only_its_jobs(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.fences.PATIENCE", 0.05)
    far = replace(job(world, "far"), source_broker="tcp://far:1883")
    attempt = attempt_of(far)
    InMemoryBroker(world, far.source_broker).ensure_session(attempt.session, far.source_topic)
    engine.submit(far, attempt)
    engine.submit(job(world), attempt_of(job(world)))
    hold = world.hold("fenced", address=far.source_broker)
    try:
        world.restart(ENGINE)
        await_that(lambda: running(world) == 1)
        await_that(lambda: phase(link, attempt) is Phase.GONE)
        record = link.agent.attempts.get(attempt.id)
        assert record is not None
        assert record.reason == "tcp://far:1883 has not answered in 0.05 s"
        assert running(world, "far") == 0
    finally:
        hold.release()
    await_that(lambda: running(world, "far") == 1)


def test_a_call_that_begins_meanwhile_holds_up_only_its_job(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    for name in ("a", "b"):
        engine.submit(job(world, name), attempt_of(job(world, name)))
    hold = world.hold("fenced")
    world.restart(ENGINE)
    await_that(hold.reached.is_set)
    turn = link.agent.calls.turns.take("a")
    hold.release()
    await_that(lambda: running(world, "b") == 1)
    assert running(world, "a") == 0
    with turn:
        pass
    await_that(lambda: running(world, "a") == 1)


def test_a_place_that_was_away_is_asked_at_the_next_contact(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.decide.ASK_AGAIN", 600.0)
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    InMemoryBroker(world, BROKER).fence(attempt.session, 2)
    world.down(BROKER)
    world.restart(ENGINE)
    await_that(lambda: BROKER in engine.status(handle).message)
    world.up(BROKER)
    connection = link.agent.dialler._socket
    assert connection is not None
    connection.close()  # the agent connects again
    await_that(lambda: phase(link, attempt) is Phase.ENDED)


def test_a_job_waits_for_its_broker_and_says_so(link: LinkBench, engine: EngineBinder, world: World) -> None:
    handle = engine.submit(job(world), attempt_of(job(world)))
    world.down(BROKER)
    world.restart(ENGINE)
    await_that(lambda: BROKER in engine.status(handle).message)
    assert engine.status(handle).state is JobState.STARTING
    assert running(world) == 0
    found = status(link.directory / "agent")
    assert (found["site"], found["contact"]["connected"]) == ("A", True)
    (shown,) = found["attempts"]
    assert (shown["job_name"], shown["phase"]) == ("clean", "gone")
    assert BROKER in shown["reason"]
    world.up(BROKER)
    await_that(lambda: running(world) == 1)


def test_a_job_runs_soon_after_its_broker_is_back(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that fails has to wait for longer and longer, but a broker that is away is no failed start."""
    monkeypatch.setattr("speck.agent.decide.FIRST_PAUSE", 600.0)
    monkeypatch.setattr("speck.agent.decide.LONGEST_PAUSE", 600.0)
    handle = engine.submit(job(world), attempt_of(job(world)))
    world.down(BROKER)
    world.restart(ENGINE)
    await_that(lambda: BROKER in engine.status(handle).message)
    world.up(BROKER)
    await_that(lambda: running(world) == 1)


def test_a_start_that_takes_long_holds_up_no_other_job(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    names = ("a", "b", "c")
    for name in names:
        engine.submit(job(world, name), attempt_of(job(world, name)))
    holds = [world.hold("submit", name) for name in names[:2]]
    try:
        world.restart(ENGINE)
        await_that(lambda: running(world, "c") == 1)
        assert [running(world, name) for name in names] == [0, 0, 1]
    finally:
        for hold in holds:
            hold.release()
    await_that(lambda: all(running(world, name) == 1 for name in names))
    assert world.violations == []


def test_no_more_jobs_are_started_at_once_than_a_site_can_bear(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.supervisor.AT_ONCE", 2)
    names = [f"job-{number}" for number in range(5)]
    for name in names:
        engine.submit(job(world, name), attempt_of(job(world, name)))
    begun = world.counts()["submit"]
    hold = world.hold("submit")
    try:
        world.restart(ENGINE)
        await_that(lambda: world.counts()["submit"] == begun + 2)
        time.sleep(MANY_LOOKS)
        assert world.counts()["submit"] == begun + 2
    finally:
        hold.release()
    await_that(lambda: all(running(world, name) == 1 for name in names))
    assert world.violations == []


@pytest.fixture(name="hasty")
def hasty_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed jobs are started again as soon as there is no contact."""
    monkeypatch.setattr("speck.agent.decide.ALONE", 0.001)
    monkeypatch.setattr("speck.agent.decide.AGAIN", 0.001)


@pytest.mark.usefixtures("hasty")
def test_a_job_that_failed_is_the_coordinators_while_there_is_contact(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    world.crash("clean")
    time.sleep(MANY_LOOKS)
    assert engine.status(handle).state is JobState.FAILED
    assert running(world) == 0
    assert phase(link, attempt) is Phase.RUNNING


@pytest.mark.usefixtures("hasty")
def test_a_job_that_fails_without_contact_runs_again_from_its_state(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    link.hub.close()
    for failure in (1, 2):
        world.crash("clean", "no memory")
        await_that(lambda number=failure: _failures(link, attempt) == number)  # type: ignore[misc]
        await_that(lambda: running(world) == 1)
    (copy,) = world.running("clean")
    assert copy.attempt.id != attempt.id
    assert copy.attempt.number == attempt.number
    assert copy.attempt.state is not None
    assert world.violations == []
    await_that(lambda: phase(link, attempt) is Phase.RUNNING)
    durable = link.agent.supervisors[0].engine
    assert durable.status(handle).state is JobState.RUNNING
    assert [(each.attempt, each.engine_id) for each in durable.running()] == [(attempt.id, handle.engine_id)]
    assert [each.text for each in link.agent.journal.after(0)] == [
        "start 2: it failed: no memory",
        "start 3: it failed: no memory",
    ]
    (shown,) = status(link.directory / "agent")["attempts"]
    assert (shown["phase"], shown["starts"]) == ("running", 3)
    durable.stop(handle, keep_state=True)
    assert running(world) == 0


def _failures(link: LinkBench, attempt: Attempt) -> int:
    record = link.agent.attempts.get(attempt.id)
    return -1 if record is None else record.failures


@pytest.mark.usefixtures("hasty")
def test_a_job_that_fails_again_and_again_waits_for_the_coordinator(
    link: LinkBench, engine: EngineBinder, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.decide.MOST_FAILURES", 3)
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    link.hub.close()
    world.doomed = lambda _: True
    world.crash("clean", "no memory")
    await_that(
        lambda: "waits for the coordinator" in status(link.directory / "agent")["attempts"][0]["reason"]
    )
    assert _failures(link, attempt) == 3
    assert [each.started for each in link.agent.journal.after(0)] == [True, True, True, False]
    link.restart_without_contact()
    time.sleep(MANY_LOOKS)
    assert len(link.agent.journal.after(0)) == 4


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("after", [False, True])
def test_a_start_after_a_failure_whose_answer_is_lost_is_made_once(
    link: LinkBench, engine: EngineBinder, world: World, *, after: bool
) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    link.hub.close()
    world.fail("submit", OutcomeUnknown("no answer", address=ENGINE), name="clean", after=after)
    world.crash("clean")
    await_that(lambda: running(world) == 1)
    await_that(lambda: phase(link, attempt) is Phase.RUNNING)
    assert _failures(link, attempt) == 1
    assert link.agent.supervisors[0].engine.status(handle).state is JobState.RUNNING
    assert world.violations == []


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("started", [False, True])
def test_a_stop_ends_a_run_that_the_engine_has_not_confirmed(
    link: LinkBench, engine: EngineBinder, world: World, *, started: bool
) -> None:
    attempt = attempt_of(job(world))
    handle = engine.submit(job(world), attempt)
    link.hub.close()
    link.end_agent()
    world.crash("clean")
    known = link.agent.attempts.get(attempt.id)
    assert known is not None
    durable = link.agent.supervisors[0].engine
    left = durable.binder.stop(handle, keep_state=True)
    run = durable.attempts.put(replace(known.to(Phase.GONE), failed=True).next_run(left))
    if started:
        durable.binder.submit(run.job, run.run)
    assert durable.status(handle).state is JobState.STARTING
    assert durable.stop(handle, keep_state=True) == left
    assert running(world) == 0
    assert phase(link, attempt) is Phase.STOPPED
    link.agent = link.start_agent()


@pytest.mark.usefixtures("hasty")
def test_a_job_that_was_replaced_elsewhere_is_not_started_again_as_it_fails(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    link.hub.close()
    InMemoryBroker(world, BROKER).fence(attempt.session, 2)
    await_that(lambda: phase(link, attempt) is Phase.ENDED)
    assert running(world) == 0


@pytest.mark.usefixtures("hasty")
def test_a_job_that_failed_waits_for_its_broker_and_keeps_its_failure(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    link.hub.close()
    world.down(BROKER)
    world.crash("clean")
    await_that(lambda: BROKER in status(link.directory / "agent")["attempts"][0]["reason"])
    world.up(BROKER)
    await_that(lambda: running(world) == 1)
    record = link.agent.attempts.get(attempt.id)
    assert record is not None
    assert (record.failures, record.runs) == (1, 2)  # its engine was not asked to start the failed run again


def test_the_failures_of_a_job_that_runs_well_are_forgotten(
    link: LinkBench, engine: EngineBinder, world: World, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.supervisor.WELL", 0.0)
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    link.hub.close()
    world.crash("clean")
    await_that(lambda: running(world) == 1)
    await_that(lambda: _failures(link, attempt) == 0 and phase(link, attempt) is Phase.RUNNING)


def test_a_broker_elsewhere_is_asked_at_the_address_of_its_jobs(link: LinkBench) -> None:
    place = PlaceOfJobs(broker_address="tcp://far:1883", job_broker_address="tcp://inner:1883")
    link.agent.inventory.learn([place])
    broker = link.agent._broker("tcp://far:1883", "owner")
    assert isinstance(broker, InMemoryBroker)
    assert broker.address == "tcp://inner:1883"


def test_a_job_whose_state_is_gone_is_the_coordinators(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    """Also without the coordinator: no run begins from an older state, or from none."""
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    link.hub.close()
    world.lose_states("clean")
    world.restart(ENGINE)
    await_that(lambda: phase(link, attempt) is Phase.ENDED)
    record = link.agent.attempts.get(attempt.id)
    assert record is not None
    assert "is gone" in record.reason
    assert running(world) == 0
    assert world.violations == []


def test_an_attempt_that_is_not_found_is_not_started_later(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    attempt = attempt_of(job(world))
    world.fail("submit", OutcomeUnknown("no answer", address=ENGINE), name="clean")
    with pytest.raises(OutcomeUnknown):
        engine.submit(job(world), attempt)
    found = engine.find(attempt)
    time.sleep(MANY_LOOKS)
    assert running(world) == (0 if found is None else 1)
    assert phase(link, attempt) is (None if found is None else Phase.RUNNING)


def test_an_attempt_without_an_answer_is_started_by_the_agent(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    world.fail("submit", OutcomeUnknown("no answer", address=ENGINE), name="clean")
    with pytest.raises(OutcomeUnknown):
        engine.submit(job(world), attempt_of(job(world)))
    link.hub.close()
    await_that(lambda: running(world) == 1)
    assert world.violations == []


@pytest.mark.parametrize("error", [Rejected, Unreachable])
def test_a_submit_that_fails_leaves_nothing(
    link: LinkBench, engine: EngineBinder, world: World, error: type[BinderError]
) -> None:
    world.fail("submit", error("no", address=ENGINE), name="clean")
    attempt = attempt_of(job(world))
    with pytest.raises(error):
        engine.submit(job(world), attempt)
    time.sleep(MANY_LOOKS)
    assert running(world) == 0
    assert phase(link, attempt) is None


def test_the_disk_of_another_machine_starts_nothing_before_a_contact(
    link: LinkBench, engine: EngineBinder, world: World
) -> None:
    engine.submit(job(world), attempt_of(job(world)))
    link.end_agent()
    link.hub.close()
    world.restart(ENGINE)
    copy = Agent(link.described, link.directory / "agent", link.registry, machine="another")
    assert all(not each.may_start() for each in copy.supervisors)
    copy._note_contact("")
    assert all(each.may_start() for each in copy.supervisors)


def test_a_file_of_a_later_format_is_left_alone(
    link: LinkBench, engine: EngineBinder, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    link.end_agent()
    path = link.directory / "agent" / "attempts" / f"{attempt.id}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    (path.parent / "torn.json").write_text("{")
    assert list(AttemptFiles(path.parent).read()) == []
    assert "format is 2 (expected 1)" in caplog.text
    assert path.exists()
    link.agent = link.start_agent()


def test_a_record_of_an_older_agent_is_read(link: LinkBench, engine: EngineBinder, world: World) -> None:
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    path = link.directory / "agent" / "attempts" / f"{attempt.id}.json"
    data = json.loads(path.read_text())
    for name in ("run_id", "lineage", "failed", "failures"):
        del data[name]
    path.write_text(json.dumps(data))
    (read,) = AttemptFiles(path.parent).read()
    assert read == link.agent.attempts.get(attempt.id)


def test_records_survive_the_disk(link: LinkBench, engine: EngineBinder, world: World) -> None:
    attempt = attempt_of(job(world))
    engine.submit(job(world), attempt)
    written = link.agent.attempts.get(attempt.id)
    (read,) = AttemptFiles(link.directory / "agent" / "attempts").read()
    assert read == written
    assert oct((link.directory / "agent" / "attempts").stat().st_mode)[-3:] == "700"
