"""Steps of tests on a real cluster: a job is started, and what it counts is read."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from speck.core.inventory import Inventory, Login
from speck.core.job import Job
from speck.core.runtime import Handle, JobState, State
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.examples import one_site
from testbed.benches.flink import BROKER, FlinkBench


def start(bench: FlinkBench, job: Job, state: State | None = None, number: int = 1) -> Handle:
    engine = bench.binder()
    handle = engine.submit(job, attempt_of(job, number, state))
    await_state(engine, handle, JobState.RUNNING)
    return handle


def site(bench: FlinkBench, login: Login | None = None, **engine: object) -> Inventory:
    return Inventory({"A": one_site("A", bench.server.address, BROKER, login, **engine)})


def counts(out: Path) -> dict[str, list[int]]:
    """The content of a job's file: the counts of each key, in order."""
    found = defaultdict(list)
    for line in out.read_text().splitlines() if out.exists() else ():
        key, count = line.split()
        found[key].append(int(count))
    return dict(found)


def has_counted(out: Path, most: int) -> None:
    eventually(lambda: counts(out), lambda found: len(found) == 3 and max(found["0"]) >= most)
