"""The Spark Connect binder against a real server and a real broker."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from binders.mqtt import MQTT
from binders.spark import CONNECT, connect_engine
from binders.spark.connect import grpc_client
from binders.spark.connect.launcher import Launcher
from binders.spark.connect.running import _LISTED
from speck.binder import EngineBinder, Registry
from speck.core.inventory import Inventory, Login, Secret
from speck.core.job import Job, client_id, form_fingerprint
from speck.core.runtime import Found, Handle, JobState
from speck.errors import NoCapacity, OutcomeUnknown, Rejected, StateLost
from speck.testing import EngineContract, attempt_of, await_state, eventually
from speck.testing.engine_checks import assert_unusable
from speck.testing.engines import SharedJobs
from speck.testing.wire_trouble import Trouble
from testbed.benches.agents import LinkBench, started_by_lone_agent
from testbed.benches.contents import CONTENTS, OTHERS, TEXTS
from testbed.benches.examples import job, one_site
from testbed.benches.spark import JOBS, SparkBench, gone
from testbed.servers.grpc_server import grpc_server
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.web_proxy import web_proxy
from tests.support.trials import trial


@pytest.fixture(name="site_bench", scope="module")
def site_bench_fixture(
    spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkBench]:
    directory = tmp_path_factory.mktemp("bench")
    with MosquittoServer(directory / "mosquitto") as broker:
        bench = SparkBench(spark_server, broker, directory)
        yield bench
        bench.close()


class TestContract(EngineContract):
    """The contract that all engines keep."""

    @pytest.fixture
    def bench(self, site_bench: SparkBench) -> SparkBench:
        return site_bench


class LinkedSparkBench(SparkBench):
    """The bench, whose server is reached through an agent."""

    def __init__(self, server: SparkServer, broker: MosquittoServer, directory: Path) -> None:
        super().__init__(server, broker, directory)
        engines = [self.inventory.engine(server.address)]
        self.link = LinkBench(directory / "link", Registry.of([CONNECT, MQTT]), engines, broker.address)
        self.link.await_contact()

    def binder(self) -> Any:
        return self.link.engine(self.server.address)

    def dead_binder(self) -> Any:
        return self._served(super().dead_binder())

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        with super().troubled_binder(trouble) as engine:
            yield self._served(engine)

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        with super().slow_binder() as engine:
            yield self._served(engine)

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        with super().losing_binder(job) as engine:
            yield self._served(engine)

    @contextmanager
    def room_for_one(self) -> Iterator[EngineBinder]:
        with super().room_for_one() as engine:
            yield self._served(engine)
        self._served(super().binder())

    def _served(self, engine: Any) -> EngineBinder:
        return self.link.serve(engine, engine.address)


@trial("TestContract")
class TestContractThroughAnAgent(EngineContract):
    """The same contract, by calls over an agent's connection."""

    @pytest.fixture(scope="class")
    @classmethod
    def linked(
        cls, spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[LinkedSparkBench]:
        directory = tmp_path_factory.mktemp("linked")
        with MosquittoServer(directory / "mosquitto") as broker:
            bench = LinkedSparkBench(spark_server, broker, directory)
            yield bench
            bench.close()
            bench.link.close()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, linked: LinkedSparkBench) -> Iterator[SharedJobs]:
        with ExitStack() as ends:  # before the link is closed
            yield SharedJobs(ends)

    @pytest.fixture
    def bench(self, linked: LinkedSparkBench) -> LinkedSparkBench:
        return linked


@trial("tests/promises/test_autonomy.py")
@pytest.mark.engine
def test_a_server_that_was_killed_gets_its_job_again_from_its_agent(tmp_path: Path) -> None:
    with MosquittoServer(tmp_path / "broker") as broker, SparkServer(tmp_path / "server") as server:
        bench = LinkedSparkBench(server, broker, tmp_path)
        try:
            job, engine = bench.job("alone", "upper"), bench.binder()
            handle = engine.submit(job, attempt_of(job))
            await_state(engine, handle, JobState.RUNNING)
            for number in range(2):
                server.kill()
                bench.mqtt.send(job.source_topic, [f"{number}-{each}" for each in range(50)])
                server.start()
                if number == 0:
                    await_state(engine, handle, JobState.RUNNING)
                    assert engine.metrics(handle)
                most = 50 * (number + 1)
                eventually(lambda: len(set(bench.mqtt.got(job))), lambda found, most=most: found == most)
                bench.link.hub.close()
            record = bench.link.agent.attempts.of_handle(server.address, handle)
            assert record is not None
            assert record.runs == 3
        finally:
            bench.close()
            bench.link.close()


def start(bench: SparkBench, job: Job) -> Handle:
    engine = bench.binder()
    handle = engine.submit(job, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    return handle


# -- jobs of every form


@pytest.mark.parametrize(
    ("entry", "arguments", "expected"),
    [
        ("upper", {"suffix": "!"}, {"A!": 2, "B!": 1}),
        ("Upper", {"suffix": "!"}, {"A!": 2, "B!": 1}),
        ("reverse", {}, {"a": 2, "b": 1}),
        ("active_session", {}, {"Aarhus": 2}),
    ],
)
def test_messages_go_through(
    site_bench: SparkBench, job_name: str, entry: str, arguments: dict[str, str], expected: dict[str, int]
) -> None:
    job = site_bench.job(job_name, entry, **arguments)
    handle = start(site_bench, job)
    site_bench.mqtt.send(job.source_topic, ["a", "b", "a"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: Counter(got) == expected)
    site_bench.binder().stop(handle, keep_state=False)


def test_a_query_names_its_store_to_any_coordinator_until_it_ends(
    site_bench: SparkBench, job_name: str
) -> None:
    job = site_bench.job(job_name, "upper")
    attempt = replace(attempt_of(job, 3), incarnation=2, origin=7, lineage="b" * 32)
    engine, other = site_bench.binder(), site_bench.binder()
    handle = engine.submit(job, attempt)

    def listed() -> list[Found]:
        return [each for each in other.running() if each.job_name == job.job_name]

    (found,) = listed()
    assert (found.engine_id, found.attempt, found.owner) == (handle.details["run"], attempt.id, attempt.owner)
    assert (found.number, found.incarnation, found.origin, found.lineage) == (3, 2, 7, "b" * 32)
    assert (found.form, found.code) == (form_fingerprint(job), job.code_hash)
    assert other.find(attempt) == handle
    # As of a version before these marks: the name alone, until the attempt is submitted once more.
    other._running.forget(handle.details["run"])
    assert listed() == [Found(handle.details["run"], job.job_name)]
    assert other.submit(job, attempt) == handle
    assert listed() == [found]
    engine.stop(handle, keep_state=False)
    assert listed() == []
    assert handle.details["run"] not in other._probe.evaluate(_LISTED)


@pytest.mark.parametrize("entry", ["relay", "cast", "mapped"])
def test_contents_pass_unchanged(site_bench: SparkBench, job_name: str, entry: str) -> None:
    job = site_bench.job(job_name, entry, JOBS / "contents.py")
    handle = start(site_bench, job)
    site_bench.mqtt.send(job.source_topic, CONTENTS)
    got = eventually(lambda: site_bench.mqtt.got_bytes(job), lambda got: len(got) == len(CONTENTS))
    assert sorted(got) == sorted(CONTENTS)
    site_bench.binder().stop(handle, keep_state=False)


def test_contents_that_are_no_text_are_an_error_after_which_an_agent_starts_the_job(
    site_bench: SparkBench, job_name: str, tmp_path: Path
) -> None:
    job = site_bench.job(job_name, "marked", JOBS / "contents.py")
    engine, attempt = site_bench.binder(), attempt_of(job)
    handle = engine.submit(job, attempt)
    site_bench.mqtt.send(job.source_topic, CONTENTS)
    status = eventually(lambda: engine.status(handle), lambda found: found.state is JobState.FAILED)
    assert (
        f"message 2 of topic '{job.source_topic}' is not text: byte 0xFF at position 1 of 2" in status.message
    )
    assert "expected UTF-8, or a job that takes the column value as BINARY" in status.message
    mended = replace(job, on_error="skip")
    durable = started_by_lone_agent(engine, mended, attempt, handle, tmp_path)
    got = eventually(lambda: site_bench.mqtt.got_bytes(job), lambda got: len(got) >= len(TEXTS))
    assert sorted(got) == sorted(text + b"!" for text in TEXTS)
    assert durable.status(handle).state is JobState.RUNNING
    durable.stop(handle, keep_state=False)
    assert durable.running() == []


@pytest.mark.parametrize("trigger", [None, "real-time"])
def test_contents_that_are_no_text_are_parked_unchanged(
    site_bench: SparkBench, job_name: str, trigger: str | None
) -> None:
    job = site_bench.job(job_name, "marked", JOBS / "contents.py")
    job = replace(job, on_error="park", park_topic=f"out/parked/{job_name}", trigger=trigger)
    site_bench.mqtt.send(job.source_topic, CONTENTS)
    handle = start(site_bench, job)
    parked = replace(job, sink_topic=job.park_topic or "")
    got = eventually(lambda: site_bench.mqtt.got_bytes(parked), lambda got: len(got) == len(OTHERS))
    assert got == list(OTHERS)
    got = eventually(lambda: site_bench.mqtt.got_bytes(job), lambda got: len(got) == len(TEXTS))
    assert sorted(got) == sorted(text + b"!" for text in TEXTS)
    assert site_bench.binder().status(handle).state is JobState.RUNNING
    site_bench.binder().stop(handle, keep_state=False)


def test_a_type_of_contents_that_is_not_known_is_refused(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name, "unknown", JOBS / "contents.py")
    with pytest.raises(Rejected, match=r"its value_type is 'bytes' \(expected text or binary\)"):
        site_bench.binder().submit(job, attempt_of(job))


def test_messages_have_a_key_and_an_offset_if_the_job_asks_for_them(
    site_bench: SparkBench, job_name: str
) -> None:
    before = site_bench.job(f"{job_name}-before", "with_key", JOBS / "contents.py")
    job = replace(
        site_bench.job(job_name, "with_metadata", JOBS / "contents.py"), source_topic=f"in/{job_name}"
    )
    before = replace(before, sink_topic=job.source_topic)
    site_bench.mqtt.send(job.source_topic, ["first", "second"])
    handles = [start(site_bench, each) for each in (before, job)]
    eventually(lambda: site_bench.mqtt.got(job), lambda got: len(got) == 2)
    site_bench.mqtt.send(before.source_topic, ["\N{LATIN SMALL LETTER AE}"])
    got = eventually(lambda: site_bench.mqtt.got(job), lambda got: len(got) == 3)
    assert sorted(got) == [
        "none 0 first",
        "none 1 second",
        "\N{LATIN SMALL LETTER AE} 2 \N{LATIN SMALL LETTER AE}",
    ]
    for handle in handles:
        site_bench.binder().stop(handle, keep_state=False)


def test_messages_keep_their_order(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name, "upper")
    values = [f"{number:02}" for number in range(60, 0, -1)]
    site_bench.mqtt.send(job.source_topic, values)  # they wait in the job's session: one batch takes them
    handle = start(site_bench, job)
    eventually(lambda: site_bench.mqtt.got(job), lambda got: len(got) >= len(values))
    assert site_bench.mqtt.got(job) == values
    site_bench.binder().stop(handle, keep_state=False)


def test_an_aggregation_writes_updates(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name, "count")
    handle = start(site_bench, job)
    site_bench.mqtt.send(job.source_topic, ["a"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got == ["a 1"])
    site_bench.mqtt.send(job.source_topic, ["b"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got == ["a 1", "b 1"])
    site_bench.binder().stop(handle, keep_state=False)


@pytest.mark.parametrize(("entry", "mode"), [("total", None), ("count", "complete")])
def test_a_job_may_ask_for_its_output_mode(
    site_bench: SparkBench, job_name: str, entry: str, mode: str | None
) -> None:
    job = replace(site_bench.job(job_name, entry), output_mode=mode)
    handle = start(site_bench, job)
    site_bench.mqtt.send(job.source_topic, ["a"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got == ["a 1"])
    site_bench.mqtt.send(job.source_topic, ["b"])
    eventually(lambda: sorted(site_bench.mqtt.got(job)), lambda got: got == ["a 1", "a 1", "b 1"])
    site_bench.binder().stop(handle, keep_state=False)


def _removed(directory: str) -> bool:
    """Remove a directory in which a job may be writing; false if it wrote meanwhile."""
    shutil.rmtree(directory, ignore_errors=True)
    return not Path(directory).exists()


@pytest.mark.parametrize("running", [False, True])
def test_a_checkpoint_that_is_gone_is_named(site_bench: SparkBench, job_name: str, running: bool) -> None:
    job, engine = site_bench.job(job_name, "count"), site_bench.binder()
    handle = start(site_bench, job)
    site_bench.mqtt.send(job.source_topic, ["a"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got == ["a 1"])
    place = handle.details["checkpoint"]
    if not running:
        engine._client.release(handle.engine_id)  # as when the server was killed
    eventually(lambda: _removed(place), bool)
    with pytest.raises(StateLost, match=rf"'{place}' is gone.*upgrade: stateless"):
        engine.stop(handle, keep_state=True)
    assert (engine.status(handle).state is JobState.LOST) is not running
    assert engine.stop(handle, keep_state=False) is None


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
def test_an_archive(site_bench: SparkBench, job_name: str, suffix: str, tmp_path: Path) -> None:
    archive = tmp_path / f"streets-1.0-py3-none-any{suffix}"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr("streets/__init__.py", "")
        package.writestr("streets/names.py", "def shout(text):\n    return text.upper() + '!'\n")
        package.write(JOBS / "in_archive.py", "streets/cleaning.py")
    job = site_bench.job(job_name, "streets.cleaning.clean", archive)
    assert CONNECT.check_code(archive, job.entry_class) is None
    handle = start(site_bench, job)
    site_bench.mqtt.send(job.source_topic, ["a"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got == ["A!"])
    site_bench.binder().stop(handle, keep_state=False)


@pytest.mark.parametrize(
    ("entry", "arguments", "message"),
    [
        ("fails_in_analysis", {}, r"`nothing` cannot be resolved.*simple\.py, line \d+"),
        ("no_value", {}, "no column 'value' .it has text"),
        ("not_streaming", {}, "not streaming"),
        ("nothing", {}, "returned a NoneType .expected a DataFrame"),
        ("exits", {}, "ended the process that ran it .exit status 3"),
        ("not_callable", {}, "not_callable is a int"),
        ("upper", {"prefix": "x"}, "unexpected keyword argument 'prefix'"),
        ("count_to_append", {}, "output_mode 'append' needs a watermark"),
        ("bad_mode", {}, "output_mode is 'sometimes' .expected append, update or complete"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_stays(
    site_bench: SparkBench, job_name: str, entry: str, arguments: dict[str, str], message: str
) -> None:
    job = site_bench.job(job_name, entry, **arguments)
    attempt = attempt_of(job)
    with pytest.raises(Rejected, match=message) as caught:
        site_bench.binder().submit(job, attempt)
    assert job.job_name in str(caught.value)
    assert not site_bench.session_exists(attempt.id)


def test_code_that_never_ends_is_killed(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name, "never_ends")
    attempt = attempt_of(job)
    engine = site_bench.binder()
    engine.build_timeout = 1.0
    with pytest.raises(Rejected, match="did not come to a started query in 1 s"):
        engine.submit(job, attempt)
    assert not site_bench.session_exists(attempt.id)


def test_an_attempt_that_ended_is_not_started_again(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name)
    attempt = attempt_of(job)
    engine = site_bench.binder()
    engine.stop(engine.submit(job, attempt), keep_state=False)
    with pytest.raises(Rejected, match="ended before"):
        engine.submit(job, attempt)


# -- what is shown


def test_metrics_count_rows(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name)
    handle = start(site_bench, job)
    engine = site_bench.binder()
    site_bench.mqtt.send(job.source_topic, ["a", "b", "c"] * 10)
    metrics = eventually(lambda: engine.metrics(handle), lambda found: found.input_rows == 30)
    # The batch of the last report may be the one that the last rows are in, or the idle one after it.
    eventually(lambda: engine.metrics(handle).state_rows, lambda rows: rows == 3)
    assert metrics.batch_duration_ms is not None
    assert metrics.batch_duration_ms > 0
    assert metrics.details["redelivered"] == 0
    assert metrics.waiting == 0
    assert metrics.counted_at is not None
    assert abs(metrics.counted_at - metrics.observed_at) < 120  # s; the same clock, here
    engine.stop(handle, keep_state=False)


def test_capacity_and_room(site_bench: SparkBench, job_name: str) -> None:
    engine = site_bench.binder()
    before = engine.capacity()
    assert (before.slots, before.cores, before.memory) == (40, 2, 600 << 20)
    job, other = site_bench.job(job_name), site_bench.job(f"{job_name}-other")
    handle = start(site_bench, job)
    after = engine.capacity()
    assert before.slots_free is not None
    assert after.slots_free == before.slots_free - 1
    full = one_site("A", engine.address, site_bench.broker.address, slots=1)
    small = connect_engine(engine.address, Inventory({"A": full}))
    small.check(job, None)  # the slot it has comes free first
    with pytest.raises(NoCapacity, match="1 slots, 1 in use"):
        small.check(other, None)
    small.stop(handle, keep_state=False)
    with pytest.raises(NoCapacity, match="1 slots, 0 in use, 1 reserved for jobs"):
        small.check(other, None)  # it was promised to the job that was asked about first
    small.stop(small.submit(job, attempt_of(job, 2)), keep_state=False)
    small.check(other, None)
    small.close()


# -- many, and from elsewhere


def test_six_jobs_side_by_side(site_bench: SparkBench, job_name: str) -> None:
    engine = site_bench.binder()
    jobs = [site_bench.job(f"{job_name}-{number}", "upper") for number in range(6)]
    attempts = [attempt_of(job) for job in jobs]
    with ThreadPoolExecutor(CONNECT.bound) as pool:
        handles = list(pool.map(engine.submit, jobs, attempts))
        for job in jobs:
            site_bench.mqtt.send(job.source_topic, [job.job_name])
        for job in jobs:
            eventually(lambda job=job: site_bench.mqtt.got(job), lambda got: len(got) == 1)  # type: ignore[misc]
        assert [site_bench.mqtt.got(job) for job in jobs] == [[job.job_name.upper()] for job in jobs]
        list(pool.map(lambda handle: engine.stop(handle, keep_state=False), handles))
    assert not any(site_bench.session_exists(attempt.id) for attempt in attempts)


FIND = """
import sys
from binders.spark import connect_engine
from speck.core.inventory import Inventory
from speck.core.runtime import Attempt
address, attempt_id, name = sys.argv[1:]
engine = connect_engine(address, Inventory())
handle = engine.find(Attempt(id=attempt_id, job_name=name, number=1, session=f"speck-{name}"))
print(handle.engine_id, engine.status(handle).state.value)
"""


def test_another_process_finds_it_and_leaves_it(site_bench: SparkBench, job_name: str) -> None:
    job = site_bench.job(job_name)
    attempt = attempt_of(job)
    engine = site_bench.binder()
    handle = engine.submit(job, attempt)
    await_state(engine, handle, JobState.RUNNING)
    arguments = [sys.executable, "-c", FIND, engine.address, attempt.id, job_name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.split() == [handle.engine_id, "running"]
    assert engine.status(handle).state is JobState.RUNNING
    engine.stop(handle, keep_state=False)


# -- servers that fail


@trial("the same through the loop of a coordinator, in tests/controller/test_reconciler_engines.py")
def test_a_killed_server_and_counts_that_go_on(site_bench: SparkBench, job_name: str) -> None:
    server, engine, job = site_bench.server, site_bench.binder(), site_bench.job(job_name)
    first = engine.submit(job, attempt_of(job))
    site_bench.mqtt.send(job.source_topic, ["a"] * 50)
    eventually(lambda: site_bench.mqtt.got(job), lambda got: "a 50" in got)
    server.kill()
    assert engine.status(first).state is JobState.UNKNOWN
    site_bench.mqtt.send(job.source_topic, ["a"] * 25)
    server.start()
    await_state(engine, first, JobState.LOST)  # once the client has tried to connect again
    assert engine.find(attempt_of(job)) is None
    state = engine.stop(first, keep_state=True)
    engine.check(job, state)
    second = engine.submit(job, attempt_of(job, 2, state))
    site_bench.mqtt.send(job.source_topic, ["a"] * 25)
    eventually(lambda: site_bench.mqtt.got(job), lambda got: "a 100" in got)
    await_state(engine, second, JobState.RUNNING)
    assert max(int(value.split()[1]) for value in site_bench.mqtt.got(job)) == 100
    engine.stop(second, keep_state=False)


@pytest.mark.engine
def test_a_server_without_the_connector(tmp_path: Path) -> None:
    server = SparkServer(tmp_path / "spark")
    server.with_connector = False
    with MosquittoServer(tmp_path / "mosquitto") as broker, server:
        bench = SparkBench(server, broker, tmp_path)
        job = bench.job("a")
        with pytest.raises(Rejected, match=r"no data source 'mqtt' \(start it with spark-mqtt\.jar"):
            bench.binder().check(job, None)
        bench.close()


def test_a_stop_loses_and_doubles_nothing(site_bench: SparkBench, job_name: str) -> None:
    engine, job = site_bench.binder(), site_bench.job(job_name)
    sender = threading.Thread(target=site_bench.mqtt.send, args=(job.source_topic, ["a"] * 2000))
    state = None
    sender.start()
    for number in range(1, 4):
        handle = engine.submit(job, attempt_of(job, number, state))
        eventually(lambda: engine.metrics(handle).input_rows, bool)  # noqa: B023 - of this round
        state = engine.stop(handle, keep_state=True)
        assert state is not None
    sender.join()
    handle = engine.submit(job, attempt_of(job, 4, state))
    eventually(lambda: site_bench.mqtt.got(job), lambda got: "a 2000" in got)
    assert max(int(value.split()[1]) for value in site_bench.mqtt.got(job)) == 2000
    engine.stop(handle, keep_state=False)


def test_a_job_in_real_time_gives_each_message_and_ends_at_an_order(
    site_bench: SparkBench, job_name: str
) -> None:
    engine, job = site_bench.binder(), replace(site_bench.passing_job(job_name), trigger="real-time")
    engine.check(job, None)
    handle = engine.submit(job, attempt_of(job, 1))
    eventually(lambda: engine.has_worked(handle), bool)
    site_bench.send(job, ["a", "b"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got == ["a", "b"])
    state = engine.stop(handle, keep_state=True)
    again = engine.submit(job, attempt_of(job, 2, state))
    site_bench.send(job, ["c"])
    eventually(lambda: site_bench.mqtt.got(job), lambda got: got[-1:] == ["c"])
    assert site_bench.mqtt.got(job) == ["a", "b", "c"]  # a batch that is broken off is repeated
    engine.stop(again, keep_state=False)


def test_a_job_in_real_time_needs_a_plan_that_works_row_by_row(site_bench: SparkBench, job_name: str) -> None:
    job = replace(site_bench.job(job_name), trigger="real-time")
    with pytest.raises(Rejected, match="'real-time' has a node Aggregate, which does not work row by row"):
        site_bench.binder().check(job, None)


def test_a_job_in_real_time_without_a_task_slot_is_refused(site_bench: SparkBench, job_name: str) -> None:
    job = replace(site_bench.passing_job(job_name), trigger="real-time", parallelism=9)
    with pytest.raises(NoCapacity, match="needs 9 task slots, 8 of 10 are for such jobs"):
        site_bench.binder().check(job, None)


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_client, "QUICK", 0.5)
    monkeypatch.setattr(grpc_client, "SLOW", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"sc://127.0.0.1:{listener.getsockname()[1]}"
        engine = connect_engine(address, Inventory())
        with pytest.raises(OutcomeUnknown, match="did not answer"):
            engine.capacity()
        lost = Handle(address, "0" * 8, {"query": "q", "run": "r", "job": "j"})
        assert engine.status(lost).state is JobState.UNKNOWN
        engine.close()


class Answering(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers every method with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def service(self, asked: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if asked.method.endswith("/ExecutePlan"):
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([self._answer]))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._answer)


@pytest.mark.slow("starts a new process of queries")
@pytest.mark.parametrize("answer", [None, b"\xff\xff"], ids=["nothing", "rubbish"])
def test_another_server_that_speaks_grpc(job_name: str, answer: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def run(messages):\n    return messages\n", encoding="utf-8")
    code = {"job_path": str(tmp_path / "jobs.py"), "entry_class": "run"}
    with grpc_server(*(() if answer is None else (Answering(answer),))) as port:
        address = f"sc://127.0.0.1:{port}"
        one = job(job_name, engine="spark", spe_address=address, **code)
        lost = Handle(address, "0" * 8, {"query": "q", "run": "r", "job": "j", "checkpoint": "c"})
        with closing(connect_engine(address, Inventory())) as engine:
            assert_unusable(engine, one, attempt_of(one), lost, OutcomeUnknown)
            with pytest.raises(OutcomeUnknown, match="gave an answer that is not Spark Connect's"):
                engine.check(one, None)


@pytest.mark.parametrize(
    "address", ["sc://", "sc://host:port", "http://127.0.0.1:1", "sc://127.0.0.1:1/path"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(Rejected, match="expected sc://HOST:PORT"):
        connect_engine(address, Inventory())


# -- secrets


def test_secrets_go_to_the_connector_alone(
    site_bench: SparkBench, job_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2")
    login = Login(username="speck", password=Secret("${BROKER_PASSWORD}"))
    site = one_site(
        "A",
        site_bench.server.address,
        site_bench.broker.address,
        login=login,
    )
    engine = connect_engine(site_bench.server.address, Inventory({"A": site}))
    job = site_bench.job(job_name, "environment", name="BROKER_PASSWORD")
    with pytest.raises(Rejected, match="BROKER_PASSWORD is not there") as caught:
        engine.submit(job, attempt_of(job))
    assert "hunter2" not in str(caught.value)
    spec = engine._query_spec(job, attempt_of(job))  # type: ignore[attr-defined]
    assert spec.source_options["password"] == "hunter2"
    assert spec.source_options["clientId"] == client_id(job_name)
    assert "hunter2" not in repr(spec)
    engine.close()


# -- the launcher


OWNER = """
import sys, threading, time
from binders.spark.connect.launcher import Launcher
launcher = Launcher()
launcher.warm_up()
print(launcher.pid, flush=True)
time.sleep(600)
"""


def test_the_fork_server_dies_with_its_owner() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert owner.stdout is not None
    fork_server = int(owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    owner.wait(30)
    owner.stdout.close()
    assert gone(fork_server)


def test_a_killed_fork_server_is_replaced(site_bench: SparkBench, job_name: str) -> None:
    engine = site_bench.binder()
    launcher: Launcher = engine._launcher
    launcher.warm_up()
    assert launcher.pid is not None
    os.kill(launcher.pid, signal.SIGKILL)
    assert gone(launcher.pid)
    job = site_bench.job(job_name)
    engine.stop(engine.submit(job, attempt_of(job)), keep_state=False)


@pytest.mark.slow("starts a new process of queries")
def test_a_malformed_specification_is_answered() -> None:
    launcher = Launcher()
    try:
        assert launcher.launch("no JSON", 30.0)["kind"] == "died"
    finally:
        launcher.close()
    assert launcher.pid is None


def test_a_machine_that_starts_no_more_processes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = Launcher()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    launcher.warm_up()
    answer = launcher.launch("no matter", 30.0)
    launcher.close()
    assert answer["kind"] == "refused"
    assert "no process can be started for its code: No such file" in answer["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_proxy_of_the_environment_is_used(
    site_bench: SparkBench, job_name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_proxy() as proxy:
        proxy.install(monkeypatch)
        engine = site_bench.at(site_bench.server.address.replace("127.0.0.1", host))
        job = site_bench.job(job_name)
        engine.check(job, None)
        handle = engine.submit(job, attempt_of(job))
        await_state(engine, handle, JobState.RUNNING)
        engine.stop(handle, keep_state=False)
        assert proxy.seen == []
