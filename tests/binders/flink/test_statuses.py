"""The states of jobs at a JobManager that answers about one of them with an error."""

from __future__ import annotations

import json

import pytest

from binders.flink.engine import FlinkEngine
from speck.core.inventory import Inventory
from speck.core.runtime import Handle, JobState
from testbed.doubles.engine_answers import FLINK_JOB, AnswerServer, flink_answers, serving

FAILED = "f" * 32
ERROR = {
    "errors": ["Internal server error.", "<Exception on server side:\njava.lang.NullPointerException\n>"]
}


class Faulty(AnswerServer):
    """Answers one kind of requests with Flink's own error."""

    def __init__(self, kind: str) -> None:
        super().__init__(flink_answers())
        self.kind = kind

    def answer(self, path: str) -> tuple[int, bytes]:
        if path.startswith(f"/jobs/{FAILED}/{self.kind}"):
            return 500, json.dumps(ERROR).encode()
        return super().answer(path)


@pytest.mark.parametrize(
    ("kind", "state", "seen", "words"),
    [
        ("exceptions", "FAILED", JobState.FAILED, "a failure that Flink does not report"),
        (
            "exceptions",
            "RESTARTING",
            JobState.STARTING,
            "restarting after: a failure that Flink does not report",
        ),
        ("checkpoints", "FINISHED", JobState.UNKNOWN, "NullPointerException"),
    ],
)
def test_an_error_about_one_job_leaves_the_states_of_the_others(
    kind: str, state: str, seen: JobState, words: str
) -> None:
    server = Faulty(kind)
    server.answers["/jobs/overview"]["jobs"][1]["state"] = state
    with serving(server) as port:
        address = f"http://127.0.0.1:{port}"
        engine = FlinkEngine(address, Inventory())
        found = engine.statuses([Handle(address, FLINK_JOB, {}), Handle(address, FAILED, {})])
        engine.close()
    assert found[FLINK_JOB].state is JobState.RUNNING
    assert (found[FAILED].state, words in found[FAILED].message) == (seen, True)
