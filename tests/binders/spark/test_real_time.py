"""Jobs in real time: the plans that can run so, and the task slots that they hold."""

from __future__ import annotations

from typing import cast

import pytest

from binders.spark.connect import real_time
from binders.spark.connect.grpc_client import ConnectClient, Query
from binders.spark.connect.probe import ServerProbe
from binders.spark.connect.real_time import RealTimeRoom
from binders.spark.query.real_time import check_plan
from binders.spark.query.user_code import JobFault
from speck.errors import NoCapacity, Rejected
from testbed.benches.jobs_by_hand import make_job

SOURCE = "StreamingRelationV2"
EXPLODED = "+- ~Generate explode(split(value#1, ,, -1)), false, [col#9]"


def test_a_plan_that_works_row_by_row_can_run() -> None:
    check_plan("", ["Project", "Filter", SOURCE], SOURCE, [])
    check_plan(EXPLODED, ["Project", "Generate", SOURCE], SOURCE, [])


@pytest.mark.parametrize(
    ("plan", "nodes", "python", "fault"),
    [
        ("", ["Aggregate", SOURCE], [], "has a node Aggregate, which does not work row by row"),
        ("", ["Project", "Union", SOURCE, SOURCE], [], "a node Union"),
        ("", ["Project", SOURCE, SOURCE], [], "2 readings of the messages"),
        ("", ["Project", SOURCE], ["BatchEvalPython"], "Python functions (BatchEvalPython), which return"),
        (
            EXPLODED.replace("explode", "collations"),
            ["Generate", SOURCE],
            [],
            "the generator collations, whose rows",
        ),
    ],
    ids=["aggregation", "union", "twice", "Python", "generator"],
)
def test_another_plan_is_refused_with_the_reason(
    plan: str, nodes: list[str], python: list[str], fault: str
) -> None:
    with pytest.raises(JobFault) as caught:
        check_plan(plan, nodes, SOURCE, python)
    assert fault in str(caught.value)
    assert "(expected columns, filters and generators such as explode, or a trigger other" in str(
        caught.value
    )


class Server:
    """The answers of a server with so many threads, on which these jobs run in real time."""

    def __init__(self, threads: int | None, parallelism: int, **jobs: int) -> None:
        self._threads, self._parallelism, self.jobs = threads, parallelism, jobs

    def threads(self) -> int | None:
        return self._threads

    def cores(self) -> int:
        return self._parallelism

    def running(self) -> list[Query]:
        return [Query("id", f"run-{name}", name) for name in self.jobs]


def room(monkeypatch: pytest.MonkeyPatch, server: Server) -> RealTimeRoom:
    """The room of a server; the connector's answer is made of the server's jobs."""
    monkeypatch.setattr(
        real_time, "call", lambda *_: " ".join(f"run-{name}={n}" for name, n in server.jobs.items())
    )
    return RealTimeRoom("sc://a:1", cast(ConnectClient, None), cast(ServerProbe, server))


def test_a_job_too_many_is_refused_and_not_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    found = room(monkeypatch, Server(4, 2, a=1))
    found.reserve(make_job("b", trigger="real-time"))
    with pytest.raises(NoCapacity, match=r"needs 1 task slots, 2 of 4 .*, 2 in use .*local\[5\]"):
        found.reserve(make_job("c", trigger="real-time"))
    found.release("b")
    found.reserve(make_job("c", trigger="real-time"))


def test_the_slots_of_a_jobs_own_copy_are_free_for_its_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = room(monkeypatch, Server(4, 2, a=2))
    found.reserve(make_job("a", trigger="real-time", parallelism=2))
    with pytest.raises(NoCapacity, match="needs 3 task slots"):
        found.reserve(make_job("a", trigger="real-time", parallelism=3))


def test_one_thread_is_left_for_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    found = room(monkeypatch, Server(2, 2))
    found.reserve(make_job("a", trigger="real-time"))
    with pytest.raises(NoCapacity):
        found.reserve(make_job("b", trigger="real-time"))


def test_a_server_whose_tasks_run_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = room(monkeypatch, Server(None, 2))
    found.reserve(make_job("a"))
    with pytest.raises(Rejected, match="expected a local master, or another trigger"):
        found.reserve(make_job("a", trigger="real-time"))
