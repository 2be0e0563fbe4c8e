"""The jars of a cluster whose jobs end by themselves, over HTTP answers as Flink gives them."""

from __future__ import annotations

from typing import Any

from binders.flink.rest.client import FlinkRest
from binders.flink.submission.cluster_state import ClusterState
from binders.flink.submission.jar_gc import JarGarbageCollector
from speck.core.inventory import Login
from testbed.doubles.engine_answers import AnswerServer, flink_answers, serving

CODE, FIRST, SECOND = "c" * 64, "1" * 32, "2" * 32
JAR = f"x_{CODE}.jar"


def overview(*jobs: str) -> dict[str, Any]:
    line = {"name": "a", "state": "RUNNING", "duration": 5000, "tasks": {"total": 1, "running": 1}}
    return {"jobs": [{"jid": each, **line} for each in jobs]}


def test_a_job_that_was_lost_does_not_keep_its_jar() -> None:
    labels = {"speck.job": "a", "speck.code": CODE}
    server = AnswerServer(
        flink_answers()
        | {
            "/jobs/[0-9a-f]{32}/config": {"execution-config": {"user-config": labels}},
            "/jobs/overview": overview(FIRST, SECOND),
            "/jars": {"files": [{"id": JAR, "name": f"{CODE}.jar"}]},
            f"/jars/{JAR}": {},
        }
    )
    with serving(server) as port:
        rest = FlinkRest(f"http://127.0.0.1:{port}", Login())
        collector = JarGarbageCollector(rest, ClusterState())
        collector.collect()
        server.answers["/jobs/overview"] = overview(SECOND)
        assert [each.id for each in collector.live_jobs()] == [SECOND]  # as in each round
        assert f"/jars/{JAR}" not in server.asked
        collector.collect_after(SECOND, required=True)
        assert f"/jars/{JAR}" in server.asked
        rest.close()
