"""A submit without an answer, and a JobManager that restarts, over HTTP answers as Flink gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from binders.flink.engine import FlinkEngine
from binders.flink.rest.requests import FlinkRefused
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt, JobState, State
from speck.errors import OutcomeUnknown, StateLost, Unreachable
from testbed.benches.examples import make_jar, one_site
from testbed.benches.jobs_by_hand import make_job
from testbed.doubles.engine_answers import FLINK_JOB, AnswerServer, flink_answers, serving

BROKER = "tcp://127.0.0.1:1883"
ATTEMPT = Attempt(
    id=FLINK_JOB,
    job_name="a",
    number=2,
    session="speck-a",
    state=State("flink-savepoint", "s3://states/former"),
)


@dataclass
class JobManager(AnswerServer):
    """Answers but for the submits while it is ``silent``; knows no job."""

    silent: bool = True

    def answer(self, path: str) -> tuple[int, bytes]:
        if path.endswith("/run") and self.silent:
            return 504, b""
        if path.startswith("/jobs/") and path != "/jobs/overview":
            return 404, b'{"errors": ["FlinkJobNotFoundException"]}'
        return super().answer(path)

    def start(self, process: str, checkpoints: str) -> None:
        settings = {
            "web.tmpdir": f"/tmp/flink-web-{process}",
            "execution.checkpointing.dir": checkpoints,
            "execution.checkpointing.savepoint-dir": "s3://states/s",
        }
        lines = [{"key": key, "value": value} for key, value in settings.items()]
        self.answers["/jobmanager/config"] = lines
        self.answers["/jobs/overview"] = {"jobs": []}


@contextmanager
def cluster(path: Path, checkpoints: str) -> Iterator[tuple[JobManager, FlinkEngine, Job]]:
    """A JobManager, and the binder of it whose submit had no answer."""
    server = JobManager(flink_answers())
    server.start("one", checkpoints)
    with serving(server) as port:
        address = f"http://127.0.0.1:{port}/"
        jar = make_jar(path / "a.jar", "streets.A")
        job = replace(make_job("a"), engine="flink", spe_address=address, job_path=str(jar), code_hash="")
        engine = FlinkEngine(address, Inventory({"A": one_site("A", address, BROKER, None)}))
        with pytest.raises(OutcomeUnknown):
            engine.submit(job, ATTEMPT)
        yield server, engine, job
        engine.close()


def test_a_start_whose_answer_was_lost_with_its_job_manager_is_not_repeated(tmp_path: Path) -> None:
    """Its job may have acknowledged messages that the state from which it was started does not contain."""
    with cluster(tmp_path, "s3://states/c") as (server, engine, _):
        with pytest.raises(OutcomeUnknown, match="may still start it"):
            engine.find(ATTEMPT)
        server.start("two", "s3://states/c")
        for _ in range(2):
            lost = engine.find(ATTEMPT)
            assert lost is not None
            assert engine.status(lost).state is JobState.LOST
            with pytest.raises(StateLost, match="let this machine see checkpoint_dir"):
                engine.stop(lost, keep_state=True)
            assert engine.stop(lost, keep_state=False) is None


def test_a_job_that_has_left_no_files_here_was_not_started(tmp_path: Path) -> None:
    checkpoints = f"file:{tmp_path}/checkpoints"
    with cluster(tmp_path, checkpoints) as (server, engine, job):
        server.start("two", checkpoints)
        assert engine.find(ATTEMPT) is None
        server.silent = False
        assert engine.submit(job, ATTEMPT).engine_id == ATTEMPT.id


def test_an_attempt_that_was_never_submitted_was_not_started(tmp_path: Path) -> None:
    with cluster(tmp_path, "s3://states/c") as (server, engine, _):
        server.start("two", "s3://states/c")
        assert engine.find(replace(ATTEMPT, id="e" * 32)) is None


def test_a_job_that_the_same_job_manager_does_not_know_in_time_was_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binders.flink.submission.launcher.PENDING", 0.0)
    with cluster(tmp_path, "s3://states/c") as (_, engine, _):
        assert engine.find(ATTEMPT) is None


def test_a_main_method_that_failed_may_have_started_a_job_while_its_job_manager_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its attempt would be forgotten, as one whose engine was never asked."""

    def run(*_: Any) -> str:
        raise FlinkRefused("no", address=engine.address, status=500, trace="java.lang.Error: no")

    def jobs() -> Any:
        raise Unreachable("it cannot be reached", address=engine.address)

    with cluster(tmp_path, "s3://states/c") as (_, engine, job):
        monkeypatch.setattr(engine.rest, "run", run)
        monkeypatch.setattr(engine.rest, "jobs", jobs)
        with pytest.raises(OutcomeUnknown, match="cannot be reached"):
            engine.submit(job, ATTEMPT)
