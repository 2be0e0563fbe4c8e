"""Engines that speak HTTP, and whose answers are JSON of another form than they should be.

A server gives answers as the engines give them, but for one piece of one answer.  Whatever that piece is, a
binder comes to a result or raises an error of SpecK's own, in one line.  ``SPECK_ROUNDS`` (1) is how many
odd pieces are tried in each place.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from binders.flink.engine import FlinkEngine
from binders.flink.state import savepoints
from binders.flink.submission import jar_gc, launcher, slots
from binders.spark import connect_engine
from binders.spark.local.commands import CONNECTOR
from binders.spark.standalone import driver_registry, job_drivers
from binders.spark.standalone.engine import StandaloneEngine
from speck.binder import EngineBinder
from speck.core.inventory import Inventory, Login, Secret
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, JobState, State
from speck.errors import SpeckError, Unreachable
from speck.store.served_files import ServedFiles
from testbed.benches.examples import make_jar, one_site
from testbed.doubles.engine_answers import FLINK_JOB, Answers, AnswerServer, flink_answers, serving

ROUNDS = int(os.environ.get("SPECK_ROUNDS", "1"))
ODD: list[Any] = [
    *(None, 7, -1.5, float("inf"), True, "odd", "9" * 30),
    *([], [None], [[]], {}, {"odd": 1}),
]


BROKER = "tcp://127.0.0.1:1883"


def places(answer: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in an answer that can be malformed: the whole, and each part of it."""
    yield path
    if isinstance(answer, dict | list):
        for key, value in answer.items() if isinstance(answer, dict) else enumerate(answer):
            yield from places(value, (*path, key))


def with_odd(answer: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """The answer with something odd in one place."""
    if not path:
        return odd
    changed = copy.deepcopy(answer)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return changed


def try_all(server: AnswerServer, calls: Callable[[], Mapping[str, Callable[[], object]]]) -> None:
    """Make each call with good answers, then with each answer that it asked for made odd."""
    needs = defaultdict(set)
    for name, call in calls().items():
        server.asked.clear()
        with suppress(SpeckError):  # a job that is always at work is not stopped, for example
            call()
        for pattern in server.asked:
            needs[pattern].add(name)
    assert len(needs) > 3
    good, chance = dict(server.answers), random.Random(7)
    leaks: list[str] = []
    for pattern, answer in good.items():
        for place in places(answer):
            for odd in chance.sample(ODD, min(ROUNDS, len(ODD))):
                server.answers = {**good, pattern: with_odd(answer, place, odd)}
                made = calls()
                leaks += [
                    f"{name} with {odd!r} at {place} of {pattern}: {leak!r}"
                    for name in sorted(needs[pattern])
                    if (leak := _leak_of(made[name])) is not None
                ]
    assert leaks == []


def _leak_of(call: Callable[[], object]) -> Exception | None:
    """The exception of a call, unless it is an error of SpecK's in one line."""
    try:
        call()
    except Exception as error:
        return None if isinstance(error, SpeckError) and "\n" not in str(error) else error
    return None


# -- Flink


@pytest.mark.slow("hundreds of odd answers to each call")
def test_flink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        *((slots, "PATIENCE"), (launcher, "FIND_PATIENCE"), (jar_gc, "_POLL")),
        *((savepoints, "_SHORT"), (savepoints, "_CANCEL")),
    ):
        monkeypatch.setattr(module, name, 0.0)
    jar = make_jar(tmp_path / "a.jar", "streets.A")
    server = AnswerServer(flink_answers())
    with serving(server) as port, ExitStack() as used:
        address = f"http://127.0.0.1:{port}/"
        job = _job(address, str(jar), "streets.A", "flink")
        attempt = Attempt(id=FLINK_JOB, job_name="a", number=1, session="speck-a")

        def calls() -> Mapping[str, Callable[[], object]]:
            engine = FlinkEngine(address, Inventory())
            used.callback(engine.close)
            engine.savepoints.savepoint_patience = engine.savepoints.startup_patience = 0.0
            engine.savepoints.end_patience = 0.0
            handle = Handle(
                address, FLINK_JOB, {"job": "a", "savepoints": "file:/s", "checkpoints": "file:/c"}
            )
            failed = Handle(address, "f" * 32, {"job": "f"})
            state = State("flink-savepoint", "s3://states/s", address)
            return {
                **_common(engine, job, attempt, handle, state),
                "status of a failed one": lambda: engine.status(failed),
                "state_fault": lambda: engine.state_fault(state),
                "profile": lambda: engine.profile([handle]),
                "accumulators": lambda: engine.rest.accumulators(FLINK_JOB),
                "has_worked": lambda: engine.has_worked(handle),
                "kept_nothing": lambda: engine.kept_nothing(handle),
                "dispose_state": lambda: engine.dispose_state(state),
            }

        try_all(server, calls)


# -- Spark standalone


def standalone_answers(port: int) -> Answers:
    worker = {
        "id": "w",
        "state": "ALIVE",
        "webuiaddress": f"http://127.0.0.1:{port}",
        "cores": 4,
        "coresfree": 4,
        "memory": 4096,
        "memoryfree": 4096,
    }
    driver = {
        "id": "driver-20260101000000-0001",
        "state": "RUNNING",
        "worker": "w",
        "mainclass": "org.apache.spark.deploy.SparkSubmit",
    }
    created = {"success": True, "submissionId": driver["id"], "serverSparkVersion": pyspark.__version__}
    head = f"-Dspark.speck.attempt={FLINK_JOB} -Dspark.speck.job=a\n{'=' * 40}\nthe log\n"
    account = {"kind": "running", "message": "m", "at": 0.0, "starts": 1, "crashes": 0, "ran": True}

    def log(text: str) -> str:
        return f"==== Bytes 0-{len(text)} of {len(text)} of a ====\n{text}"

    return {
        "/v1/submissions/.*": created,
        "/json/": {
            "url": f"spark://127.0.0.1:{port}",
            "workers": [worker],
            "activedrivers": [driver],
            "completeddrivers": [{**driver, "id": "driver-20260101000000-0000", "state": "FAILED"}],
            "activeapps": [{"name": "speck b 1", "state": "WAITING"}],
        },
        "/log/.*logType=out.*": log(json.dumps(account)),
        "/log/.*": log(head),
    }


@pytest.mark.slow("hundreds of odd answers to each call")
@pytest.mark.skipif(not CONNECTOR.exists(), reason="the connector is not built (make jars)")
def test_spark_standalone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        *((job_drivers, "END_TIMEOUT"), (job_drivers, "_POLL")),
        *((driver_registry, "FIND_PATIENCE"), (driver_registry, "_POLL")),
    ):
        monkeypatch.setattr(module, name, 0.0)
    (tmp_path / "a.py").write_text("def a(messages): return messages\n")
    server = AnswerServer({})
    with serving(server) as port, ExitStack() as used:
        server.answers = standalone_answers(port)
        address = f"spark://127.0.0.1:{port}"
        known: dict[str, Any] = {
            "rest_port": port,
            "ui_port": port,
            "checkpoint_dir": str(tmp_path),
            "slots": 4,
        }
        inventory = Inventory({"A": one_site("A", address, BROKER, **known)})
        job = _job(address, str(tmp_path / "a.py"), "a", "spark")
        attempt = Attempt(id=FLINK_JOB, job_name="a", number=1, session="speck-a")

        def calls() -> Mapping[str, Callable[[], object]]:
            engine = StandaloneEngine(address, inventory)
            used.callback(engine.close)
            engine.start_timeout = 0.0
            engine.take_artifacts(ServedFiles(tmp_path, "http://127.0.0.1:1"))
            handle = Handle(address, FLINK_JOB, {"job": "a", "checkpoint": str(tmp_path / "c")})
            return _common(engine, job, attempt, handle, None)

        try_all(server, calls)


def test_a_standby_master_does_not_make_jobs_lost(tmp_path: Path) -> None:
    """It lists no driver: taken at its word, each job would be started once more."""
    server = AnswerServer({})
    with serving(server) as port:
        nothing = dict.fromkeys(("workers", "activedrivers", "completeddrivers", "activeapps"), ())
        address = f"spark://127.0.0.1:{port}"
        site = one_site("A", address, BROKER, None, rest_port=port, ui_port=port)
        engine = StandaloneEngine(address, Inventory({"A": site}))
        handle = Handle(address, FLINK_JOB, {"job": "a"})
        states = []
        for state in ("STANDBY", "COMPLETING_RECOVERY", "ALIVE"):
            server.answers = {"/json/": {**nothing, "status": state}}
            states.append(engine.status(handle))
        engine.close()
    assert [each.state for each in states] == [JobState.UNKNOWN, JobState.UNKNOWN, JobState.LOST]
    assert "does not lead: it is completing recovery (expected the address" in states[1].message


def _job(address: str, path: str, entry: str, engine: str) -> Job:
    return Job(
        job_name="a",
        spe_address=address,
        source_broker=BROKER,
        source_topic="in",
        sink_broker=BROKER,
        sink_topic="out",
        entry_class=entry,
        job_path=path,
        engine=engine,
    )


def _common(
    engine: FlinkEngine | StandaloneEngine, job: Job, attempt: Attempt, handle: Handle, state: State | None
) -> dict[str, Callable[[], object]]:
    binder: EngineBinder = engine
    return {
        "check": lambda: binder.check(job, state),
        "submit": lambda: binder.submit(job, attempt),
        "find": lambda: binder.find(attempt),
        "status": lambda: binder.status(handle),
        "running": engine.running,
        "metrics": lambda: binder.metrics(handle),
        "measure": lambda: engine.measure([handle]),
        "capacity": binder.capacity,
        "log_tail": lambda: engine.log_tail(handle, 10),
        "checkup": engine.checkup,
        "stop": lambda: binder.stop(handle, keep_state=True),
        "stop at once": lambda: binder.stop(handle, keep_state=False),
    }


# -- what is never asked, since no library would take it

NOWHERE = f"{'a' * 64}.example"  # no name server can be asked for a label of 64 letters

CONNECT: Mapping[str, Callable[[str, Inventory], EngineBinder]] = {
    "http": FlinkEngine,
    "https": FlinkEngine,
    "spark": StandaloneEngine,
    "sc": connect_engine,
}


@pytest.mark.parametrize("scheme", CONNECT)
def test_a_host_that_cannot_be_looked_for(scheme: str) -> None:
    engine = CONNECT[scheme](f"{scheme}://{NOWHERE}:1", Inventory())
    with pytest.raises(Unreachable, match=NOWHERE) as caught:
        engine.capacity()
    assert "\n" not in str(caught.value)
    engine.close()


@pytest.mark.parametrize("scheme", CONNECT)
@pytest.mark.parametrize("token", ["two\nlines", "tök€n"])
def test_a_token_that_no_header_can_carry(scheme: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", token)
    login = Login(token=Secret("${TOKEN}"))
    server = AnswerServer(flink_answers())
    with serving(server) as port:
        address = f"{scheme}://127.0.0.1:{port}"
        ports = {"rest_port": port, "ui_port": port} if scheme == "spark" else {}
        site = one_site("A", address, BROKER, None, engine_login=login, **ports)
        engine = CONNECT[scheme](address, Inventory({"A": site}))
        with pytest.raises(
            Unreachable, match=r"is not a bearer token \(expected one line of printable ASCII\)$"
        ) as caught:
            engine.checkup()
        engine.close()
    assert token not in str(caught.value)
    assert server.asked == set()
