"""The jars of jobs at the cluster: uploaded once, shared, and deleted after the last job."""

from __future__ import annotations

import shutil
import uuid
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from binders.flink import FLINK
from binders.flink.engine import connect_engine
from speck.core.inventory import Inventory
from speck.core.runtime import JobState
from speck.errors import Rejected
from speck.store.artifacts import hash_of
from speck.testing import attempt_of, await_state, eventually
from speck.testing.wire_trouble import Mischief, MischiefRelay
from testbed.benches.flink import FlinkBench
from tests.binders.flink.cluster_steps import start

pytestmark = pytest.mark.engine


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


def test_check_reads_the_jar(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    with pytest.raises(Rejected, match=r"streets\.jar' has no class 'streets\.Nowhere' \(it has"):
        engine.check(flink_bench.job(job_name, "missing"), None)
    with pytest.raises(Rejected, match="cannot be read as a jar"):
        engine.check(flink_bench.job(job_name, "corrupt"), None)
