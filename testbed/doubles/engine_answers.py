"""A server with the HTTP interface of an engine, whose answers a test can change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from testbed.servers.http import Handler, http_server

FLINK_JOB, VERTEX, MANAGER = "0" * 32, "1" * 32, "127.0.0.1:1-a"

Answers = dict[str, Any]  # by patterns of paths, with their queries: JSON, or a text


@dataclass
class AnswerServer:
    """Answers with the first of ``answers`` whose pattern fits a path; ``asked`` are those in use."""

    answers: Answers
    asked: set[str] = field(default_factory=set)

    def answer(self, path: str) -> tuple[int, bytes]:
        for pattern, answer in self.answers.items():
            if re.fullmatch(pattern, path):
                self.asked.add(pattern)
                return 200, answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        return 404, b'{"errors": ["Not found."]}'


@contextmanager
def serving(server: AnswerServer) -> Iterator[int]:
    """Serve on a free loopback port until the block ends; yields the port."""

    class Answering(Handler):
        def reply(self) -> None:
            self.body()
            self.answer(*server.answer(self.path))

        do_GET = do_POST = do_PATCH = do_DELETE = reply  # noqa: N815 - the names of http.server

    with http_server(Answering) as port:
        yield port


def flink_answers() -> Answers:
    """The answers of a Flink cluster with one job that runs and one that has failed."""
    metrics = ["numRecordsIn", "numRecordsOut", "accumulateBusyTimeMs", "accumulateIdleTimeMs"]
    metrics += ["accumulateBackPressuredTimeMs", "Source__a.numRecordsOut", "b.numRecordsSend"]
    metrics += [f"b.{name}" for name in ("numBytesSend", "ackMillisMin", "ackMillis", "windowFull", "broker")]
    checkpoint = {
        "id": 3,
        "end_to_end_duration": 12,
        "state_size": 9,
        "checkpointed_size": 9,
        "external_path": f"file:/nowhere/{FLINK_JOB}/chk-3",
        "discarded": False,
        "checkpoint_type": "CHECKPOINT",
    }
    vertex = {"id": VERTEX, "parallelism": 1, "name": "a"}
    tasks = {"total": 1, "running": 1}
    line = {"jid": FLINK_JOB, "name": "a", "state": "RUNNING", "duration": 5000, "tasks": tasks}
    failed = {"jid": "f" * 32, "name": "f", "state": "FAILED", "duration": 5000, "tasks": tasks}
    failure = {"timestamp": 1, "stacktrace": "java.lang.Error: no", "taskName": "a"}
    manager = {
        "id": MANAGER,
        "timeSinceLastHeartbeat": 1_700_000_000_000,
        "hardware": {"cpuCores": 2},
        "memoryConfiguration": {"totalProcessMemory": 1 << 30},
    }
    directories = {
        "execution.checkpointing.dir": "file:///c",
        "execution.checkpointing.savepoint-dir": "file:///s",
    }
    job = f"/jobs/{FLINK_JOB}"
    any_job = "/jobs/[0-9a-f]{32}"
    return {
        "/overview": {"flink-version": "2.3.0", "slots-total": 4, "slots-available": 3},
        "/jobmanager/config": [{"key": key, "value": value} for key, value in directories.items()],
        "/config": {"refresh-interval": 10},
        "/taskmanagers": {"taskmanagers": [manager]},
        "/jars": {"files": [{"id": "x_a.jar", "name": "a.jar"}]},
        "/jars/upload": {"filename": "/tmp/x_b.jar"},
        "/jars/x_b.jar/run": {"jobid": FLINK_JOB},
        "/jobs/overview": {"jobs": [line, failed]},
        f"{any_job}/status": {"status": "FAILED"},
        f"{job}": {"vertices": [vertex], "plan": {"nodes": [{"id": VERTEX, "inputs": []}]}},
        f"{any_job}/config": {"execution-config": {"user-config": {"speck.job": "a", "speck.number": "1"}}},
        f"{any_job}/checkpoints": {
            "counts": {"completed": 1, "failed": 0, "restored": 0},
            "latest": {
                "completed": checkpoint,
                "savepoint": {**checkpoint, "checkpoint_type": "SYNC_SAVEPOINT"},
                "restored": {"external_path": "file:/nowhere/chk-1"},
            },
        },
        f"{any_job}/checkpoints/[0-9a-f]{{32}}": {
            "status": {"id": "COMPLETED"},
            "operation": {"checkpointId": 4},
        },
        rf"{any_job}/exceptions\?maxExceptions=\d+": {"exceptionHistory": {"entries": [failure]}},
        f"{job}/vertices/{VERTEX}": {"subtasks": [{"taskmanager-id": MANAGER}]},
        rf"{job}/vertices/{VERTEX}/subtasks/metrics\?get=.*": [
            {"id": each, "sum": 5, "min": 5, "max": 5} for each in metrics
        ],
        f"{job}/vertices/{VERTEX}/subtasks/metrics": [{"id": each} for each in metrics],
        rf"{job}/vertices/{VERTEX}/metrics\?get=0.b.broker": [{"id": "0.b.broker", "value": "tcp://b:1"}],
        r"/taskmanagers/metrics\?get=.*": [{"id": "Status.JVM.CPU.Time", "sum": 5e9, "min": 5e9, "max": 5e9}],
        f"{job}/accumulators": {"user-task-accumulators": [{"name": "rttMillis", "value": "5"}]},
        f"{job}/stop": {"request-id": "r"},
        f"{job}/savepoints/.*": {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/nowhere/s"}},
        "/savepoint-disposal": {"request-id": "r"},
        "/savepoint-disposal/r": {"status": {"id": "COMPLETED"}, "operation": {}},
        f"/taskmanagers/{MANAGER}/log": "2026-01-01 00:00:00,000 INFO a\n",
        "/jobmanager/log": f"2026-01-01 00:00:00,000 INFO {FLINK_JOB}\n",
    }
