"""A store that version 0.1.0 wrote goes on with this version: nothing is lost, stopped or started over it.

The fixtures were written by ``fixtures/write_version_0_1.py`` on the code of version 0.1.0.
"""

from __future__ import annotations

import ast
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

import speck
from speck.binder import Registry
from speck.controller.backoff import Backoff
from speck.coordinator import build
from speck.core.inventory import Inventory
from speck.core.job import Job, client_id, fence_topic, form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt, Handle, JobState, JobStatus, State
from speck.core.settings import Settings
from speck.schema.inventory import load_inventory
from speck.server.api import Protection, create_app
from speck.store import Store
from speck.store.maintenance.backup import restore
from speck.store.maintenance.repair import check, check_directory
from testbed.contract.waiting import eventually
from testbed.doubles.binders import InMemoryEngine, RunningJob, World, double_kinds

FIXTURES = Path(__file__).parent / "fixtures"
GONE = ("http://d.example:8081/", "tcp://d.example:1883")
UNREACHABLE = "sc://e.example:15002"

# Of a job: the fields that come from the store, and not from the last look at its engine.
STORED = ("job_name", "composition", "wanted", "error", "attempt", "job", "sessions", "left_behind")


class SavepointEngine(InMemoryEngine):
    """A Flink double that leaves a savepoint at each stop, which can be deleted."""

    def status(self, handle: Handle) -> JobStatus:
        found = super().status(handle)
        stopped = found.state is JobState.LOST and handle.engine_id in self.world.engine(self.address).ended
        return replace(found, state=JobState.STOPPED) if stopped else found

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        if super().stop(handle, keep_state) is None:
            return None
        location = f"memory:/{handle.details['job']}/savepoint-{handle.engine_id}"
        self.world.states.add(location)
        return State("flink-savepoint", location)

    def dispose_state(self, state: State) -> None:
        with self.world.call("dispose_state", self.address, state.location):
            self.world.states.discard(state.location)


def kinds(world: World) -> Registry:
    """Spark Connect, Spark standalone, Flink and MQTT, in memory."""
    doubles = double_kinds(world)
    by_name = {each.name: each for each in doubles.engines}
    connect = by_name["spark-connect"]
    standalone = replace(connect, name="spark-standalone", schemes=("spark",))

    def flink(address: str, inventory: Inventory) -> SavepointEngine:
        return SavepointEngine(world, address, "flink")

    engines = [connect, standalone, replace(by_name["flink"], connect=flink)]
    return Registry.of([*engines, *doubles.brokers])


class Successor:
    """This version on the store and the engines that version 0.1.0 left."""

    def __init__(self, directory: Path, written: Mapping[str, Any], place: Path) -> None:
        self.root = directory
        for code in (place / "artifacts").glob("*/*"):  # as a user still has it
            (directory / code.name).write_bytes(code.read_bytes())
        self.written, self.now = written, written["now"] + 1.0
        self.world = world_of(written["world"])
        self.store = Store(place)
        services = build(
            self.store,
            kinds(self.world),
            load_inventory(written["sites"].encode()),
            Settings(roots=(directory,), period=0),
            clock=lambda: self.now,
            backoff=Backoff(lambda tries: 100.0 * 2 ** (tries - 1)),
        )
        self.coordinator = services.coordinator
        self.client: FlaskClient = create_app(services, Protection(None)).test_client()

    def close(self) -> None:
        self.coordinator.close()
        self.store.close()

    # --- requests

    def get(self, path: str) -> Any:
        answer = self.client.get(path, base_url="http://127.0.0.1")
        assert answer.status_code == 200, (path, answer.text)
        return answer.json

    def apply(self, name: str, text: str, query: str) -> Any:
        answer = self.client.post(
            f"/compositions?name={name}&{query}",
            data=text,
            content_type="application/yaml",
            base_url="http://127.0.0.1",
        )
        assert answer.status_code in (200, 202), answer.text
        return answer.json

    def plan(self, name: str) -> dict[str, str]:
        """The actions of the plan for a file that version 0.1.0 had applied, by job."""
        plan = self.apply(name, self.written["files"][name], "dry_run=true")
        return {each["job"]: each["kind"] for each in plan["actions"]}

    def jobs(self) -> dict[str, Any]:
        return {each["job_name"]: each for each in self.get("/jobs")}

    # --- time

    def reconcile(self, times: int = 1, seconds: float = 1.0) -> None:
        for _ in range(times):
            self.now += seconds
            self.coordinator.reconciler.round()
            self.wait()

    def wait(self) -> None:
        """Wait for the operations at work."""
        eventually(
            lambda: [each for each in self.get("/compositions") if each["operation"]], lambda at: not at
        )


def world_of(data: Mapping[str, Any]) -> World:
    """The engines and brokers as version 0.1.0 left them."""
    world = World()
    world.states = set(data["states"])
    for address, engine in data["engines"].items():
        there = world.engine(address)
        there.reachable, there.ended = engine["reachable"], set(engine["ended"])
        for each in engine["jobs"]:
            attempt = _attempt(each["attempt"])
            running = RunningJob(
                Job.from_dict(each["job"]), attempt, JobState(each["state"]), each["message"]
            )
            world.add(address, running)
    for address, broker in data["brokers"].items():
        here = world.broker(address)
        here.reachable = broker["reachable"]
        here.sessions, here.fences = dict(broker["sessions"]), dict(broker["fences"])
    return world


def _attempt(data: Mapping[str, Any]) -> Attempt:
    return Attempt(**{**data, "state": State(**data["state"]) if data["state"] else None})


def read_fixture() -> dict[str, Any]:
    with gzip.open(FIXTURES / "world-0.1.0.json.gz") as file:
        data: dict[str, Any] = json.load(file)
    return data


def unpack(place: Path) -> None:
    """The directory as version 0.1.0 closed it."""
    with tarfile.open(FIXTURES / "store-0.1.0.tar.gz") as tar:
        tar.extractall(place, filter="data")


def restored(place: Path) -> None:
    """The directory as this version restores it from a backup of version 0.1.0."""
    restore(io.BytesIO((FIXTURES / "backup-0.1.0.tar.gz").read_bytes()), "backup", place)


@pytest.fixture(params=[unpack, restored], ids=["directory", "backup"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    make: Callable[[Path], None] = request.param
    make(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def successor(tmp_path: Path, place: Path) -> Iterator[Successor]:
    successor = Successor(tmp_path, read_fixture(), place)
    yield successor
    successor.world.heal()
    successor.close()
    assert successor.world.violations == []


def test_the_fixtures_hold_every_kind_of_record(place: Path) -> None:
    with Store(place) as store:
        records = store.records()
    assert {key.split(b"/")[0].decode() for key, _ in records} == {
        *("meta", "composition", "revision", "job", "attempt", "left", "left-session"),
        *("tries", "operation", "healing", "event", "loop"),
    }
    jobs, attempts = (
        b"".join(value for key, value in records if key.startswith(kind)) for kind in (b"job/", b"attempt/")
    )
    # Rollback revision, retained states, garbage states; an attempt with a lineage, one without an answer.
    assert all(field in jobs for field in (b'"f":', b'"k":', b'"left":'))
    assert all(field in attempts for field in (b'"l":', b'"p":"intended"', b'"p":"running"', b'"state":'))


def test_nothing_is_wrong_with_the_store(place: Path) -> None:
    assert check_directory(place) == []


def test_everything_is_read_as_version_0_1_showed_it(successor: Successor) -> None:
    for path, expected in successor.written["answers"].items():
        if path == "/jobs":
            read = {name: {key: job[key] for key in STORED} for name, job in successor.jobs().items()}
            assert read == {each["job_name"]: {key: each[key] for key in STORED} for each in expected}
        elif path == "/left-behind" or path.endswith("/revisions"):  # with more fields since
            pairs = zip(successor.get(path), expected, strict=True)
            assert [{key: each[key] for key in old} for each, old in pairs] == expected
        elif "/revisions/" in path:
            read = successor.get(path)
            assert {key: read[key] for key in expected} == expected
        else:
            assert successor.get(path) == expected, path


def test_the_plan_of_an_unchanged_file_keeps_every_job(successor: Successor) -> None:
    for name in ("traffic", "abandoned"):
        assert set(successor.plan(name).values()) == {"keep"}
    assert successor.plan("troubled") == {"flaky": "start", "strict": "update", "once": "start"}
    assert successor.world.changes() == []


def test_an_interrupted_operation_is_resumed_and_nothing_else_is_touched(successor: Successor) -> None:
    running = {each.attempt.id for each in successor.world.running()}
    successor.coordinator.start()
    successor.wait()
    changed = successor.world.changes()
    assert {name for _, _, name in changed} == {"submitted"}
    ids = {each.attempt.id for each in successor.world.running()}
    assert running < ids
    assert len(ids - running) == 1
    (resumed,) = [
        each
        for each in successor.get("/operations?limit=200")
        if each["composition"] == "interrupted" and each["revision"] == 2
    ]
    assert resumed["state"] == "succeeded"
    assert set(successor.plan("interrupted").values()) == {"keep"}
    assert check(successor.store.records(), successor.store.directory) == []


def test_the_reconciler_waits_for_what_version_0_1_waited_for(successor: Successor) -> None:
    successor.coordinator.start()
    successor.wait()
    successor.world.calls.clear()
    successor.reconcile(3)
    assert {name for _, _, name in successor.world.changes()} <= {"watch"}
    jobs = successor.jobs()
    assert (jobs["flaky"]["waits"], jobs["flaky"]["drift"]) == ("waits for its next attempt", "died")
    assert "NameError in other.py:3" in jobs["strict"]["waits"]
    assert "restart: never" in jobs["once"]["waits"]
    assert UNREACHABLE in jobs["last"]["waits"]
    successor.reconcile(1, seconds=1000)
    (flaky,) = successor.world.running("flaky")
    assert flaky.attempt.state is not None
    assert successor.world.running("once") == []


def test_abandoned_work_is_reaped_when_its_site_answers(successor: Successor) -> None:
    (old,) = (each for each in successor.world.running("edge") if each.attempt.number == 1)
    successor.coordinator.start()
    successor.wait()
    for address in GONE:
        successor.world.up(address)
    eventually(lambda: successor.reconcile() or successor.get("/left-behind"), lambda found: found == [])
    assert old.attempt.id not in successor.world.engine(GONE[0]).jobs
    assert successor.world.broker(GONE[1]).sessions == {}
    (edge,) = successor.world.running("edge")
    assert edge.attempt.number == 2


def test_a_deletion_is_carried_to_its_end(successor: Successor) -> None:
    successor.coordinator.start()
    successor.world.up(UNREACHABLE)
    successor.reconcile(3, seconds=100)
    assert "closing" not in [each["name"] for each in successor.get("/compositions")]
    assert successor.world.running("last") == []
    assert successor.world.broker("tcp://e.example:1883").sessions == {}


def test_states_and_numbers_go_on_with_the_next_update(successor: Successor) -> None:
    successor.coordinator.start()
    successor.wait()
    (before,) = successor.world.running("count")
    text = successor.written["files"]["traffic"].replace("parallelism: 6", "parallelism: 7")
    operation = successor.apply("traffic", text, "wait=30")
    assert operation["state"] == "succeeded", operation
    (after,) = successor.world.running("count")
    assert after.attempt.number > before.attempt.number
    assert after.attempt.state is not None
    assert after.attempt.state.location == f"memory:/count/savepoint-{before.attempt.id}"
    assert len([each for each in successor.world.states if each.startswith("memory:/count/savepoint")]) == 2
    assert successor.get("/compositions/traffic/revisions")[-1]["number"] == 9
    assert check(successor.store.records(), successor.store.directory) == []


def test_a_rollback_goes_to_a_revision_of_version_0_1(successor: Successor) -> None:
    successor.coordinator.start()
    successor.wait()
    answer = successor.client.post(
        "/compositions/traffic/rollback?revision=2&wait=30", base_url="http://127.0.0.1"
    )
    assert answer.json["state"] == "succeeded", answer.text
    (forward,) = successor.world.running("forward")
    assert forward.job.trigger == "1 seconds"
    assert successor.world.running("report") == []


# --- names that version 0.1.0 left at engines and brokers, of jobs that run on

LEFT_AT_ENGINES = {
    # A handle's details, and the settings of a session by which a query is found again.
    "binders/spark/connect": "job query run checkpoint",
    "binders/spark/query": "spark.speck.query spark.speck.run spark.speck.checkpoint",
    # A handle's details, the leases in a checkpoint, and the keys and kinds of a driver's status.
    "binders/spark/standalone": (
        "job checkpoint speck-attempts kind message at starts crashes ran progress control "
        "starting building running failed refused finished stopped gave_way"
    ),
    # A handle's details, and the labels among a job's global parameters.
    "binders/flink": "job checkpoints savepoints state speck code reads hash number form owner",
}


@pytest.mark.parametrize("package", LEFT_AT_ENGINES)
def test_names_that_version_0_1_left_at_engines_are_still_read(package: str) -> None:
    root = Path(speck.__file__).parent.parent / package
    trees = [ast.parse(path.read_bytes()) for path in root.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    found = {node.value for node in nodes if isinstance(node, ast.Constant)}
    fields = [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
    found |= {field.id for field in fields if isinstance(field, ast.Name)}
    assert set(LEFT_AT_ENGINES[package].split()) - found == set()


def test_fingerprints_and_topics_are_those_of_version_0_1() -> None:
    broker = "tcp://a.example:1883"
    job = Job(
        job_name="a",
        spe_address="sc://a.example:15002",
        engine="spark",
        source_broker=broker,
        source_topic="in",
        sink_broker=broker,
        sink_topic="out",
        entry_class="work",
        job_path="jobs.py",
        arguments={"share": 0.5},
        parallelism=2,
        code_hash="0" * 64,
    )
    assert form_fingerprint(job) == "d880769ffeb5c663"
    assert session_fingerprint(broker, "speck-a") == "d94347974e970143"
    assert (client_id("a"), fence_topic("speck-a")) == ("speck-a", "speck/fence/speck-a")
