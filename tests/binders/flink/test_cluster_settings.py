"""Clusters with other settings: no place for state, no jobs over REST, no connector, a verbose log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from binders.flink import engine as flink_engine
from binders.flink.local import cluster
from speck.core.inventory import Login, Secret
from speck.core.runtime import JobState
from speck.errors import Rejected
from speck.testing import attempt_of, await_state, eventually
from testbed import ROOT
from testbed.benches.flink import BROKER, FlinkBench
from testbed.servers.flink import FlinkServer
from tests.binders.flink.cluster_steps import counts, has_counted, site
from tests.support.skips import skip_without_flink
from tests.support.trials import trial

pytestmark = pytest.mark.engine

PROGRAMS = ROOT / "jars_and_apps" / "flink"
NOWHERE = {"execution.checkpointing.dir": "", "execution.checkpointing.savepoint-dir": ""}


@pytest.fixture(name="spare_server", scope="module")
def spare_server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    """A cluster that logs verbosely and has no place for state."""
    skip_without_flink()
    directory = tmp_path_factory.mktemp("spare-flink")
    with FlinkServer(directory, slots=4, conf=NOWHERE, talkative=True, small=True) as server:
        yield server


@pytest.fixture(name="doomed_server")
def doomed_server_fixture(tmp_path: Path) -> Iterator[FlinkServer]:
    """A cluster of one test that has no place for state, to be killed and started again."""
    skip_without_flink()
    with FlinkServer(tmp_path / "doomed-flink", slots=4, conf=NOWHERE, small=True) as server:
        yield server


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


@trial("the same through the loop of a coordinator, in tests/controller/test_reconciler_engines.py")
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


@pytest.mark.skipif(not (PROGRAMS / "speck-flink-jobs-all.jar").exists(), reason="needs make jars")
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
