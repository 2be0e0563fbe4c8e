"""The engine in memory as the bench of the contract, and of tests of what stands before an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from speck.binder import EngineBinder
from speck.core.job import Job, client_id
from speck.core.runtime import Handle
from speck.errors import OutcomeUnknown, Rejected
from speck.testing.wire_trouble import Trouble
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.world import World

ENGINE = "sc://127.0.0.1:15002"
DEAD = "sc://127.0.0.1:15003"
TROUBLED = "sc://127.0.0.1:15004"
BROKER = "tcp://127.0.0.1:1883"
ABSENT = "tcp://127.0.0.1:1884"


class DoubleBench:
    """A world with one engine that runs and one that does not."""

    connect: Callable[[World, str], EngineBinder] = InMemoryEngine

    def __init__(self) -> None:
        self.world = World()
        self.world.down(DEAD)

    def binder(self) -> EngineBinder:
        return type(self).connect(self.world, ENGINE)

    def dead_binder(self) -> EngineBinder:
        return type(self).connect(self.world, DEAD)

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        methods = "check submit find status statuses running stop metrics capacity log_tail checkup profile"
        methods += " build_job engine_plan workers has_worked"
        for method in methods.split():
            error = OutcomeUnknown(f"{TROUBLED} is {trouble.value}", address=TROUBLED)
            self.world.fail(method, error, address=TROUBLED, times=None)
        yield type(self).connect(self.world, TROUBLED)

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        yield self.binder()  # there is no wire

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        self.world.fail("submit", OutcomeUnknown("lost", address=ENGINE), name=job.job_name, after=True)
        yield self.binder()

    @contextmanager
    def room_for_one(self) -> Iterator[EngineBinder]:
        self.world.engine(ENGINE).slots = 1
        yield self.binder()

    def job(self, name: str, behaviour: str = "good") -> Job:
        InMemoryBroker(self.world, BROKER).ensure_session(client_id(name), name)
        if behaviour == "fails_at_build":
            error = Rejected(f"{ENGINE}: ValueError: no such street", address=ENGINE)
            for method in ("submit", "build_job"):
                self.world.fail(method, error, name=name, times=None)
        elif behaviour in ("corrupt", "missing"):
            words = "job.py cannot be read" if behaviour == "corrupt" else "finds no missing"
            for method in ("check", "submit"):
                self.world.fail(method, Rejected(f"{ENGINE} {words}"), name=name, times=None)
        return Job(
            job_name=name,
            spe_address=ENGINE,
            source_broker=BROKER,
            source_topic=name,
            sink_broker=BROKER,
            sink_topic=f"{name}-out",
            entry_class=behaviour,
            job_path="job.py",
            engine="spark",
        )

    def feed(self, job: Job) -> None:
        if job.entry_class == "fails_at_run":
            self.world.crash(job.job_name, "RuntimeError: no such street")

    def passing_job(self, name: str) -> Job:
        return self.job(name)

    def send(self, job: Job, texts: Sequence[str]) -> None:
        self.world.pass_on(job, [text.encode() for text in texts])

    def running(self, job_name: str) -> int:
        return len(self.world.running(job_name))

    def forgotten(self, handle: Handle) -> Handle:
        return handle

    @contextmanager
    def without_state(self, handle: Handle) -> Iterator[Handle]:
        self.world.lose_states(handle.details["job"])
        yield handle
        self.world.states |= self.world.lost_states
        self.world.lost_states.clear()

    def log_words(self) -> tuple[str, ...]:
        return ()

    def fault_place(self) -> str:
        return ""
