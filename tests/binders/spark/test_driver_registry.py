"""Finding an attempt among the drivers of a cluster, over a master and workers in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from binders.spark.query.marks import Marks
from binders.spark.standalone import driver_registry
from binders.spark.standalone.driver_marks import FOREIGN, marks_in, properties_of
from binders.spark.standalone.driver_registry import HEAD_END, DriverRegistry
from binders.spark.standalone.engine import StandaloneEngine
from binders.spark.standalone.master import Cluster, Driver, Log, Master, Worker
from binders.spark.standalone.submission import MAIN_CLASS
from speck.core.inventory import Engine, Inventory
from speck.core.job import form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt, Found, Handle
from speck.errors import OutcomeUnknown, Rejected
from testbed.benches.examples import job as make_job
from testbed.benches.sessions import OWNER, named

ADDRESS = "spark://m:7077"
ATTEMPT = "a" * 32
WORKER = Worker("worker-1", "http://w:8081", 4, 4, 1 << 30, 1 << 30)
HEADED = f'Launch Command: "java" "-Dspark.speck.attempt={ATTEMPT}" "-Dspark.speck.job=a"{HEAD_END}'
HEADLESS = ""


class MasterInMemory(Master):
    """A master of one worker; ``serve`` answers each request for the head of a log, or raises."""

    def __init__(self, drivers: Sequence[Driver], serve: Callable[[], str]) -> None:
        super().__init__(ADDRESS, Engine(spe_address=ADDRESS))
        self.drivers, self.serve = tuple(drivers), serve
        self.requests = 0

    def cluster(self) -> Cluster:
        return Cluster((WORKER,), self.drivers)

    def log(self, worker: Worker, driver: str, kind: str, *, start: int | None, length: int) -> Log:
        if kind == "out":
            return Log("", time.time())  # no status file: it was killed before it wrote one
        self.requests += 1
        return Log(self.serve(), time.time())


def driver(state: str, worker: str = WORKER.id) -> Driver:
    return Driver("driver-20260101000000-0001", state, worker, MAIN_CLASS)


def raising(error: Exception) -> str:
    raise error


def busy() -> str:
    return raising(OutcomeUnknown("worker worker-1 did not answer in 10 s", address=ADDRESS))


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_registry, "FIND_PATIENCE", 0.5)


@pytest.mark.parametrize("state", ["KILLED", "FINISHED", "FAILED", "ERROR"])
def test_an_ended_driver_whose_log_is_served_late_is_found(state: str) -> None:
    """Otherwise another coordinator would submit an attempt again that was stopped right after its start."""
    answers = iter([busy, busy])
    master = MasterInMemory([driver(state)], lambda: next(answers, lambda: HEADED)())
    found = DriverRegistry(ADDRESS, master).find(ATTEMPT, strict=False)
    assert found is not None
    assert found[0].state == state


@pytest.mark.parametrize("strict", [True, False])
def test_an_attempt_is_not_missing_while_the_log_of_an_ended_driver_cannot_be_read(strict: bool) -> None:
    registry = DriverRegistry(ADDRESS, MasterInMemory([driver("KILLED")], busy))
    with pytest.raises(OutcomeUnknown, match=r"logs cannot be read.*driver-20260101000000-0001"):
        registry.find(ATTEMPT, strict=strict)


@pytest.mark.parametrize(
    "serve",
    [lambda: HEADLESS, lambda: raising(Rejected("worker worker-1 answered 403", address=ADDRESS))],
    ids=["never ran", "never served"],
)
def test_an_ended_driver_without_a_head_is_no_attempt_of_ours(serve: Callable[[], str]) -> None:
    """The head is written when the process starts; without it none ran.  It is asked for once."""
    master = MasterInMemory([driver("KILLED")], serve)
    registry = DriverRegistry(ADDRESS, master)
    assert registry.find(ATTEMPT, strict=True) is None
    assert registry.find(ATTEMPT, strict=True) is None
    assert master.requests == 1


def test_an_ended_driver_that_no_worker_had_is_not_awaited() -> None:
    registry = DriverRegistry(ADDRESS, MasterInMemory([driver("KILLED", worker="")], busy))
    assert registry.find(ATTEMPT, strict=True) is None


def test_a_submit_does_not_wait_for_a_worker() -> None:
    """Of two drivers of an attempt one exits, by the lease; a question about the attempt is strict."""
    registry = DriverRegistry(ADDRESS, MasterInMemory([driver("SUBMITTED", worker="")], busy))
    assert registry.find(ATTEMPT, strict=False) is None
    with pytest.raises(OutcomeUnknown, match="wait for a worker"):
        registry.find(ATTEMPT, strict=True)


@pytest.mark.parametrize(
    "found", [driver("RUNNING"), driver("SUBMITTED", worker="")], ids=lambda each: each.state
)
def test_a_stop_does_not_succeed_while_the_driver_may_run(found: Driver) -> None:
    """Of a coordinator that has just started: the deleted job would run on, or beside its successor."""
    master = MasterInMemory([found], busy)
    engine = StandaloneEngine(ADDRESS, Inventory())
    engine._master, engine._drivers = master, DriverRegistry(ADDRESS, master)
    handle = Handle(ADDRESS, ATTEMPT, {"job": "a", "checkpoint": "/checkpoints/a"})
    with pytest.raises(OutcomeUnknown, match=found.id):
        engine.stop(handle, keep_state=True)
    with pytest.raises(OutcomeUnknown, match=found.id):
        engine.stop(handle, keep_state=False)


JOB = make_job("a", engine="spark")
RUN = Attempt(id=ATTEMPT, job_name="a", number=7, session=named("a"), owner=OWNER, incarnation=5, origin=3)
PLACE = 'hdfs://h:9/a b/"c"/%25'  # quoted on a command line


def head(**properties: str) -> str:
    """The head of a log, as the worker writes it."""
    words = " ".join(f'"-D{name}={value}"' for name, value in properties.items())
    return f'Launch Command: "java" {words} "org.apache.spark.deploy.worker.DriverWrapper"{HEAD_END}'


def test_another_coordinator_reads_all_marks_of_a_driver() -> None:
    marks = Marks.of(JOB, RUN, PLACE)
    registry = DriverRegistry(
        ADDRESS, MasterInMemory([driver("RUNNING")], lambda: head(**properties_of(marks)))
    )
    (found,) = registry.active(MasterInMemory([driver("RUNNING")], lambda: "").cluster())
    assert found == marks
    assert registry.checkpoint(ATTEMPT) == PLACE
    reads = session_fingerprint(JOB.source_broker, RUN.session)
    form = form_fingerprint(JOB)
    known = Found(ATTEMPT, "a", ATTEMPT, JOB.code_hash, reads, 7, form, OWNER)
    assert found.found(ATTEMPT) == replace(known, incarnation=5, origin=3)


@pytest.mark.parametrize(("lineage", "mark"), [("", "5.3"), ("b" * 32, f"5.3.{'b' * 32}")])
def test_a_driver_names_the_stamps_that_it_writes(lineage: str, mark: str) -> None:
    marks = Marks.of(JOB, replace(RUN, lineage=lineage), PLACE)
    assert properties_of(marks)["spark.speck.stamps"] == mark
    found = marks_in(head(**properties_of(marks))).found(ATTEMPT)
    assert (found.incarnation, found.origin, found.lineage) == (5, 3, lineage)
    # As of a version before this mark, or of text that is none: the numbers are unknown, and not 0.
    for other in ("", "5", "5.x"):
        assert replace(marks, stamps=other).found(ATTEMPT).incarnation is None


def test_a_driver_of_an_older_version_has_an_attempt_and_a_job_only() -> None:
    registry = DriverRegistry(ADDRESS, MasterInMemory([driver("RUNNING")], lambda: HEADED))
    (found,) = registry.active(MasterInMemory([driver("RUNNING")], lambda: "").cluster())
    assert found.found(ATTEMPT) == Found(ATTEMPT, "a", ATTEMPT)
    assert registry.checkpoint(ATTEMPT) == ""


@pytest.mark.parametrize(
    "properties",
    [
        {"spark.speck.job": "a", "spark.speck.owner": OWNER},
        {"spark.speck.attempt": "a" * 31, "spark.speck.job": "a"},
        {"spark.speck.attempt": ATTEMPT},
        {"spark.app.name": "theirs"},
    ],
)
def test_a_driver_without_an_attempt_and_a_job_is_foreign(properties: dict[str, str]) -> None:
    assert marks_in(head(**properties)) == FOREIGN


def test_marks_that_are_not_set_are_not_written() -> None:
    marks = Marks.of(JOB, replace(RUN, owner=""), PLACE)
    assert "spark.speck.owner" not in properties_of(marks)
    assert marks_in(head(**properties_of(marks))) == marks
