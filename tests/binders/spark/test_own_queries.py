"""Queries beside the one that SpecK starts: those of a job, and those that check output modes.

None of them takes a message of the job, and none outlives it; at real servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from binders.spark.connect.grpc_client import Query
from binders.spark.connect.probe import ServerProbe
from speck.core.job import Job
from speck.core.runtime import JobState
from speck.errors import Rejected
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.spark import JOBS, SparkBench
from testbed.benches.standalone import StandaloneBench
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.rest import rest_server
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import StandaloneServer
from tests.support.trials import trial

pytestmark = pytest.mark.engine

Bench = SparkBench | StandaloneBench

OWN = JOBS / "own_queries.py"
WORDS = [f"w{number}" for number in range(22)]


@pytest.fixture(
    name="bench", scope="module", params=["connect", pytest.param("standalone", marks=trial("as on Connect"))]
)
def bench_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with MosquittoServer(directory / "mosquitto") as broker:
        if request.param == "connect":
            spark: SparkServer = request.getfixturevalue("spark_server")
            bench: Bench = SparkBench(spark, broker, directory)
            yield bench
            bench.close()
            return
        server: StandaloneServer = request.getfixturevalue("standalone_server")
        with rest_server(directory / "server") as rest:
            assert rest.services.files is not None
            bench = StandaloneBench(server, broker, rest.services.files)
            yield bench
            bench.close()


@pytest.fixture(name="queries")
def queries_fixture(bench: Bench) -> Callable[[], list[str]]:
    """Lists the names of the queries that a Connect server has begun to run during the test."""

    def running() -> list[Query]:
        if isinstance(bench, StandaloneBench):
            return []
        found = ServerProbe(bench.server.address, bench._client).running()
        assert found is not None
        return found

    others = {each.run_id for each in running()}
    return lambda: [each.name for each in running() if each.run_id not in others]


def all_arrive(bench: Bench, job: Job, number: int) -> None:
    """A mended form gets every message that was sent."""
    engine = bench.binder()
    handle = engine.submit(replace(job, entry_class="mended"), attempt_of(job, number))
    await_state(engine, handle, JobState.RUNNING)
    eventually(lambda: sorted(bench.mqtt.got(job)), lambda got: len(got) >= len(WORDS))
    assert sorted(bench.mqtt.got(job)) == sorted(map(str.upper, WORDS))
    engine.stop(handle, keep_state=False)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("awaited", r"read by the query that SpecK starts, and by no other .return the DataFrame"),
        ("fails", r"ValueError: no such street .own_queries\.py, line \d+"),
    ],
)
def test_a_query_of_a_failed_attempt_takes_no_message_and_does_not_live_on(
    bench: Bench, queries: Callable[[], list[str]], job_name: str, entry: str, fault: str
) -> None:
    job = bench.job(job_name, entry, OWN)
    bench.mqtt.send(job.source_topic, WORDS[:10])
    engine = bench.binder()
    with pytest.raises(Rejected, match=fault):
        engine.submit(job, attempt_of(job))
    assert not [name for name in queries() if entry in name]
    bench.mqtt.send(job.source_topic, WORDS[10:])
    all_arrive(bench, job, 2)


def test_a_query_beside_the_result_takes_no_message_and_ends(
    bench: Bench, queries: Callable[[], list[str]], job_name: str
) -> None:
    job = bench.job(job_name, "beside", OWN)
    engine = bench.binder()
    handle = engine.submit(job, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    bench.mqtt.send(job.source_topic, WORDS)
    eventually(lambda: sorted(bench.mqtt.got(job)), lambda got: len(got) >= len(WORDS))
    assert sorted(bench.mqtt.got(job)) == sorted(map(str.upper, WORDS))
    assert "beside" not in queries()
    engine.stop(handle, keep_state=False)
    assert not queries()


def test_a_build_names_the_output_mode_that_fits(
    bench: Bench, queries: Callable[[], list[str]], job_name: str
) -> None:
    job = bench.job(job_name, "twice", OWN)
    engine = bench.binder()
    expected = r"refuses output_mode 'update' .* \(expected output_mode: append\)"
    with pytest.raises(Rejected, match=expected):
        engine.build_job(job)
    engine.build_job(replace(job, output_mode="append"))
    assert not queries()
    if isinstance(bench, SparkBench):
        with pytest.raises(Rejected, match=expected):
            engine.submit(job, attempt_of(job))
        engine.build_job(replace(job, entry_class="distinct"))
        with pytest.raises(Rejected, match=r"Sorting is not supported|Sort"):
            engine.build_job(replace(job, entry_class="ordered"))


def test_a_build_of_a_job_with_queries_of_its_own_makes_no_session(
    bench: Bench, queries: Callable[[], list[str]], job_name: str
) -> None:
    job = bench.job(job_name, "beside", OWN)
    bench.binder().build_job(job)
    assert not queries()
    with pytest.raises(Rejected, match=r"own_queries\.py, line \d+"):
        bench.binder().build_job(replace(job, entry_class="awaited"))
    clients = bench._broker.session_exists("speck-rehearsal")
    assert not clients
