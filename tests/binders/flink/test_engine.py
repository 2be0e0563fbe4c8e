"""The Flink binder against a real cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests

from binders.flink import FLINK
from binders.flink import engine as flink_engine
from binders.flink.engine import FlinkEngine, connect_engine
from binders.flink.local import cluster
from binders.flink.state.locations import local_path
from binders.flink.submission import job_config, launcher
from binders.mqtt import MQTT, MqttBroker
from binders.spark import connect_engine as connect_spark
from speck.binder import EngineBinder, Registry
from speck.core.inventory import Engine, Inventory, Login, Secret
from speck.core.job import Job
from speck.core.runtime import Handle, JobState, State
from speck.errors import NoCapacity, OutcomeUnknown, Rejected, Unreachable
from speck.store.artifacts import hash_of
from speck.testing import EngineContract, attempt_of, await_state, eventually
from speck.testing.engines import SharedJobs
from speck.testing.wire_trouble import Mischief, MischiefRelay, Trouble
from testbed import ROOT
from testbed.benches.agents import LinkBench, started_by_lone_agent
from testbed.benches.contents import CONTENTS, OTHERS, TEXTS
from testbed.benches.examples import job, one_site
from testbed.benches.flink import BROKER, FlinkBench
from testbed.benches.spark import MqttFriend
from testbed.servers.flink import SMALL, FlinkServer
from testbed.servers.https_proxy import HttpsProxy, https_proxy
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.nginx import nginx_before_flink
from testbed.servers.web_proxy import web_proxy
from tests.support.docs_blocks import only_block
from tests.support.skips import skip_without_flink
from tests.support.trials import trial

PROGRAMS = ROOT / "jars_and_apps" / "flink"
NOWHERE = {"execution.checkpointing.dir": "", "execution.checkpointing.savepoint-dir": ""}


@pytest.fixture(name="flink_server", scope="module")
def flink_server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    """A cluster of two processes, as sites have it."""
    skip_without_flink()
    with FlinkServer(tmp_path_factory.mktemp("flink")) as server:
        yield server


@pytest.fixture(name="flink_bench", scope="module")
def flink_bench_fixture(
    flink_server: FlinkServer, flink_jobs: Path, site_brokers: Mapping[str, MosquittoServer]
) -> Iterator[FlinkBench]:
    bench = FlinkBench(flink_server, flink_jobs, site_brokers["A"])
    yield bench
    bench.close()


@pytest.fixture(name="spare_server", scope="module")
def spare_server_fixture(
    flink_server: FlinkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlinkServer]:
    """A cluster that says much and has no place for state."""
    directory = tmp_path_factory.mktemp("spare-flink")
    with FlinkServer(directory, slots=4, conf=NOWHERE, talkative=True, small=True) as server:
        yield server


@pytest.fixture(name="doomed_server")
def doomed_server_fixture(tmp_path: Path) -> Iterator[FlinkServer]:
    """A cluster of one test that has no place for state, to be killed and started again."""
    skip_without_flink()
    with FlinkServer(tmp_path / "doomed-flink", slots=4, conf=NOWHERE, small=True) as server:
        yield server


class TestContract(EngineContract):
    """The contract that all engines keep."""

    @pytest.fixture
    def bench(self, flink_bench: FlinkBench) -> FlinkBench:
        return flink_bench


class LinkedFlinkBench(FlinkBench):
    """The bench, whose cluster is reached through an agent."""

    def __init__(self, server: FlinkServer, jar: Path, broker: MosquittoServer, directory: Path) -> None:
        super().__init__(server, jar, broker)
        engines = [Engine(spe_address=server.address)]
        self.link = LinkBench(directory, Registry.of([FLINK, MQTT]), engines, broker.address)
        self.link.await_contact()

    def binder(self, inventory: Inventory | None = None) -> Any:
        return self.link.engine(self.server.address)

    def dead_binder(self) -> Any:
        return self._served(super().dead_binder())

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        with super().troubled_binder(trouble) as engine:
            yield self._served(engine)

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        with super().slow_binder() as engine:
            yield self._served(engine)

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        with super().losing_binder(job) as engine:
            yield self._served(engine)

    def _served(self, engine: Any) -> EngineBinder:
        return self.link.serve(engine, engine.address)


@trial("tests/promises/test_autonomy.py")
class TestContractThroughAnAgent(EngineContract):
    """The same contract, by calls over an agent's connection."""

    @pytest.fixture(scope="class")
    @classmethod
    def linked(
        cls,
        flink_server: FlinkServer,
        flink_jobs: Path,
        site_brokers: Mapping[str, MosquittoServer],
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Iterator[LinkedFlinkBench]:
        bench = LinkedFlinkBench(flink_server, flink_jobs, site_brokers["A"], tmp_path_factory.mktemp("link"))
        yield bench
        bench.close()
        bench.link.close()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, linked: LinkedFlinkBench) -> Iterator[SharedJobs]:
        with ExitStack() as ends:  # before the link is closed
            yield SharedJobs(ends)

    @pytest.fixture
    def bench(self, linked: LinkedFlinkBench) -> LinkedFlinkBench:
        return linked


def start(bench: FlinkBench, job: Job, state: State | None = None, number: int = 1) -> Handle:
    engine = bench.binder()
    handle = engine.submit(job, attempt_of(job, number, state))
    await_state(engine, handle, JobState.RUNNING)
    return handle


def site(bench: FlinkBench, login: Login | None = None, **engine: object) -> Inventory:
    return Inventory({"A": one_site("A", bench.server.address, BROKER, login, **engine)})


def counts(out: Path) -> dict[str, list[int]]:
    """The content of a job's file: the counts of each key, in order."""
    found = defaultdict(list)
    for line in out.read_text().splitlines() if out.exists() else ():
        key, count = line.split()
        found[key].append(int(count))
    return dict(found)


def has_counted(out: Path, most: int) -> None:
    eventually(lambda: counts(out), lambda found: len(found) == 3 and max(found["0"]) >= most)


# -- contents


def test_contents_pass_unchanged(flink_bench: FlinkBench, job_name: str) -> None:
    assert flink_bench.broker is not None
    job, engine = flink_bench.passing_job(job_name), flink_bench.binder()
    friend = MqttFriend(flink_bench.broker.port)
    handle = engine.submit(job, attempt_of(job))
    friend.send(job.source_topic, CONTENTS)
    got = eventually(lambda: friend.got_bytes(job), lambda got: len(got) == len(CONTENTS))
    assert got == list(CONTENTS)
    engine.stop(handle, keep_state=False)
    friend.close()


@pytest.mark.parametrize("on_error", ["fail", "skip", "park"])
def test_contents_that_are_no_text(flink_bench: FlinkBench, job_name: str, on_error: str) -> None:
    assert flink_bench.broker is not None
    job, engine = flink_bench.passing_job(job_name), flink_bench.binder()
    park = f"out/parked/{job_name}" if on_error == "park" else None
    job = replace(job, arguments={"site": "A"}, on_error=on_error, park_topic=park)
    friend = MqttFriend(flink_bench.broker.port)
    handle = engine.submit(job, attempt_of(job))
    friend.send(job.source_topic, CONTENTS)
    if on_error == "fail":
        status = eventually(lambda: engine.status(handle), lambda found: "InvalidText" in found.message)
        assert f"on message 2 of topic '{job.source_topic}': " in status.message
        assert "byte 0xFF at position 1 of 2 is not UTF-8" in status.message
    else:
        expected = len(TEXTS) if park is None else len(CONTENTS)
        eventually(lambda: friend.received, lambda found: len(found) == expected)
        assert friend.got_bytes(job) == [text + b",A" for text in TEXTS]
        assert park is None or friend.got_bytes(replace(job, sink_topic=park)) == list(OTHERS)
        key = {"skip": "skipped", "park": "parked"}[on_error]
        metrics = eventually(lambda: engine.metrics(handle), lambda found: bool(found.details.get(key)))
        assert metrics.details[key] == len(OTHERS)
    engine.stop(handle, keep_state=False)
    friend.close()


# -- state


HEAP: dict[str, str] = {}
ROCKSDB = {"state.backend.type": "rocksdb", "state.backend.rocksdb.memory.managed": "false"}


@pytest.mark.parametrize("backend", [HEAP, ROCKSDB], ids=["heap", "rocksdb"])
def test_state_is_carried_over(
    flink_bench: FlinkBench,
    job_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend: dict[str, str],
) -> None:
    monkeypatch.setattr(job_config, "SETTINGS", {**job_config.SETTINGS, **backend})
    out = tmp_path / "out"
    job, engine = flink_bench.job(job_name, rate=300, out=str(out)), flink_bench.binder()
    state = None
    for number in range(1, 3):
        handle = start(flink_bench, job, state, number)
        has_counted(out, 50 * number)
        state = engine.stop(handle, keep_state=True)
        assert state is not None
        assert f"/{job_name}/{handle.engine_id}/savepoint-" in state.location
    for found in counts(out).values():
        assert found == list(range(1, len(found) + 1))  # nothing lost, nothing counted twice


def test_a_state_is_deleted_once_and_for_all(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    handle = start(flink_bench, flink_bench.job(job_name))
    state = engine.stop(handle, keep_state=True)
    assert state is not None
    assert not engine.kept_nothing(handle)
    place = local_path(state.location)
    assert place is not None
    assert place.is_dir()
    engine.dispose_state(state)
    assert not place.parent.parent.exists()  # nor the folders of its attempt and its job
    engine.dispose_state(state)


def test_a_failed_job_has_its_last_checkpoint_from_which_an_agent_starts_it(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = flink_bench.job(job_name, rate=200, out=str(out), **{"fail-at": 500})
    engine, attempt = flink_bench.binder(), attempt_of(job)
    handle = engine.submit(job, attempt)
    status = await_state(engine, handle, JobState.FAILED)
    assert re.fullmatch(r"IllegalStateException: no such street \(Counting\.java, line \d+\)", status.message)
    state = engine.stop(handle, keep_state=True)
    assert state is not None
    assert f"{handle.engine_id}/chk-" in state.location
    assert engine.stop(handle, keep_state=True) == state
    before = len(counts(out)["0"])
    mended = flink_bench.job(job_name, rate=200, out=str(out))
    durable = started_by_lone_agent(engine, mended, attempt, handle, tmp_path)
    first_after = eventually(lambda: counts(out)["0"][before:], bool)[0]
    assert 1 < first_after <= 170
    record = durable.attempts.get(attempt.id)
    assert record is not None
    assert record.state == state
    (copy,) = [each for each in durable.running() if each.job_name == job_name]
    assert (copy.attempt, copy.number, copy.engine_id) == (attempt.id, attempt.number, handle.engine_id)
    durable.stop(handle, keep_state=False)
    assert flink_bench.running(job_name) == 0


def test_a_job_that_others_canceled(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    handle = start(flink_bench, job)
    eventually(lambda: engine.metrics(handle).batch_id, bool)
    flink_bench.rest.cancel(handle.engine_id)
    assert await_state(engine, handle, JobState.STOPPED).message == "canceled"
    state = engine.stop(handle, keep_state=True)
    assert state is not None
    assert "/chk-" in state.location


def test_a_deleted_job_leaves_no_checkpoint(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    handle = start(flink_bench, job)
    eventually(lambda: engine.metrics(handle).batch_id, bool)
    folder = flink_bench.server.cluster.checkpoints / handle.engine_id
    assert list(folder.glob("chk-*"))
    engine.stop(handle, keep_state=False)
    eventually(lambda: list(folder.glob("chk-*")), lambda found: found == [])


def test_a_deleted_job_that_has_ended_before_leaves_no_checkpoint(
    flink_bench: FlinkBench, job_name: str
) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    handle = start(flink_bench, job)
    eventually(lambda: engine.metrics(handle).batch_id, bool)
    folder = flink_bench.server.cluster.checkpoints / handle.engine_id
    engine.rest.cancel(handle.engine_id)
    await_state(engine, handle, JobState.STOPPED)
    assert list(folder.glob("chk-*"))
    assert engine.stop(handle, keep_state=False) is None
    eventually(lambda: list(folder.glob("chk-*")), lambda found: found == [])


def test_a_job_that_cannot_keep_its_state(flink_bench: FlinkBench, job_name: str) -> None:
    job = flink_bench.job(job_name, **{"fail-snapshot": True})
    engine = flink_bench.binder()
    handle = engine.submit(job, attempt_of(job))
    status = eventually(lambda: engine.status(handle), lambda status: "cannot be kept" in status.message)
    assert status.state in (JobState.STARTING, JobState.FAILED)
    assert engine.stop(handle, keep_state=True) is None
    assert engine.status(handle).state in (JobState.STOPPED, JobState.FAILED)


def test_a_savepoint_that_cannot_be_written(flink_bench: FlinkBench, job_name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    engine = flink_bench.binder(site(flink_bench, savepoint_dir=f"{tmp_path}/file/savepoints"))
    job = flink_bench.job(job_name)
    handle = engine.submit(job, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    eventually(lambda: engine.metrics(handle).batch_id, bool)
    with pytest.raises(
        Rejected, match=rf"job '{job_name}' keeps running at .*: its savepoint failed: .*file"
    ) as caught:
        engine.stop(handle, keep_state=True)
    assert "\n" not in str(caught.value)
    await_state(engine, handle, JobState.RUNNING)
    assert flink_bench.running(job_name) == 1
    engine.stop(handle, keep_state=False)


def test_a_job_that_never_came_up(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    engine.savepoints.startup_patience = 0.5
    job = replace(flink_bench.job(job_name), parallelism=100)
    with pytest.raises(
        NoCapacity, match=rf"no room for job '{job_name}', which takes 100: 32 slots, \d+ free"
    ):
        engine.check(job, None)
    handle = engine.submit(job, attempt_of(job))
    status = engine.status(handle)
    assert status.state is JobState.STARTING
    assert "scheduled" in status.message
    assert engine.stop(handle, keep_state=True) is None
    assert engine.status(handle).state is JobState.STOPPED


def test_a_job_that_comes_to_its_end(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name, count=10), flink_bench.binder()
    attempt = attempt_of(job)
    handle = engine.submit(job, attempt)
    await_state(engine, handle, JobState.FINISHED)
    assert engine.find(attempt) == handle
    assert engine.submit(job, attempt) == handle
    assert engine.stop(handle, keep_state=True) is None


def test_the_checkpoint_directory_of_the_site(flink_bench: FlinkBench, job_name: str, tmp_path: Path) -> None:
    inventory = site(
        flink_bench, checkpoint_dir=f"{tmp_path}/checkpoints/", savepoint_dir=(tmp_path / "save").as_uri()
    )
    engine, job = flink_bench.binder(inventory), flink_bench.job(job_name)
    handle = engine.submit(job, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    eventually(lambda: list((tmp_path / "checkpoints" / handle.engine_id).glob("chk-*")), bool)
    announced = engine.state_of(handle)
    state = engine.stop(handle, keep_state=True)
    assert state is not None
    assert announced is not None
    assert local_path(state.location).parent == local_path(announced.location)  # type: ignore[union-attr]
    assert engine.state_fault(replace(announced, address="http://10.0.0.1:8081")) is None
    elsewhere = State(state.kind, "s3://states/a", "http://10.0.0.1:8081")
    assert "may not see s3://states/a" in (engine.state_fault(elsewhere) or "")
    assert state.location.startswith(f"file:{tmp_path}/save/{job_name}/{handle.engine_id}/")


# -- jars


def uploaded(bench: FlinkBench) -> list[str]:
    return sorted(bench.rest.jars().values())


def own_jar(bench: FlinkBench, directory: Path) -> tuple[Path, str]:
    """A jar with a content of its own, and its name at the cluster."""
    path = directory / "own.jar"
    shutil.copyfile(bench.jar, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("note.txt", uuid.uuid4().hex)
    return path, f"{hash_of(path)}.jar"


def test_many_jobs_share_one_jar(flink_bench: FlinkBench, job_name: str, tmp_path: Path) -> None:
    path, jar = own_jar(flink_bench, tmp_path)
    code = hash_of(path)
    jobs = [
        replace(flink_bench.job(f"{job_name}-{number}", rate=10), job_path=str(path), code_hash=code)
        for number in range(9)
    ]
    engines = [flink_bench.binder() for _ in range(3)]
    with ThreadPoolExecutor(FLINK.bound) as pool:
        list(pool.map(lambda pair: pair[0].check(pair[1], None), zip(engines * 3, jobs, strict=True)))
        handles = list(
            pool.map(lambda job: engines[hash(job.job_name) % 3].submit(job, attempt_of(job)), jobs)
        )
        assert uploaded(flink_bench).count(jar) == 1
        for handle in handles:
            await_state(engines[0], handle, JobState.RUNNING)
        states = engines[0].statuses(handles)
        assert {status.state for status in states.values()} == {JobState.RUNNING}
        list(pool.map(lambda handle: engines[0].stop(handle, keep_state=False), handles[1:]))
        assert uploaded(flink_bench).count(jar) == 1
        engines[1].stop(handles[0], keep_state=False)
    assert jar not in uploaded(flink_bench)


def test_a_jar_is_dropped_though_answers_are_lost(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    path, jar = own_jar(flink_bench, tmp_path)
    lost = iter([Mischief.LOSE_REQUEST, Mischief.LOSE_ANSWER])

    def choose(piece: bytes) -> Mischief | None:
        return next(lost, None) if piece.startswith(b"DELETE /jars/") else None

    with MischiefRelay(flink_bench.server.ports[0], choose) as relay:
        job = replace(flink_bench.job(job_name), job_path=str(path))
        engine = connect_engine(f"http://127.0.0.1:{relay.port}", flink_bench.inventory)
        handle = engine.submit(job, attempt_of(job))
        engine.stop(handle, keep_state=False)
        engine.close()
        assert relay.done[Mischief.LOSE_ANSWER] == 1
    assert jar not in uploaded(flink_bench)


def test_a_restarted_coordinator_drops_the_jar(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    path, jar = own_jar(flink_bench, tmp_path)
    first = replace(flink_bench.job(f"{job_name}-1"), job_path=str(path))
    second = replace(flink_bench.job(f"{job_name}-2"), job_path=str(path))
    handles = [start(flink_bench, job) for job in (first, second)]
    # Another address of the same cluster: nothing that the first binder remembers.
    stranger = connect_engine(flink_bench.server.address.replace("127.0.0.1", "localhost"), Inventory())
    stranger.stop(handles[0], keep_state=True)
    assert jar in uploaded(flink_bench)
    stranger.stop(handles[1], keep_state=True)
    assert jar not in uploaded(flink_bench)
    stranger.close()


def test_a_jar_stays_from_the_check_to_the_start(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    path, jar = own_jar(flink_bench, tmp_path)
    job, engine = replace(flink_bench.job(job_name), job_path=str(path)), flink_bench.binder()
    engine.check(job, None)
    (first,) = [found for found, name in flink_bench.rest.jars().items() if name == jar]
    handle = engine.submit(job, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    engine.check(job, None)  # an update is coming
    engine.stop(handle, keep_state=False)
    second = engine.submit(job, attempt_of(job, 2))
    assert first in flink_bench.rest.jars()  # not uploaded again
    engine.stop(second, keep_state=False)
    assert jar not in uploaded(flink_bench)


def test_a_jar_that_was_deleted_in_between_is_uploaded_again(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    path, jar = own_jar(flink_bench, tmp_path)
    job, engine = replace(flink_bench.job(job_name), job_path=str(path)), flink_bench.binder()
    engine.check(job, None)
    (found,) = [found for found, name in flink_bench.rest.jars().items() if name == jar]
    flink_bench.rest.delete_jar(found)
    engine.stop(engine.submit(job, attempt_of(job)), keep_state=False)


def test_a_jar_that_is_deleted_while_its_main_method_runs_is_uploaded_again(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    """As another coordinator does that drops it just then: Flink takes the jar when the job is submitted."""
    path, jar = own_jar(flink_bench, tmp_path)
    job = flink_bench.job(job_name, "streets.Counting$Slow", waits=str(tmp_path))
    engine = flink_bench.binder()
    with ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(engine.submit, replace(job, job_path=str(path)), attempt_of(job))
        try:
            eventually((tmp_path / "begun").exists, bool)
            (found,) = [found for found, name in flink_bench.rest.jars().items() if name == jar]
            flink_bench.rest.delete_jar(found)
        finally:
            (tmp_path / "go").touch()
        handle = submitted.result(120)
    await_state(engine, handle, JobState.RUNNING)
    engine.stop(handle, keep_state=False)
    assert jar not in uploaded(flink_bench)


def test_jars_of_others_are_left_alone(flink_bench: FlinkBench, job_name: str) -> None:
    other = flink_bench.rest.upload(flink_bench.jar, "theirs.jar")
    engine, job = flink_bench.binder(), flink_bench.job(job_name)
    engine.stop(engine.submit(job, attempt_of(job)), keep_state=False)
    assert other in flink_bench.rest.jars()
    flink_bench.rest.delete_jar(other)


def test_a_refused_job_leaves_no_jar(flink_bench: FlinkBench, job_name: str, tmp_path: Path) -> None:
    path, jar = own_jar(flink_bench, tmp_path)
    # A code of its own as well: that of other tests may still be reserved for a job that they asked about.
    (tmp_path / "sound").mkdir()
    other, _ = own_jar(flink_bench, tmp_path / "sound")
    job = replace(flink_bench.job(job_name, "fails_at_build"), job_path=str(path))
    engine = flink_bench.binder()
    with pytest.raises(Rejected):
        engine.submit(job, attempt_of(job))
    sound = replace(flink_bench.job(job_name), job_path=str(other))
    engine.stop(engine.submit(sound, attempt_of(sound)), keep_state=False)
    assert jar not in uploaded(flink_bench)


# -- submit


def test_a_main_method_that_takes_longer_than_patience(flink_bench: FlinkBench, job_name: str) -> None:
    job = flink_bench.job(job_name, "streets.Counting$Slow", seconds=3)
    engine = flink_bench.binder()
    attempt = attempt_of(job)
    engine.rest.slow = 0.5
    with pytest.raises(OutcomeUnknown, match=r"did not answer in 0\.5 s"):
        engine.submit(job, attempt)
    with pytest.raises(OutcomeUnknown, match="may still start it"):
        flink_bench.binder().find(attempt)

    def find() -> Handle | None:
        with suppress(OutcomeUnknown):
            return engine.find(attempt)
        return None

    handle = eventually(find, lambda found: found is not None)
    assert handle is not None
    await_state(engine, handle, JobState.RUNNING)
    assert flink_bench.running(job_name) == 1
    engine.stop(handle, keep_state=False)
    assert engine.find(attempt) is None


def test_a_main_method_that_fails_after_the_start(flink_bench: FlinkBench, job_name: str) -> None:
    job = flink_bench.job(job_name, "streets.Counting$FailsAfterTheStart")
    with pytest.raises(Rejected, match="no such street"):
        flink_bench.binder().submit(job, attempt_of(job))
    assert flink_bench.running(job_name) == 0


def test_a_job_that_runs_is_not_ended_by_a_second_try(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    attempt = attempt_of(job)
    handle = engine.submit(job, attempt)
    await_state(engine, handle, JobState.RUNNING)
    assert engine.submit(flink_bench.job(job_name, "fails_at_build"), attempt) == handle
    assert engine.status(handle).state is JobState.RUNNING
    engine.stop(handle, keep_state=False)


def test_parallelism(flink_bench: FlinkBench, job_name: str) -> None:
    job = replace(flink_bench.job(job_name), parallelism=3)
    handle = start(flink_bench, job)
    details = flink_bench.rest.job_details(handle.engine_id)
    assert details is not None
    assert {vertex["parallelism"] for vertex in details["vertices"]} == {3}
    flink_bench.binder().stop(handle, keep_state=False)


@pytest.mark.skipif(not (PROGRAMS / "speck-flink-jobs-all.jar").exists(), reason="needs make jars")
@pytest.mark.engine
def test_a_cluster_without_the_connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECTOR", tmp_path / "none.jar")
    with FlinkServer(tmp_path, slots=2, small=True) as server:
        bench = FlinkBench(server, PROGRAMS / "speck-flink-jobs.jar")
        job = replace(bench.job("thin"), entry_class="io.speck.flink.jobs.Forward", arguments={})
        with pytest.raises(Rejected, match=r"put .*flink-mqtt\.jar, into"):
            bench.binder().submit(job, attempt_of(job))
        complete = replace(job, job_path=str(PROGRAMS / "speck-flink-jobs-all.jar"))
        handle = bench.binder().submit(complete, attempt_of(complete))
        assert bench.running("thin") == 1
        bench.binder().stop(handle, keep_state=False)
        bench.close()


@pytest.mark.skipif(SMALL, reason="a cluster of one process has no TaskManager that is killed alone")
def test_a_main_method_ends_with_its_job_manager(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    job = flink_bench.job(job_name, "streets.Counting$Slow", seconds=60)
    attempt = attempt_of(job)
    engine.rest.slow = 0.5
    with pytest.raises(OutcomeUnknown):
        engine.submit(job, attempt)
    with pytest.raises(OutcomeUnknown, match="may still start it"):
        engine.find(attempt)
    flink_bench.server.kill_task_manager()  # this is the same JobManager
    with pytest.raises(OutcomeUnknown, match="may still start it"):
        engine.find(attempt)
    flink_bench.server.kill_job_manager()
    assert engine.find(attempt) is None


def test_a_missing_savepoint_is_named(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    state = State("flink-savepoint", "file:/nowhere/to/be/found")
    with pytest.raises(Rejected, match=r"FileNotFoundException: .*'file:/nowhere/to/be/found'"):
        engine.submit(job, attempt_of(job, 1, state))
    assert flink_bench.running(job_name) == 0


def test_check_reads_the_jar(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    with pytest.raises(Rejected, match=r"streets\.jar' has no class 'streets\.Nowhere' \(it has"):
        engine.check(flink_bench.job(job_name, "missing"), None)
    with pytest.raises(Rejected, match="cannot be read as a jar"):
        engine.check(flink_bench.job(job_name, "corrupt"), None)


def test_room_is_promised_once(flink_bench: FlinkBench, job_name: str) -> None:
    jobs = [flink_bench.job(f"{job_name}-{number}") for number in range(6)]

    def check(job: Job) -> bool:
        try:
            flink_bench.binder().check(job, None)
        except NoCapacity:
            return False
        return True

    with flink_bench.room_for_one() as engine, ThreadPoolExecutor(len(jobs)) as pool:
        passed = [job for job, fits in zip(jobs, pool.map(check, jobs), strict=True) if fits]
        assert len(passed) == 1
        engine.stop(engine.submit(passed[0], attempt_of(passed[0])), keep_state=False)
        assert check(jobs[-1])


# -- secrets, and who may come in


def test_logins_are_settings_that_flink_does_not_show(
    spare_server: FlinkServer,
    flink_jobs: Path,
    job_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2-the-secret")
    login = Login(username="speck", password=Secret("${BROKER_PASSWORD}"), ca_file="/etc/ssl/ca.pem")
    bench = FlinkBench(spare_server, flink_jobs)
    engine = bench.binder(site(bench, login, savepoint_dir=str(tmp_path / "savepoints")))
    given = tmp_path / "given"
    job = bench.job(job_name, "streets.Counting$Slow", given=str(given), rate=20.5, flag=True)
    attempt = attempt_of(job, 7)
    handle = engine.submit(job, attempt)
    await_state(engine, handle, JobState.RUNNING)
    lines = given.read_text().splitlines()
    count = next(number for number, line in enumerate(lines) if "=" in line)
    arguments = dict(zip(lines[:count:2], lines[1:count:2], strict=True))
    assert arguments == {
        "--job-name": job_name,
        "--source-broker": BROKER,
        "--source-topic": f"in/{job_name}",
        "--sink-broker": BROKER,
        "--sink-topic": f"out/{job_name}",
        "--session": f"speck-{job_name}",
        "--attempt": "7",
        "--fence-topic": f"speck/fence/speck-{job_name}",
        "--given": str(given),
        "--rate": "20.5",
        "--flag": "true",
    }
    for side in ("source", "sink"):
        for name, value in (
            ("username", "speck"),
            ("password", login_value()),
            ("ca-file", "/etc/ssl/ca.pem"),
        ):
            assert f"speck.{side}.{name}={value}" in lines
    shown = [engine.status(handle), handle, engine.metrics(handle)]
    engine.stop(handle, keep_state=True)
    pages = [
        "",
        "/config",
        "/plan",
        "/checkpoints",
        "/exceptions",
        "/jobmanager/config",
        "/jobmanager/environment",
    ]
    texts = [
        requests.get(f"{bench.server.address}jobs/{handle.engine_id}{page}", timeout=30).text
        for page in pages
    ]
    texts += [
        requests.get(f"{bench.server.address}{page}", timeout=30).text for page in ("jobs/overview", "jars")
    ]
    texts += [requests.get(f"{bench.server.address}applications/{handle.engine_id}", timeout=30).text]
    for text in (*texts, spare_server.log, *map(repr, shown)):
        assert "hunter2" not in text
    assert "debug" in spare_server.log.lower()
    bench.close()


def login_value() -> str:
    return os.environ["BROKER_PASSWORD"]


def padded(job: Job, path: Path) -> Job:
    """The job, with a jar of 3 MB."""
    shutil.copyfile(job.job_path, path)
    with zipfile.ZipFile(path, "a") as jar:
        jar.writestr("padding", os.urandom(3 << 20))
    return replace(job, job_path=str(path))


@pytest.mark.parametrize(
    "before", [https_proxy, partial(nginx_before_flink, only_block("flink.md", "nginx"))]
)
def test_tls_and_a_password(
    flink_bench: FlinkBench,
    job_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Path, str, str, str], AbstractContextManager[HttpsProxy]],
) -> None:
    monkeypatch.setenv("FLINK_PASSWORD", "open-sesame")
    secret = Secret("${FLINK_PASSWORD}")
    with before(tmp_path, flink_bench.server.address, "speck", "open-sesame") as proxy:

        def engine(login: Login) -> FlinkEngine:
            one = one_site("A", proxy.address, BROKER, engine_login=login)
            return connect_engine(proxy.address, Inventory({"A": one}))

        trusted = str(proxy.certificate)
        good = engine(Login(username="speck", password=secret, ca_file=trusted))
        job = padded(flink_bench.job(job_name), tmp_path / "large.jar")
        good.check(job, None)
        handle = good.submit(job, attempt_of(job))
        await_state(good, handle, JobState.RUNNING)
        assert good.stop(handle, keep_state=True) is not None
        assert "open-sesame" not in repr((good, handle))
        good.close()

        monkeypatch.setenv("FLINK_PASSWORD", "wrong-sesame")
        for login, error, words in (
            (
                Login(username="speck", password=secret, ca_file=trusted),
                Rejected,
                "rejects the login.*401",
            ),
            (Login(ca_file=trusted), Rejected, "engine_login"),
            (Login(username="speck", password=secret), Unreachable, "(?i)certificate"),
        ):
            bad = engine(login)
            with pytest.raises(error, match=words) as caught:
                bad.check(job, None)
            assert "sesame" not in str(caught.value)
            assert bad.status(handle).state is JobState.UNKNOWN
            bad.close()


def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    address = "https://127.0.0.1:1"
    one = one_site("A", address, BROKER, engine_login=Login(ca_file=str(tmp_path / "none.pem")))
    with pytest.raises(Rejected, match=r"ca_file .*none\.pem"):
        connect_engine(address, Inventory({"A": one})).capacity()


@pytest.mark.parametrize(
    "address",
    ["http://", "flink://host:8081", "http://host:port", "http://host:8081/?a=b", "http://host:99999"],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(Rejected, match="expected http://HOST:PORT"):
        connect_engine(address, Inventory())


def test_another_service_at_the_address(flink_bench: FlinkBench, job_name: str) -> None:
    """Another service at one of the cluster's ports is reported in one line, with advice."""
    rest, rpc, *_ = flink_bench.server.ports
    engine = connect_engine(f"http://127.0.0.1:{rpc}", Inventory())
    with pytest.raises(OutcomeUnknown, match="is it a JobManager's REST address"):
        engine.check(flink_bench.job(job_name), None)
    engine.close()
    connect = connect_spark(f"sc://127.0.0.1:{rest}", Inventory())
    with pytest.raises(Unreachable, match="expected a Spark Connect server's port"):
        connect.capacity()
    connect.close()
    with pytest.raises(OutcomeUnknown, match="is it a broker, and does it speak MQTT 5 without TLS"):
        MqttBroker(f"tcp://127.0.0.1:{rest}", Inventory(), timeout=1).check()


def test_an_address_with_a_login_in_it_is_not_repeated() -> None:
    with pytest.raises(Rejected, match="engine_login") as caught:
        connect_engine("http://speck:open-sesame@host:8081", Inventory())
    assert "sesame" not in str(caught.value)


# -- what is shown


def test_metrics(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name, rate=50), flink_bench.binder()
    handle = start(flink_bench, job)
    metrics = eventually(
        lambda: engine.metrics(handle),
        lambda found: found.input_rate is not None and (found.input_rows or 0) > 100,
    )
    assert metrics.input_rate == pytest.approx(50, rel=0.4)
    assert metrics.batch_duration_ms is not None
    assert 0 < metrics.batch_duration_ms < 60_000
    busy = metrics.details["busy"]
    assert isinstance(busy, float)
    assert 0 <= busy <= 1
    assert metrics.processing_rate is None or metrics.processing_rate >= metrics.input_rate
    assert metrics.details["state_bytes"]
    assert metrics.details["failed_checkpoints"] in (0, 1)  # one may come before all tasks run
    engine.stop(handle, keep_state=False)


def test_capacity(flink_bench: FlinkBench) -> None:
    capacity = flink_bench.binder().capacity()
    assert capacity.slots == 32
    assert capacity.cores == os.cpu_count()
    assert capacity.memory is not None
    assert 400 << 20 < capacity.memory < 2 << 30


@contextmanager
def answering(answers: Mapping[str, tuple[int, bytes]], other: tuple[int, bytes]) -> Iterator[str]:
    """The address of a service that gives these answers (status, JSON) by the ends of paths."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = next((each for end, each in answers.items() if self.path.endswith(end)), other)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_version_that_is_too_old(job_name: str) -> None:
    old = (200, b'{"flink-version":"1.17.2","slots-total":1,"slots-available":1}')
    with answering({}, old) as address:
        engine = connect_engine(address, Inventory())
        with pytest.raises(Rejected, match=r"is Flink 1\.17\.2 \(expected Flink 2, or 1\.20\)"):
            engine.check(job(job_name), None)
        engine.close()


def test_a_job_that_begins_is_asked_for_again(job_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What Flink 2.3 answers for a moment, when the job's main method has only just returned.
    error = (
        "org.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException: Unable to get "
        "JobMasterGateway for initializing job. The requested operation is not available while the "
        "JobManager is initializing."
    )
    begins = (500, json.dumps({"errors": [error]}).encode())
    answers = {"/status": (200, b'{"status":"INITIALIZING"}'), "/checkpoints": begins}
    monkeypatch.setattr(launcher, "FIND_PATIENCE", 0.5)
    with answering(answers, (200, b"[]")) as address:
        engine = connect_engine(address, Inventory())
        with pytest.raises(OutcomeUnknown, match=r"JobManager is initializing.*\(try again\)"):
            engine.find(attempt_of(job(job_name)))
        engine.close()


FIND = """
import sys
from binders.flink import connect_engine
from speck.core.inventory import Inventory
from speck.core.runtime import Attempt
address, attempt_id, name = sys.argv[1:]
engine = connect_engine(address, Inventory())
handle = engine.find(Attempt(id=attempt_id, job_name=name, number=1, session=f"speck-{name}"))
print(handle.engine_id, engine.status(handle).state.value)
"""


def test_another_process_finds_it_and_leaves_it(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    handle = start(flink_bench, job)
    arguments = [sys.executable, "-c", FIND, engine.address, handle.engine_id, job_name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.split() == [handle.engine_id, "running"]
    assert engine.status(handle).state is JobState.RUNNING
    engine.stop(handle, keep_state=False)


# -- clusters that have no place for state; one is killed


def test_no_place_for_savepoints(spare_server: FlinkServer, flink_jobs: Path, job_name: str) -> None:
    bench = FlinkBench(spare_server, flink_jobs)
    engine, job = bench.binder(), bench.job(job_name)
    with pytest.raises(Rejected, match=r"no savepoint directory .expected savepoint_dir"):
        engine.check(job, None)
    # What is acknowledged is in the last checkpoint, which must outlive the JobManager.
    halfway = bench.binder(site(bench, savepoint_dir="/savepoints"))
    with pytest.raises(Rejected, match=r"no checkpoint directory .expected checkpoint_dir"):
        halfway.check(job, None)
    stateless = replace(job, upgrade="stateless")
    engine.check(stateless, None)
    handle = engine.submit(stateless, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    eventually(lambda: engine.metrics(handle).batch_id, bool)
    assert engine.stop(handle, keep_state=True) is None
    assert bench.running(job_name) == 0
    bench.close()


def test_a_killed_cluster_and_counts_that_go_on(
    doomed_server: FlinkServer,
    flink_jobs: Path,
    job_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes back without the jars that were uploaded, and with the places for state that it lacked."""
    out = tmp_path / "out"
    bench = FlinkBench(doomed_server, flink_jobs)
    places = {"checkpoint_dir": str(tmp_path / "checkpoints"), "savepoint_dir": str(tmp_path / "savepoints")}
    engine = bench.binder(site(bench, **places))
    job = bench.job(job_name, rate=200, out=str(out))
    attempt = attempt_of(job)
    handle, stopped = (
        engine.submit(job, attempt),
        engine.submit(bench.job("other"), attempt_of(bench.job("other"))),
    )
    has_counted(out, 100)
    await_state(engine, stopped, JobState.RUNNING)
    retained = engine.stop(stopped, keep_state=True)
    placeless = bench.binder()
    with pytest.raises(Rejected, match="no savepoint directory"):
        placeless.check(job, None)
    doomed_server.kill()
    assert engine.status(handle).state is JobState.UNKNOWN
    shutil.rmtree(doomed_server.directory / "uploads")
    settings = {name: value for name, value in (doomed_server.cluster.extra or {}).items() if value}
    doomed_server.cluster = replace(doomed_server.cluster, extra=settings)
    doomed_server.start()
    monkeypatch.setattr(flink_engine, "SETTINGS_FRESH", 0.0)
    placeless.check(replace(job, job_name="placed"), None)
    assert engine.status(handle).state is JobState.LOST
    found = engine.find(attempt)  # by its checkpoints, which the next attempt begins from
    assert found is not None
    assert found.engine_id == handle.engine_id
    assert bench.binder(site(bench, **places)).stop(stopped, keep_state=True) == retained
    state = engine.stop(handle, keep_state=True)
    assert state is not None
    assert "/chk-" in state.location
    engine.check(job, state)
    before = len(counts(out)["0"])
    second = engine.submit(job, attempt_of(job, 2, state))
    first_after = eventually(lambda: counts(out)["0"][before:], bool)[0]
    assert 1 < first_after <= before + 1
    assert engine.stop(second, keep_state=True) is not None
    bench.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_proxy_of_the_environment_is_used(
    flink_bench: FlinkBench, job_name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_proxy() as proxy:
        proxy.install(monkeypatch)
        engine = flink_bench.at(flink_bench.server.address.replace("127.0.0.1", host))
        job = flink_bench.job(job_name)
        engine.check(job, None)
        handle = engine.submit(job, attempt_of(job))
        await_state(engine, handle, JobState.RUNNING)
        engine.stop(handle, keep_state=False)
        assert proxy.seen == []


def test_a_cluster_that_is_set_to_accept_no_jobs(
    flink_bench: FlinkBench, job_name: str, tmp_path: Path
) -> None:
    closed = {
        "web.submit.enable": "false",
        "web.cancel.enable": "false",
        "rest.server.max-content-length": "100000",
    }
    with FlinkServer(tmp_path, slots=4, conf=closed, small=True) as server:
        engine = flink_bench.at(server.address)
        job = flink_bench.job(job_name)
        words = r"accepts no jobs over REST: web\.submit\.enable is false \(expected true"
        for call in (engine.check_acceptance, lambda: engine.check(job, None)):
            with pytest.raises(Rejected, match=words):
                call()
        for call in (lambda: engine.build_job(job), lambda: engine.submit(job, attempt_of(job))):
            with pytest.raises(Rejected, match=r"accepts no jobs over REST: web\.submit\.enable is false"):
                call()
        assert [each.message for each in engine.checkup().complaints] == [
            "web.submit.enable is false: it accepts no jobs over REST"
        ]
        assert engine.capacity().slots == 4
        with pytest.raises(Rejected, match=r"HTTP 413; expected .* rest\.server\.max-content-length"):
            engine.rest.dispose("file:/" + "x" * 200_000)
