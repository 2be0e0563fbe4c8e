"""The state of a job: in savepoints and checkpoints, from one attempt to the next, and deleted at the end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from binders.flink.state.locations import local_path
from binders.flink.submission import job_config
from speck.core.runtime import JobState, State
from speck.errors import Rejected
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.agents import started_by_lone_agent
from testbed.benches.flink import FlinkBench
from tests.binders.flink.cluster_steps import counts, has_counted, site, start

pytestmark = pytest.mark.engine

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


def test_a_missing_savepoint_is_named(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    state = State("flink-savepoint", "file:/nowhere/to/be/found")
    with pytest.raises(Rejected, match=r"FileNotFoundException: .*'file:/nowhere/to/be/found'"):
        engine.submit(job, attempt_of(job, 1, state))
    assert flink_bench.running(job_name) == 0
