"""Builds of jobs in temporary sessions of a Connect server, over a client and a launcher in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from binders.spark.connect.grpc_client import ConnectClient, endpoint_of
from binders.spark.connect.launcher import Launcher
from binders.spark.connect.rehearsals import Rehearsals
from binders.spark.connect.specification import query_spec
from binders.spark.query.spec import ConnectQuerySpec
from speck.core.inventory import Inventory, Login
from speck.core.job import Job
from speck.core.runtime import Attempt
from speck.errors import Unreachable
from testbed.benches.examples import job as make_job

ADDRESS = "sc://s:15002"
ENDPOINT = endpoint_of(ADDRESS, Login())
JOB = replace(make_job("a", engine="spark"), spe_address=ADDRESS)


class ClientInMemory(ConnectClient):
    """Records the sessions that are ended."""

    def __init__(self, events: list[tuple[str, str]]) -> None:
        super().__init__(ADDRESS, ENDPOINT)
        self.events = events
        self.fails = False

    def release(self, session: str, *, reusable: bool = False) -> None:
        assert reusable  # the next build could not begin it again
        self.events.append(("release", session))
        if self.fails:
            raise Unreachable("no answer", address=ADDRESS)


class LauncherInMemory(Launcher):
    """Records the sessions in which code runs."""

    def __init__(self, events: list[tuple[str, str]]) -> None:
        super().__init__()
        self.events = events
        self.work: Callable[[], None] = lambda: None

    def launch(self, spec: str, timeout: float) -> dict[str, str]:
        values = json.loads(spec)
        assert values["rehearsal"]
        self.events.append(("launch", values["session"]))
        self.work()
        return {"kind": "rehearsed"}


class Bench:
    """The rehearsals of one coordinator."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.client, self.launcher = ClientInMemory(self.events), LauncherInMemory(self.events)
        self.rehearsals = Rehearsals(self.client, self.launcher)

    def run(self, job: Job = JOB) -> dict[str, str]:
        return self.rehearsals.run(job, _spec, 60.0)


def _spec(job: Job, attempt: Attempt) -> ConnectQuerySpec:
    return query_spec(job, attempt, ADDRESS, ENDPOINT, Inventory())


def test_a_session_that_a_killed_coordinator_left_is_ended_by_the_next_build() -> None:
    killed, next_one = Bench(), Bench()
    killed.run()
    next_one.run()
    left = killed.events[1][1]
    assert next_one.events == [("release", left), ("launch", left), ("release", left)]


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, job_name="b"),
        replace(JOB, job_path="/other/store/jobs.py"),
        replace(JOB, source_broker="tcp://other:1883"),
    ],
    ids=["job", "store", "broker"],
)
def test_builds_of_different_jobs_share_no_session(other: Job) -> None:
    bench = Bench()
    bench.run()
    bench.run(other)
    assert len({session for _, session in bench.events}) == 2


def test_a_failed_release_does_not_hide_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.launcher.work = lambda: setattr(bench.client, "fails", True)
    assert bench.run() == {"kind": "rehearsed"}
    assert "no answer" in caplog.text


def test_two_builds_of_a_job_at_once_do_not_share_a_session() -> None:
    bench, met = Bench(), threading.Barrier(2)
    overlaps = []

    def meet() -> None:
        try:
            met.wait(0.5)
            overlaps.append(True)
        except threading.BrokenBarrierError:
            pass

    bench.launcher.work = meet
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: bench.run(), range(2)))
    assert answers == [{"kind": "rehearsed"}] * 2
    assert not overlaps
