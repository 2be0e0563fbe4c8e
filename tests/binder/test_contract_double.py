"""The in-memory double keeps the contract of the real engines, so tests on it mean something."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from speck.binder import BrokerBinder
from speck.core.inventory import Inventory
from speck.core.job import client_id
from speck.core.runtime import JobState
from speck.errors import NoCapacity, OutcomeUnknown, Unreachable
from speck.testing import BrokerContract, EngineContract, attempt_of
from speck.testing.wire_trouble import Trouble
from testbed.benches.double import ABSENT, BROKER, ENGINE, TROUBLED, DoubleBench
from testbed.benches.examples import one_site
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.kinds import double_kinds
from testbed.doubles.logs import InMemoryLog
from testbed.doubles.world import EngineState, RunningJob, World


class TestDouble(EngineContract):
    @pytest.fixture
    def bench(self) -> DoubleBench:
        return DoubleBench()

    def test_nothing_forbidden_happens_in_good_use(self, bench: DoubleBench) -> None:
        job = bench.job("a")
        engine = bench.binder()
        engine.stop(engine.submit(job, attempt_of(job)), keep_state=True)
        assert bench.world.violations == []


class TestBrokerDouble(BrokerContract):
    connect: Callable[[World, str], BrokerBinder] = InMemoryBroker

    @pytest.fixture
    def world(self) -> World:
        return World()

    @pytest.fixture
    def broker(self, world: World) -> BrokerBinder:
        return type(self).connect(world, BROKER)

    @pytest.fixture
    def slow(self, broker: BrokerBinder) -> BrokerBinder:
        return broker  # there is no wire

    @pytest.fixture
    def absent(self, world: World) -> BrokerBinder:
        world.down(ABSENT)
        return type(self).connect(world, ABSENT)

    @contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[BrokerBinder]:
        world = World()
        for method in inspect.getmembers(InMemoryBroker, inspect.isfunction):
            error = OutcomeUnknown(f"{TROUBLED} is {trouble.value}", address=TROUBLED)
            world.fail(method[0], error, address=TROUBLED, times=None)
        yield type(self).connect(world, TROUBLED)

    def fenced_attempt(self, broker: Any, session: str) -> int | None:
        state = broker.world.broker(BROKER)
        return state.fences.get(session, state.tombstones.get(session))

    def beside(self, broker: Any) -> BrokerBinder:
        return type(self).connect(broker.world, BROKER)

    def named_writers(self, broker: Any, session: str) -> list[str] | None:
        return broker.world.broker(BROKER).writers.get(session)


class TestLogDouble(TestBrokerDouble):
    connect: Callable[[World, str], BrokerBinder] = InMemoryLog

    def have_unread(self, broker: Any, session: str, messages: int, seconds: float) -> None:
        state = broker.world.broker(BROKER)
        state.backlog[session], state.ages[session] = messages, seconds


def test_two_copies_and_a_missing_session_are_violations() -> None:
    bench = DoubleBench()
    job = bench.job("a")
    for number in (1, 2):
        bench.binder().submit(job, attempt_of(job, number))
    InMemoryBroker(bench.world, BROKER).delete_session(client_id("a"))
    bench.binder().submit(job, attempt_of(job, 3))
    assert [what.split(" while ")[0] for what in bench.world.violations] == [
        "job 'a' started",
        "job 'a' started",
        "job 'a' started",
        "job 'a' started without its session 'speck-a'",
    ]


def test_a_fence_ends_the_older_copy() -> None:
    bench = DoubleBench()
    job, engine = bench.job("a"), bench.binder()
    handle = engine.submit(job, attempt_of(job, 1))
    broker = InMemoryBroker(bench.world, BROKER)
    broker.fence(client_id("a"), 2)
    broker.fence(client_id("a"), 1)
    status = engine.status(handle)
    assert (status.state, status.message) == (JobState.FAILED, "taken over by attempt 2")


def test_a_restarted_engine_has_lost_its_jobs_and_kept_their_state() -> None:
    bench = DoubleBench()
    job, engine = bench.job("a"), bench.binder()
    handle = engine.submit(job, attempt_of(job))
    bench.world.down(ENGINE)
    assert engine.status(handle).state is JobState.UNKNOWN
    bench.world.restart(ENGINE)
    assert engine.status(handle).state is JobState.LOST
    assert engine.stop(handle, keep_state=True) is not None


def test_a_lost_answer_and_a_full_engine() -> None:
    world = World()
    site = one_site("A", ENGINE, BROKER, slots=1)
    kinds = double_kinds(world)
    kind = kinds.engine_kind("spark", ENGINE)
    assert kind is not None
    assert kind.check_code(Path("job.py"), "clean") is None
    engine = kind.connect(ENGINE, Inventory({"A": site}))
    first, second = (DoubleBench().job(name) for name in ("a", "b"))
    world.fail("submit", OutcomeUnknown("no answer", address=ENGINE), name="a", after=True)
    attempt = attempt_of(first)
    with pytest.raises(OutcomeUnknown):
        engine.submit(first, attempt)
    assert engine.find(attempt) is not None
    engine.check(first, None)  # its own slot comes free first
    with pytest.raises(NoCapacity, match="1 slots"):
        engine.check(second, None)


def test_calls_wait_at_a_hold() -> None:
    import threading

    bench = DoubleBench()
    hold = bench.world.hold("capacity")
    thread = threading.Thread(target=bench.binder().capacity)
    thread.start()
    assert hold.reached.wait(10)
    assert thread.is_alive()
    hold.release()
    thread.join(10)
    assert not thread.is_alive()
    assert bench.world.counts()["capacity"] == 1
    assert bench.world.changes() == []


def test_a_broker_that_is_down() -> None:
    world = World()
    world.down(BROKER)
    broker = InMemoryBroker(world, BROKER)
    with pytest.raises(Unreachable):
        broker.check()
    world.up(BROKER)
    broker.check()
    assert not broker.session_exists("speck-a")
    assert broker.warnings() == []


class Unsearched(EngineState):
    """An engine on which nobody has to look for the reader of a session."""

    def live(self) -> list[RunningJob]:
        raise AssertionError("the copies of all engines are searched for the reader of one session")


def test_the_reader_of_a_session_is_found_without_a_search_of_all_copies() -> None:
    """A restart at many sites looks for all of them: a search for each was most of its time."""
    bench = DoubleBench()
    job, engine, broker = bench.job("a"), bench.binder(), InMemoryBroker(bench.world, BROKER)
    bench.world.engines["sc://elsewhere:15002"] = Unsearched()
    session = client_id("a")
    assert broker.readers([session]) == {}
    handle = engine.submit(job, attempt_of(job))
    assert broker.readers([session, client_id("b")]) == {session: 1}
    assert broker.drained(session, "m", 1.0) is True
    engine.stop(handle, keep_state=False)
    assert broker.readers([session]) == {}
    assert broker.drained(session, "m", 1.0) is None
