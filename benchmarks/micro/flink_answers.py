"""A program that answers as Flink's REST interface does: ``python -m benchmarks.micro.flink_answers JOBS``.

It runs apart from the measurement, whose processor time it would be in otherwise.  Prints its port.
"""

from __future__ import annotations

import json
import re
import sys
import time
from functools import cache
from http.server import ThreadingHTTPServer

from testbed.servers.http import Handler

VERTEX = "1" * 32
_JOB = re.compile(r"/jobs/([0-9a-f]{32})(/[^?]*)?(?:\?(.*))?")
_TASK = ("numRecordsIn", "numRecordsOut", "accumulateBusyTimeMs", "accumulateBackPressuredTimeMs")
_SINK = (
    *("numRecordsSend", "numBytesSend", "ackMillisMin", "ackMillis", "windowFull", "broker", "stamps"),
    *("lostMessages", "connected", "refused", "resent", "retained", "retainedDropped", "throttledMillis"),
)
_SOURCE = (
    *("numRecordsOut", "receivedBytes", "pendingRecords", "duplicatesDropped", "collisions", "badStamps"),
    *("changedRepetitions", "lostMessages", "lostSession", "skipped", "parked", "connected", "refused"),
)
NAMES = (
    *_TASK,
    "accumulateIdleTimeMs",
    *(f"Source__mqtt.{name}" for name in _SOURCE),
    *(f"Sink__Writer.{name}" for name in _SINK),
)

_MANAGER = {
    "id": "127.0.0.1:6122-a",
    "dataPort": 6121,
    "slotsNumber": 1000,
    "freeSlots": 0,
    "hardware": {"cpuCores": 2, "physicalMemory": 1 << 30},
}


def job_ids(count: int) -> list[str]:
    """The ids of the jobs that run."""
    return [f"{number:032x}" for number in range(count)]


@cache
def _overview(jobs: int) -> bytes:
    tasks = {"total": 1, "running": 1}
    line = {"name": "a", "state": "RUNNING", "duration": 5000, "tasks": tasks}
    return json.dumps({"jobs": [{"jid": each, **line} for each in job_ids(jobs)]}).encode()


def _of_job(part: str, query: str) -> object:
    """The answer to a question for a job: details, checkpoints, metrics of its only vertex."""
    if not part:
        vertex = {"id": VERTEX, "name": "a", "parallelism": 1}
        return {"vertices": [vertex], "plan": {"nodes": [{"id": VERTEX, "inputs": []}]}}
    if part == "/checkpoints":
        completed = {"id": 3, "end_to_end_duration": 12, "state_size": 9, "checkpointed_size": 9}
        return {"counts": {"completed": 1, "failed": 0, "restored": 0}, "latest": {"completed": completed}}
    asked = query.partition("&")[0].removeprefix("get=").split(",")
    if part.endswith(f"{VERTEX}/metrics"):
        return [{"id": each, "value": "tcp://b:1"} for each in asked]
    if not query:
        return [{"id": each} for each in NAMES]
    now = round(1000 * time.time())
    value = {"min": now, "max": now, "sum": now}
    return [{"id": each, **({"min": 5, "max": 5, "sum": 5} if "ack" in each else value)} for each in asked]


def serve(jobs: int) -> None:
    """Answer until the process is ended."""

    class Answering(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name of http.server
            found = _JOB.fullmatch(self.path)
            if self.path == "/jobs/overview":
                self.answer(200, _overview(jobs))
            elif found:
                self.answer(200, json.dumps(_of_job(found[2] or "", found[3] or "")).encode())
            elif self.path.startswith("/taskmanagers/metrics"):
                values = {"id": "Status.JVM.CPU.Time", "sum": 5e9, "min": 5e9, "max": 5e9}
                self.answer(200, json.dumps([values]).encode())
            elif self.path == "/taskmanagers":
                self.answer(200, json.dumps({"taskmanagers": [_MANAGER]}).encode())
            else:
                self.answer(404, b'{"errors": ["Not found."]}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
