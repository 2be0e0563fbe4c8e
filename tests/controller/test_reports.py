"""Copies that the agent of a site reports of jobs that were never placed there."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.store.maintenance.backup import archive, restore
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import make_job
from testbed.benches.reconciler import Bench, copy_of
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

HERE, THERE = "sc://e1:1", "sc://edge:1"
A = make_job("a", "t0", "t1")
EDGE = make_job("edge", "t5", "t6", spe_address=THERE)
AT_EDGE = replace(A, spe_address=THERE)
INVENTORY = Inventory(
    {
        "A": one_site("A", HERE, "tcp://b1:1883"),
        "edge": replace(one_site("edge", THERE, "tcp://edge:1883"), agent=True),
    }
)


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path, world: World, known_owner: None) -> Iterator[Bench]:
    """A coordinator with a job at a site without an agent, and one at a site with one."""
    bench = Bench.begin(world, tmp_path, inventory=INVENTORY)
    yield bench
    bench.close()


def report(bench: Bench, job: Job = A, number: int = 9, owner: str | None = None) -> None:
    """Let the agent at the edge report a copy of a job, by default with the marks of this store."""
    owner = bench.store.identity if owner is None else owner
    bench.world.intrude(THERE, job, replace(copy_of(job, bench.world, number), owner=owner))


def engines(world: World, job: str) -> list[str]:
    return sorted(
        address
        for address, engine in world.engines.items()
        for each in engine.live()
        if each.job.job_name == job
    )


def ignored(bench: Bench) -> list[str]:
    return [each.message for each in bench.store.events() if each.kind == "ignored"]


@pytest.mark.parametrize("owner", [None, "another", ""], ids=["this store", "another store", "nobody"])
@pytest.mark.parametrize("job", [A, AT_EDGE], ids=["in the desired form", "in another form"])
def test_a_report_of_a_job_that_was_never_there_holds_up_nothing(
    bench: Bench, world: World, job: Job, owner: str | None
) -> None:
    bench.apply(A, EDGE)
    report(bench, job, owner=owner)
    bench.round()
    assert bench.job("a")["drift"] is None
    world.restart(HERE)
    bench.round(4)
    assert engines(world, "a") == [HERE, THERE]
    assert bench.job("a")["attempt"] == 2
    world.violations.clear()  # the double takes the copy for a real one
    (message,) = ignored(bench)
    assert message == (
        f"job 'a': the agent of site 'edge' reports a copy of it at {THERE}, where it was never placed: "
        "ignored (if it runs there, stop it; after a theft: speck sites revoke edge)"
    )


def test_a_report_of_a_job_that_was_there_counts(bench: Bench, world: World) -> None:
    bench.apply(AT_EDGE, EDGE)
    bench.apply(A, EDGE)
    bench.restart()
    world.restart(HERE)
    report(bench, AT_EDGE)
    bench.round(4)
    assert engines(world, "a") == [THERE]
    assert "which the store does not name" in str(bench.job("a")["waits"])
    assert ignored(bench) == []


def test_a_report_counts_at_a_store_that_is_older_than_a_move(bench: Bench, world: World) -> None:
    """Until the job is started again: it may have been moved to that site after the backup."""
    bench.apply(A, EDGE)
    pieces = b"".join(archive(bench.store.database.all(), bench.store.directory, 1.0, "1"))
    bench.apply(AT_EDGE, EDGE)
    bench.close()
    place = bench.store.directory.with_name("restored")
    restore(io.BytesIO(pieces), "backup", place)
    bench.move_to(place)
    bench.round(4)
    assert engines(world, "a") == [THERE]
    assert "which the store does not name" in str(bench.job("a")["waits"])
    bench.apply(replace(A, trigger="1 second"), EDGE)
    bench.round()
    assert engines(world, "a") == [HERE]  # the other copy has ended at the fence
    world.violations.clear()
    report(bench, number=20_000)
    bench.round(2)
    assert bench.job("a")["drift"] is None
    assert len(ignored(bench)) == 1
