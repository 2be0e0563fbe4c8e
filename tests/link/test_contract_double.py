"""The contracts of engines and brokers through an agent, over a real socket, with the doubles."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from speck.binder import BrokerBinder, EngineBinder
from speck.core.inventory import Engine
from speck.core.job import Job
from speck.errors import OutcomeUnknown
from speck.testing import BrokerContract, EngineContract
from speck.testing.engines import SharedJobs
from speck.testing.wire_trouble import Trouble
from testbed.benches.agents import LinkBench, link_bench
from testbed.benches.double import ABSENT, BROKER, DEAD, ENGINE, TROUBLED, DoubleBench
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

TROUBLED_BROKER = "tcp://127.0.0.1:1885"


class LinkedBench(DoubleBench):
    """The bench of the double, whose engines are reached through an agent."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        engines = [Engine(spe_address=each) for each in (ENGINE, DEAD, TROUBLED)]
        self.link = LinkBench(directory, double_kinds(self.world), engines, BROKER)
        self.link.await_contact()

    def binder(self) -> EngineBinder:
        return self.link.engine(ENGINE)

    def dead_binder(self) -> EngineBinder:
        return self.link.engine(DEAD)

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        with super().troubled_binder(trouble):
            yield self.link.engine(TROUBLED)

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        yield self.binder()

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        with super().losing_binder(job):
            yield self.binder()

    @contextmanager
    def room_for_one(self) -> Iterator[EngineBinder]:
        engine = self.world.engine(ENGINE)
        engine.slots = len(engine.live()) + 1
        yield self.binder()
        engine.slots = None


class TestEngineThroughAnAgent(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def linked(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedBench]:
        bench = LinkedBench(tmp_path_factory.mktemp("link"))
        yield bench
        bench.link.close()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, linked: LinkedBench) -> Iterator[SharedJobs]:
        with ExitStack() as ends:  # before the link is closed
            yield SharedJobs(ends)

    @pytest.fixture
    def bench(self, linked: LinkedBench) -> LinkedBench:
        return linked


class TestBrokerThroughAnAgent(BrokerContract):
    in_trouble: ClassVar[LinkBench]

    @pytest.fixture
    def world(self) -> World:
        self.world = World()
        return self.world

    @pytest.fixture
    def broker(self, world: World, tmp_path: Path) -> Iterator[BrokerBinder]:
        with self.linked(tmp_path, world, BROKER) as self.link:
            yield self.link.broker()

    @pytest.fixture
    def slow(self, broker: BrokerBinder) -> BrokerBinder:
        return broker

    @pytest.fixture
    def absent(self, world: World, tmp_path: Path) -> Iterator[BrokerBinder]:
        world.down(ABSENT)
        with self.linked(tmp_path, world, ABSENT) as link:
            yield link.broker()

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def useless(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """One agent for all tests of a broker in trouble."""
        world = World()
        for method, _ in inspect.getmembers(InMemoryBroker, inspect.isfunction):
            error = OutcomeUnknown(f"{TROUBLED_BROKER} is in trouble", address=TROUBLED_BROKER)
            world.fail(method, error, address=TROUBLED_BROKER, times=None)
        with cls.linked(tmp_path_factory.mktemp("useless"), world, TROUBLED_BROKER) as cls.in_trouble:
            yield

    @contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[BrokerBinder]:
        yield self.in_trouble.broker()

    @staticmethod
    def linked(directory: Path, world: World, broker: str) -> AbstractContextManager[LinkBench]:
        return link_bench(directory, double_kinds(world), [Engine(spe_address=ENGINE)], broker)

    def fenced_attempt(self, broker: BrokerBinder, session: str) -> int | None:
        state = self.world.broker(BROKER)
        return state.fences.get(session, state.tombstones.get(session))

    def beside(self, broker: BrokerBinder) -> BrokerBinder:
        return self.link.broker()

    def named_writers(self, broker: BrokerBinder, session: str) -> list[str] | None:
        return self.world.broker(BROKER).writers.get(session)
