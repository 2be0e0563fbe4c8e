"""The time zone of a job on servers that have others of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from speck.core.job import Job
from speck.core.runtime import JobState, State
from speck.errors import Rejected
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.spark import JOBS, SparkBench
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

pytestmark = pytest.mark.engine

ZONE = "Asia/Tokyo"
DAYS = JOBS / "days.py"

# Local times at both ends of days, one of them in an hour that a spring leaves out in Berlin.
TIMES = ("2026-03-28 23:30:00", "2026-03-29 00:30:00", "2026-03-29 02:30:00", "2026-03-29 23:30:00")


@pytest.fixture(name="benches", scope="module")
def benches_fixture(
    spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[SparkBench]]:
    """Two servers of different zones with one place of checkpoints, and their broker."""
    directory = tmp_path_factory.mktemp("zones")
    other = SparkServer(tmp_path_factory.mktemp("server"))
    other.environment["TZ"] = ZONE
    with MosquittoServer(directory / "mosquitto") as broker, other:
        benches = [SparkBench(server, broker, directory) for server in (spark_server, other)]
        yield benches
        for bench in benches:
            bench.close()


def run(
    bench: SparkBench, job: Job, times: Sequence[str], state: State | None = None, number: int = 1
) -> State | None:
    """Run a job at a server on these messages, until it has written as many; returns its state."""
    engine, job = bench.binder(), replace(job, spe_address=bench.server.address)
    before = len(bench.mqtt.got(job))
    handle = engine.submit(job, attempt_of(job, number, state))
    await_state(engine, handle, JobState.RUNNING)
    for each in times:  # one after the other, so that each is a batch, which writes each count
        bench.mqtt.send(job.source_topic, [each])
        before += 1
        eventually(lambda: bench.mqtt.got(job), lambda got, least=before: len(got) >= least)
    return engine.stop(handle, keep_state=True)


@trial("the zone of times in the code")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_job_that_moves_counts_the_same_days(benches: list[SparkBench], zone: str) -> None:
    job = replace(benches[0].job(f"days-{zone.replace('/', '-')}", "days", DAYS), timezone=zone)
    state = run(benches[0], job, TIMES)
    assert state is not None
    run(benches[1], job, TIMES, state, 2)
    got = benches[1].mqtt.got(job)
    first = ["2026-03-28 1", "2026-03-29 1", "2026-03-29 2", "2026-03-29 3"]
    assert got == [*first, "2026-03-28 2", "2026-03-29 4", "2026-03-29 5", "2026-03-29 6"]


def test_the_zone_is_that_of_times_in_the_code(benches: list[SparkBench]) -> None:
    job = replace(benches[0].job("since", "since", DAYS), timezone="Europe/Berlin")
    for number, bench in enumerate(benches, 1):
        run(bench, replace(job, timezone="Europe/Berlin"), ["2026-03-29 12:00:00"], number=number)
        assert bench.mqtt.got(job) == ["2026-03-29 12:00:00"] * number


def test_local_times_that_do_not_exist_or_are_two_are_one_instant_everywhere(
    benches: list[SparkBench],
) -> None:
    """An hour is left out, and one comes twice: the time is as much later, and the earlier one."""
    job = replace(benches[0].job("instants", "instants", DAYS), timezone="Europe/Berlin")
    expected = ["2026-03-29 02:30:00 1774747800", "2026-10-25 02:30:00 1792888200"]
    for number, bench in enumerate(benches, 1):
        run(bench, job, [each.rpartition(" ")[0] for each in expected], number=number)
        assert bench.mqtt.got(job) == expected * number


def test_a_server_of_another_zone_is_named_by_its_checkup(benches: list[SparkBench]) -> None:
    checkup = benches[1].binder().checkup()
    assert checkup.limits["time_zone"] == ZONE
    (remark,) = [each for each in checkup.complaints if each.remark]
    assert f"its time zone is {ZONE}: jobs have that of their field timezone" in remark.message


def test_a_zone_that_the_server_does_not_know_is_refused(benches: list[SparkBench]) -> None:
    job = replace(benches[0].job("mars", "days", DAYS), timezone="Mars/Olympus")
    with pytest.raises(Rejected, match="Mars/Olympus"):
        benches[0].binder().submit(job, attempt_of(job))
