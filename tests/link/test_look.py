"""The looks of an agent, by which a round of the coordinator needs no calls, with the doubles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speck.agent.attempt_files import AttemptFiles
from speck.agent.attempts import Attempts
from speck.agent.durable_engine import DurableEngine
from speck.agent.looks import Looks
from speck.agent.run_state import Phase
from speck.agent.settling import SETTLED, Settling
from speck.binder.pool import BinderPool
from speck.core.inventory import Engine
from speck.core.runtime import Found, Handle, JobState, JobStatus
from speck.errors import BinderError
from speck.link.look import AGAIN, CONFIRMED, VALID, LastLooks, Look, LookMessage
from speck.observe.observer import Observer
from speck.server.agents import remote_binders
from speck.testing import attempt_of
from speck.testing.waiting import eventually
from testbed.benches.agents import LinkBench, link_bench
from testbed.benches.double import BROKER, ENGINE, DoubleBench
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

HERE = Look(engine=ENGINE, settled=("1",), running=(Found("1", "clean"),))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- the coordinator's end


def test_a_look_is_valid_while_its_agent_repeats_it() -> None:
    clock = Clock()
    looks = LastLooks(clock)
    looks.note(LookMessage(look=HERE))
    for _ in range(5):
        clock.now += AGAIN
        assert looks.get(ENGINE) == (HERE, AGAIN)
        looks.note(LookMessage(same=ENGINE))
    clock.now += VALID + 1
    assert looks.get(ENGINE) is None


def test_a_look_that_was_dropped_is_not_brought_back_by_its_repetition() -> None:
    looks = LastLooks()
    looks.note(LookMessage(look=HERE))
    looks.drop(ENGINE)
    looks.note(LookMessage(same=ENGINE))
    assert looks.get(ENGINE) is None


def test_a_look_that_lasts_is_valid_until_it_is_withdrawn() -> None:
    clock = Clock()
    looks = LastLooks(clock)
    looks.note(LookMessage(look=HERE, lasting=True))
    clock.now += 10 * VALID
    assert looks.get(ENGINE, quiet=7.0) == (HERE, 7.0)
    looks.note(LookMessage(same=ENGINE, journal="m"))
    clock.now += 10 * VALID
    assert looks.get(ENGINE, quiet=2.0) == (HERE, 2.0)
    assert looks.journal == "m"
    looks.note(LookMessage(withdrawn="sc://another:1"))
    assert looks.get(ENGINE) is not None
    looks.note(LookMessage(withdrawn=ENGINE))
    assert looks.get(ENGINE) is None


# --- the agent's end


class Sent(list[dict[str, Any]]):
    """The messages that were sent; ``connected`` says whether there is a connection."""

    connected = True

    def send(self, message: dict[str, Any]) -> bool:
        if self.connected:
            self.append(message)
        return self.connected


def test_a_look_is_sent_when_it_changes_and_repeated_seldom() -> None:
    sent, clock = Sent(), Clock()
    looks = Looks(sent.send, clock)
    for _ in range(10):
        looks.report(HERE, looks.begin(ENGINE))
        clock.now += AGAIN / 4
    assert [*map(list, sent)] == [["look"], ["same"], ["same"]]
    looks.report(Look(engine=ENGINE), looks.begin(ENGINE))
    assert [*sent[-1]] == ["look"]


def test_a_look_that_lasts_is_sent_once_and_withdrawn_when_it_is_not_right_any_more() -> None:
    sent, clock = Sent(), Clock()
    looks = Looks(sent.send, clock, lasting=lambda: True)
    for _ in range(20):
        looks.report(HERE, looks.begin(ENGINE))
        clock.now += CONFIRMED - 1
        looks.withdraw()
    assert [*map(list, sent)] == [["look", "lasting"]]
    sent.connected = False
    clock.now += 2
    looks.withdraw()  # the next try has a connection
    sent.connected = True
    looks.withdraw()
    looks.withdraw()
    assert sent[1:] == [{"withdrawn": ENGINE}]
    looks.report(HERE, looks.begin(ENGINE))
    assert [*sent[-1]] == ["look", "lasting"]


def test_a_look_that_the_coordinator_may_still_have_is_withdrawn() -> None:
    """A call has changed a job since, and no later look came: the engine is silent."""
    sent, clock = Sent(), Clock()
    looks = Looks(sent.send, clock, lasting=lambda: True)
    looks.report(HERE, looks.begin(ENGINE))
    looks.change(ENGINE)
    clock.now += CONFIRMED + 1
    looks.withdraw()
    assert sent[-1] == {"withdrawn": ENGINE}


def test_a_look_of_a_former_connection_is_not_withdrawn() -> None:
    sent, clock = Sent(), Clock()
    looks = Looks(sent.send, clock, lasting=lambda: True)
    looks.report(HERE, looks.begin(ENGINE))
    looks.forget()
    clock.now += CONFIRMED + 1
    looks.withdraw()
    assert [*map(list, sent)] == [["look", "lasting"]]


def test_a_look_that_a_call_has_overtaken_is_not_sent() -> None:
    sent = Sent()
    looks = Looks(sent.send)
    before = looks.begin(ENGINE)
    looks.change(ENGINE)
    looks.report(HERE, before)
    assert sent == []
    looks.report(HERE, looks.begin(ENGINE))
    looks.change(ENGINE)
    looks.report(HERE, looks.begin(ENGINE))
    assert [*map(list, sent)] == [["look"], ["look"]]  # the coordinator has dropped the first


def test_a_new_connection_gets_the_look_again() -> None:
    sent = Sent()
    looks = Looks(sent.send)
    sent.connected = False
    looks.report(HERE, looks.begin(ENGINE))
    sent.connected = True
    for _ in range(2):
        looks.report(HERE, looks.begin(ENGINE))
        looks.forget()
    assert [*map(list, sent)] == [["look"], ["look"]]


# --- what is in a look


def test_only_jobs_that_have_run_for_a_minute_are_in_a_look(world: World, tmp_path: Path) -> None:
    bench = DoubleBench()
    bench.world = world
    attempts = Attempts(AttemptFiles(tmp_path))
    engine = DurableEngine(bench.binder(), ENGINE, attempts)
    handles = [engine.submit(bench.job(name), attempt_of(bench.job(name))) for name in ("a", "b", "c")]
    settling, asked = Settling(), list[float]()

    def look(now: float, **said: JobStatus) -> Look:
        records = attempts.permitted(ENGINE)
        running = JobStatus(JobState.RUNNING, 0)
        seen = {each.attempt.id: said.get(each.attempt.job_name, running) for each in records}
        return settling.look(engine, records, seen, now)

    listed = engine.running
    engine.running = lambda: asked.append(0) or listed()  # type: ignore[method-assign,func-returns-value]
    assert look(0) == look(SETTLED - 1) == Look(engine=ENGINE)
    assert asked == []
    speaks = JobStatus(JobState.RUNNING, 0, "slow")
    failed = JobStatus(JobState.FAILED, 0, "no")
    assert look(SETTLED - 0.5, b=speaks, c=failed).settled == ()
    found = look(SETTLED)
    assert found.settled == (handles[0].engine_id,)
    assert found.running is not None
    assert {each.engine_id for each in found.running} == {each.engine_id for each in handles}
    assert look(SETTLED + 1) == found
    assert len(asked) == 1
    assert len(look(2 * SETTLED).settled) == 3
    record = attempts.of_handle(ENGINE, handles[0])
    assert record is not None
    attempts.put(record.to(Phase.GONE).next_run(None).confirmed(handles[0]))
    assert len(look(2 * SETTLED + 1).settled) == 2  # the next run begins anew
    engine.running = lambda: (_ for _ in ()).throw(BinderError("no"))  # type: ignore[method-assign]
    assert look(2 * SETTLED + AGAIN + 2).running is None


def test_jobs_that_started_together_are_in_one_look(world: World, tmp_path: Path) -> None:
    bench = DoubleBench()
    bench.world = world
    attempts = Attempts(AttemptFiles(tmp_path))
    engine = DurableEngine(bench.binder(), ENGINE, attempts)
    settling, started = Settling(), list[str]()

    def settled(now: float, *names: str) -> list[int]:
        """The jobs in a look, by the order of their starts, once these have started."""
        for name in names:
            started.append(engine.submit(bench.job(name), attempt_of(bench.job(name))).engine_id)
        records = attempts.permitted(ENGINE)
        seen = {each.attempt.id: JobStatus(JobState.RUNNING, 0) for each in records}
        return sorted(map(started.index, settling.look(engine, records, seen, now).settled))

    settled(0, "a")
    settled(5, "b")
    settled(10, "c")
    assert settled(SETTLED) == settled(SETTLED + 9) == []
    assert settled(SETTLED + 10) == [0, 1, 2]
    settled(100, "d")
    settled(112, "e")
    settled(124, "f")
    assert settled(100 + SETTLED + AGAIN - 1) == [0, 1, 2]
    assert settled(100 + SETTLED + AGAIN) == [0, 1, 2, 3]  # it waits no longer


# --- over a socket


@pytest.fixture(name="link")
def link_fixture(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkBench]:
    monkeypatch.setattr("speck.agent.settling.SETTLED", 0.0)
    monkeypatch.setattr("speck.agent.supervisor.LOOK", 0.01)
    monkeypatch.setattr("speck.agent.decide.LOOK_AGAIN", 0.02)
    monkeypatch.setattr("speck.link.dial.FIRST_PAUSE", 0.02)
    with link_bench(tmp_path, double_kinds(world), [Engine(spe_address=ENGINE)], BROKER) as bench:
        yield bench


def submitted(link: LinkBench, world: World, name: str = "clean", number: int = 1) -> Handle:
    bench = DoubleBench()
    bench.world = world
    return link.engine(ENGINE).submit(bench.job(name), attempt_of(bench.job(name), number))


def settled(link: LinkBench) -> set[str]:
    found = link.hub.look("A", ENGINE)
    return set() if found is None else set(found[0].settled)


def calls_of(link: LinkBench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made, call = list[str](), link.hub.call
    monkeypatch.setattr(
        link.hub, "call", lambda site, what, *more: made.append(what["m"]) or call(site, what, *more)
    )
    return made


def test_settled_jobs_cost_no_calls(link: LinkBench, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [submitted(link, world, each) for each in ("a", "b")]
    engine = link.engine(ENGINE)
    eventually(lambda: settled(link), lambda found: found == {each.engine_id for each in handles})
    asked = engine.running()
    made = calls_of(link, monkeypatch)
    before = time.time()
    statuses = engine.statuses(handles)
    assert {each.state for each in statuses.values()} == {JobState.RUNNING}
    assert all(before - VALID < each.observed_at <= time.time() for each in statuses.values())
    assert {each.engine_id for each in engine.running()} == {each.engine_id for each in asked}
    assert made == []
    unknown = Handle(ENGINE, "another")
    assert engine.statuses([*handles, unknown])["another"].state is JobState.LOST
    assert made == ["statuses"]


def test_the_look_at_an_engine_that_does_not_answer_is_withdrawn(
    link: LinkBench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.look.VALID", 1e9)
    handle = submitted(link, world)
    eventually(lambda: settled(link), lambda found: found == {handle.engine_id})
    hold = world.hold("statuses")
    assert hold.reached.wait(60)
    assert settled(link) == {handle.engine_id}
    monkeypatch.setattr("speck.agent.looks.CONFIRMED", 0.0)
    eventually(lambda: link.hub.look("A", ENGINE), lambda found: found is None, 60)
    hold.release()
    monkeypatch.setattr("speck.agent.looks.CONFIRMED", 60.0)
    eventually(lambda: settled(link), lambda found: found == {handle.engine_id}, 60)


def test_a_round_takes_what_an_agent_has_reported_without_a_thread(
    link: LinkBench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each of thousands of sites takes longer than all else in a round."""
    handles = {each: submitted(link, world, each) for each in ("a", "b")}
    eventually(lambda: len(settled(link)), lambda found: found == 2)
    pool = BinderPool(link.registry, link.inventory)
    pool.remote = remote_binders(link.hub, link.inventory)
    observer, jobs = Observer(pool, time.time), DoubleBench()
    asked: list[str] = []
    submit = observer.looks.submit
    monkeypatch.setattr(observer.looks, "submit", lambda call, name: asked.append(name) or submit(call, name))
    found = observer.poll([(jobs.job(name), handle) for name, handle in handles.items()])
    assert asked == []
    assert {name: each.state for name, each in found.statuses.items()} == dict.fromkeys(
        handles, JobState.RUNNING
    )
    assert {each.engine_id for each in found.found[ENGINE]} == {each.engine_id for each in handles.values()}
    assert found.silent == {}
    assert link.engine(ENGINE).reported([*handles.values(), Handle(ENGINE, "another")]) is None
    observer.poll([(jobs.job("a"), Handle(ENGINE, "another"))])
    assert asked == ["observe"]


def test_a_call_that_changes_a_job_is_followed_by_fresh_answers(link: LinkBench, world: World) -> None:
    engine = link.engine(ENGINE)
    for number in range(1, 20):
        handle = submitted(link, world, number=number)
        eventually(lambda: settled(link), lambda found: bool(found))
        engine.stop(handle, keep_state=False)
        assert engine.status(handle).state is not JobState.RUNNING
        assert [each for each in engine.running() if each.job_name == "clean"] == []


def test_a_look_that_arrives_before_the_answer_to_a_call_is_reported_again(
    link: LinkBench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator drops it as one of before the call."""
    send, dialler, looks = link.agent.dialler._send, link.agent.dialler, link.agent.looks

    def late(socket: Any, message: dict[str, Any]) -> None:
        if "c" in message:
            eventually(lambda: looks._sent.get(ENGINE), bool)
        send(socket, message)

    monkeypatch.setattr(dialler, "_send", late)
    handle = submitted(link, world)
    eventually(lambda: settled(link), lambda found: found == {handle.engine_id}, 10.0)


def test_a_job_that_ends_by_itself_is_no_longer_settled(link: LinkBench, world: World) -> None:
    handle = submitted(link, world)
    eventually(lambda: settled(link), bool)
    world.crash("clean")
    eventually(lambda: link.engine(ENGINE).status(handle).state, lambda found: found is JobState.FAILED)


def test_an_agent_that_is_away_has_no_look(link: LinkBench, world: World) -> None:
    handle = submitted(link, world)
    eventually(lambda: settled(link), bool)
    link.end_agent()
    eventually(lambda: link.hub.presence("A"), lambda found: found is None)
    assert link.engine(ENGINE).status(handle).state is JobState.UNKNOWN
    link.agent = link.start_agent()
    link.await_contact()
    eventually(lambda: settled(link), lambda found: found == {handle.engine_id})


def test_starts_of_an_agent_are_in_its_journal_which_the_hub_reads(link: LinkBench, world: World) -> None:
    submitted(link, world)
    world.restart(ENGINE)
    eventually(lambda: link.hub.journal("A"), lambda mark: mark.endswith(":1"))
    (entry,) = link.hub.read_journal("A", 0, 20.0)
    assert (entry.job, entry.attempt, entry.started) == ("clean", 1, True)
    assert entry.text == "start 2: its engine has lost it"
    assert link.hub.read_journal("A", 1, 20.0) == []
    link.agent.journal.after = lambda number: ["no entry"]  # type: ignore[method-assign,assignment,list-item]
    with pytest.raises(BinderError, match="the agent of site 'A' sent another journal"):
        link.hub.read_journal("A", 0, 20.0)


def test_a_look_of_another_form_is_ignored(link: LinkBench, world: World) -> None:
    handle = submitted(link, world)
    for message in ({"look": {"colour": 1}}, {"same": 7}, {"look": {"engine": "sc://another:1"}}, {}):
        link.agent.dialler.send(message)
    assert link.engine(ENGINE).status(handle).state is JobState.RUNNING
    assert link.hub.look("A", "sc://another:1") is None
