"""The checkpoint that is requested of a new job, over HTTP answers as Flink gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from binders.flink.rest.client import FlinkRest
from binders.flink.state.first_checkpoint import FirstCheckpoints
from testbed.doubles.engine_answers import FLINK_JOB, AnswerServer, serving

REQUEST, OUTCOME = f"/jobs/{FLINK_JOB}/checkpoints", f"/jobs/{FLINK_JOB}/checkpoints/[0-9a-f]{{32}}"
IN_PROGRESS: dict[str, Any] = {"status": {"id": "IN_PROGRESS"}}
FAILED: dict[str, Any] = {"status": {"id": "COMPLETED"}, "operation": {"failureCause": {"class": "E"}}}
COMPLETE: dict[str, Any] = {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 1}}


@dataclass
class Logged(AnswerServer):
    """Answers that note the paths, one by one."""

    paths: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes]:
        self.paths.append(path)
        return super().answer(path)

    def taken(self) -> list[str]:
        """The paths since the last call, without the job's."""
        found = [each.removeprefix(f"/jobs/{FLINK_JOB}") for each in self.paths]
        self.paths.clear()
        return found


@contextmanager
def cluster() -> Iterator[tuple[Logged, FirstCheckpoints]]:
    server = Logged({REQUEST: {"request-id": "r"}, OUTCOME: IN_PROGRESS})
    with serving(server) as port:
        rest = FlinkRest(f"http://127.0.0.1:{port}")
        yield server, FirstCheckpoints(rest)
        rest.close()


def test_a_checkpoint_is_requested_once_and_asked_for_until_it_is_complete() -> None:
    with cluster() as (server, checkpoints):
        assert not checkpoints.completed(FLINK_JOB)
        requested, first = server.taken()
        assert requested == "/checkpoints"
        assert not checkpoints.completed(FLINK_JOB)
        assert server.taken() == [first]
        server.answers[OUTCOME] = COMPLETE
        assert checkpoints.completed(FLINK_JOB)
        assert server.taken() == [first]


def test_one_that_failed_is_requested_again() -> None:
    """As of a job some of whose tasks do not run yet."""
    with cluster() as (server, checkpoints):
        server.answers[OUTCOME] = FAILED
        assert not checkpoints.completed(FLINK_JOB)
        _, first = server.taken()
        server.answers[OUTCOME] = COMPLETE
        assert checkpoints.completed(FLINK_JOB)
        requested, second = server.taken()
        assert requested == "/checkpoints"
        assert second != first


def test_a_job_that_cannot_be_asked_has_completed_none() -> None:
    with cluster() as (server, checkpoints):
        good = dict(server.answers)
        server.answers.clear()
        assert not checkpoints.completed(FLINK_JOB)
        server.answers |= {**good, OUTCOME: COMPLETE}
        assert checkpoints.completed(FLINK_JOB)
        server.taken()
        checkpoints.forget(FLINK_JOB)
        assert checkpoints.completed(FLINK_JOB)
        assert len(server.taken()) == 2
