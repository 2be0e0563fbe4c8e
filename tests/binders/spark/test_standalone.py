"""The Spark standalone binder against a real cluster, a real artifact server and a real broker."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from binders.flink.engine import connect_engine as connect_flink
from binders.mqtt import MQTT, MqttBroker
from binders.spark import CONNECT, STANDALONE, connect_engine
from binders.spark.local.standalone_cluster import JOBS as JOBS_OF_A_CLUSTER
from binders.spark.standalone import driver_registry, job_drivers, submission
from binders.spark.standalone.engine import StandaloneEngine
from speck import local
from speck.binder import EngineBinder, Registry
from speck.core.inventory import Engine, Inventory, Login, Secret
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, JobState, State
from speck.core.split import Split, expand
from speck.errors import NoCapacity, OutcomeUnknown, Rejected, Unreachable
from speck.schema.inventory import load_inventory
from speck.testing import EngineContract, attempt_of, await_state, eventually
from testbed import ROOT
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS, SparkBench, gone
from testbed.benches.standalone import StandaloneBench
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.password_broker import VARIABLE, PasswordBroker
from testbed.servers.rest import rest_server
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import LooseCluster, StandaloneServer
from tests.support.trials import skip_trial, trial, trials_run

ROAD_TRAFFIC = ROOT / "jars_and_apps" / "road_traffic" / "jobs.py"


@pytest.fixture(name="bench", scope="module")
def bench_fixture(
    standalone_server: StandaloneServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneBench]:
    directory = tmp_path_factory.mktemp("bench")
    # The API wants a token, and the artifacts have their own.
    with (
        MosquittoServer(directory / "mosquitto") as broker,
        rest_server(directory / "coordinator", token="of-the-api") as rest,
    ):
        assert rest.services.files is not None
        bench = StandaloneBench(standalone_server, broker, rest.services.files)
        yield bench
        bench.close()


@pytest.fixture(name="site_bench", scope="module")
def site_bench_fixture(
    spark_server: SparkServer, bench: StandaloneBench, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkBench]:
    """A Connect server of the same site."""
    site_bench = SparkBench(spark_server, bench.broker, tmp_path_factory.mktemp("connect"))
    yield site_bench
    site_bench.close()


# Each starts drivers of its own, at 6 s of processor time a driver.  Starting, stopping, finding and failing
# are in the others, and the launched program is the one that Connect starts.  A profile is read from the same
# report of a driver as metrics are.  A driver of a lost answer is found as that of another coordinator, and
# tests/binders/spark/test_driver_registry.py has the answers of the master.
CONTRACT_TRIALS = {
    "test_submit_at_the_same_time",
    "test_submit_whose_response_is_lost",
    "test_no_room",
    "test_jobs_do_not_see_each_other",
    "test_engine_plan",
    "test_profile",
    "test_engine_that_is_slow",
    "test_start_from_state",
    "test_stop_twice",
    "test_code_that_is_corrupt",
    "test_code_that_is_missing",
    "test_code_that_fails_at_build",
    "test_code_that_fails_at_run",
    "test_a_job_is_built_without_a_start",
}


class TestContract(EngineContract):
    """The contract that all engines keep."""

    @pytest.fixture(autouse=True)
    def _trials(self, request: pytest.FixtureRequest) -> None:
        if request.function.__name__ in CONTRACT_TRIALS:
            skip_trial("the same on Spark Connect")

    @pytest.fixture
    def bench(self, bench: StandaloneBench) -> StandaloneBench:
        return bench


def start(bench: StandaloneBench, job: Job, number: int = 1, state: State | None = None) -> Handle:
    engine = bench.binder()
    handle = engine.submit(job, attempt_of(job, number, state))
    await_state(engine, handle, JobState.RUNNING)
    return handle


# -- jobs as on Connect


# In the order of their times, so that no reading is late, however they come in batches.
LINES = [
    f"OK,80,{speed},1,81,2014-08-01T07:{minute:02}:00,{vehicles},20746220,158324"
    for minute, speed, vehicles in [(5, 61, 12), (6, 70, 1), (50, 40, 7), (51, 52, 3), (59, 60, 0)]
]


@trial("a function on each of them")
def test_a_function_does_the_same_on_both(
    bench: StandaloneBench, site_bench: SparkBench, job_name: str
) -> None:
    results = []
    for site in (site_bench, bench):
        job = site.job(job_name, "local_stats", ROAD_TRAFFIC, site="A")
        site.mqtt.send(job.source_topic, LINES)
        engine = site.binder()
        engine.check(job, None)
        handle = engine.submit(job, attempt_of(job))
        ask = partial(_windows, site, job)
        results.append(eventually(ask, lambda got: sum(each["vehicles"] for each in got) == 23))
        engine.stop(handle, keep_state=False)
    assert results[0] == results[1]


@trial("the same on Spark Connect")
def test_a_split_keeps_its_state_over_a_restart_of_its_driver(bench: StandaloneBench, job_name: str) -> None:
    split = Split(combiners=2, partitioner="balanced", window_us=10_000_000, slide_us=10_000_000)
    (job,) = expand(bench.job(job_name, "Sums", JOBS / "key_split.py"), split)
    engine = bench.binder()
    handle = engine.submit(job, attempt_of(job))
    bench.send(job, ["a,1700000000,3", "a,1700000001,-1", "b,1700000002,7"])
    eventually(lambda: engine.metrics(handle).input_rows, lambda rows: rows == 3)
    state = engine.stop(handle, keep_state=True)
    handle = engine.submit(job, attempt_of(job, 2, state))
    bench.send(job, ["a,1700000009,5", "b,1700000011,1"])
    rows = [json.loads(text) for text in eventually(lambda: bench.mqtt.got(job), lambda got: len(got) == 2)]
    assert [(row["key"], row["count"], row["sum"]) for row in rows] == [("a", 3, 7), ("b", 1, 7)]
    engine.stop(handle, keep_state=False)


def _windows(site: SparkBench | StandaloneBench, job: Job) -> list[dict[str, Any]]:
    """The last result of each window, however the readings came in batches."""
    found = {each["start"]: each for each in map(json.loads, site.mqtt.got(job))}
    return [found[start] for start in sorted(found)]


def test_a_python_function_runs_in_the_executor_in_the_zone_of_the_job(
    bench: StandaloneBench, job_name: str
) -> None:
    job = replace(bench.job(job_name, "described", JOBS / "days.py"), parallelism=2, timezone="Asia/Tokyo")
    bench.mqtt.send(job.source_topic, ["2026-03-29 12:00:00"])
    handle = start(bench, job)
    eventually(lambda: bench.mqtt.got(job), lambda got: got == ["2026-03-29 12:00:00 JST"])
    apps = requests.get(f"{bench.master.ui}/json/", timeout=30).json()["activeapps"]
    (cores,) = [app["cores"] for app in apps if f" {job_name} " in app["name"]]
    assert cores == 2  # and not all that there are
    bench.binder().stop(handle, keep_state=False)


@trial("moves in tests/binders/spark/test_checkpoint_transfer.py, and the state of a driver in the contract")
def test_a_move_between_connect_and_standalone_and_back(
    bench: StandaloneBench, site_bench: SparkBench, job_name: str
) -> None:
    """One broker, one checkpoint that both see; messages come while the job is moved."""
    job = bench.job(job_name)
    sender = threading.Thread(target=bench.mqtt.send, args=(job.source_topic, ["a"] * 3000))
    # Both engines are of one site, and both see its checkpoints.
    site = bench.inventory.sites["A"]
    (here,) = site.engines
    there = Engine(spe_address=site_bench.server.address, checkpoint_dir=here.checkpoint_dir)
    inventory = Inventory({"A": replace(site, engines=(here, there))})
    connect, standalone = connect_engine(there.spe_address, inventory), bench.binder()
    state = None
    sender.start()
    for number, engine in enumerate((connect, standalone), 1):
        engine.check(job, state)
        handle = engine.submit(job, attempt_of(job, number, state))
        eventually(lambda: engine.metrics(handle).input_rows, bool)  # noqa: B023 - of this round
        state = engine.stop(handle, keep_state=True)
        assert state is not None
    sender.join()
    handle = connect.submit(job, attempt_of(job, 3, state))
    eventually(lambda: bench.mqtt.got(job), lambda got: "a 3000" in got)
    assert max(int(value.split()[1]) for value in bench.mqtt.got(job)) == 3000
    connect.stop(handle, keep_state=False)
    connect.close()


# -- what the master heals, and what it does not


def test_a_killed_driver_goes_on_without_a_coordinator(bench: StandaloneBench, job_name: str) -> None:
    job, attempt_number = bench.job(job_name), 1
    engine = bench.binder()
    handle = start(bench, job, attempt_number)
    bench.mqtt.send(job.source_topic, ["a"] * 40)
    eventually(lambda: bench.mqtt.got(job), lambda got: "a 40" in got)
    shutil.rmtree(bench.files.directory / "served")  # nothing can be fetched any more
    bench.server.driver(handle.engine_id).kill()
    bench.mqtt.send(job.source_topic, ["a"] * 2)
    eventually(lambda: bench.mqtt.got(job), lambda got: "a 42" in got)
    status = await_state(engine, handle, JobState.RUNNING)
    assert "started 2 times" in status.message
    assert bench.running(job_name) == 1
    if not trials_run():  # a third driver; MqttQueryTest has a reader whose session is taken over
        engine.stop(handle, keep_state=False)
        return
    # A newer attempt may read now, so that the one that is started once more ends without a successor.
    bench.fence(job, attempt_number + 1)
    bench.server.driver(handle.engine_id).kill()
    status = await_state(engine, handle, JobState.FAILED)
    assert "taken over by attempt 2" in status.message
    eventually(lambda: bench.server.processes(handle.engine_id), lambda processes: processes == [])
    assert max(int(value.split()[1]) for value in bench.mqtt.got(job)) == 42


@trial("a killed driver")
def test_a_lost_worker(bench: StandaloneBench, job_name: str, tmp_path: Path) -> None:
    """The master starts the driver elsewhere, under another id, which takes the lease over."""
    with LooseCluster(tmp_path / "cluster") as cluster:
        moved = StandaloneBench(cluster, bench.broker, bench.files)
        job, engine = moved.job(job_name), moved.binder()
        handle = engine.submit(job, attempt_of(job))
        moved.mqtt.send(job.source_topic, ["a"] * 5)
        eventually(lambda: moved.mqtt.got(job), lambda got: "a 5" in got)
        cluster.add_worker("second")
        eventually(lambda: len(moved.master.cluster().workers), lambda workers: workers == 2)
        cluster.kill_first_worker()
        moved.mqtt.send(job.source_topic, ["a"] * 2)
        eventually(lambda: moved.mqtt.got(job), lambda got: "a 7" in got, patience=240)
        assert max(int(value.split()[1]) for value in moved.mqtt.got(job)) == 7
        await_state(engine, handle, JobState.RUNNING)
        states = Counter(driver.state for driver in moved.master.cluster().drivers)
        assert states == {"RELAUNCHING": 1, "RUNNING": 1}
        assert engine.stop(handle, keep_state=True) is not None
        moved.close()


@trial("code that never ends")
def test_code_that_ends_its_process_is_refused(bench: StandaloneBench, job_name: str) -> None:
    job = bench.job(job_name, "exits")
    with pytest.raises(Rejected, match="ended the process that ran it"):
        bench.binder().submit(job, attempt_of(job))
    assert bench.running(job_name) == 0


def test_code_that_never_ends_is_killed(
    bench: StandaloneBench, job_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bench.job(job_name, "never_ends")
    attempt = attempt_of(job)
    engine = bench.binder()
    reported = threading.Event()

    def building() -> bool:
        chosen = engine._drivers.choose(attempt.id, bench.master.cluster())
        return chosen is not None and chosen[1] is not None and chosen[1].kind == "building"

    def lose_patience() -> None:
        eventually(building, bool)
        reported.set()

    def monotonic() -> float:
        return time.monotonic() + (engine.start_timeout if reported.is_set() else 0.0)

    monkeypatch.setattr(job_drivers, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))
    thread = threading.Thread(target=lose_patience)
    thread.start()
    with pytest.raises(Rejected, match="did not come to a started query"):
        engine.submit(job, attempt)
    thread.join()
    assert reported.is_set()
    assert bench.server.processes(attempt.id) == []


@trial("the same on Spark Connect, and code that fails while it is built")
def test_analysis_that_fails_names_the_line(bench: StandaloneBench, job_name: str) -> None:
    job = bench.job(job_name, "fails_in_analysis")
    with pytest.raises(Rejected, match=r"`nothing` cannot be resolved.*simple\.py, line \d+"):
        bench.binder().submit(job, attempt_of(job))


# -- messages on which the code fails, and a broker that refuses


@trial("the same on Spark Connect")
def test_a_poisonous_message_is_skipped_and_a_refused_reader_ends(
    bench: StandaloneBench, job_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "first")
    monkeypatch.setitem(
        submission._PROPERTIES, "spark.driver.extraJavaOptions", "-Dspeck.source.refusedSeconds=2"
    )
    with PasswordBroker(tmp_path / "mosquitto") as broker:
        inventory = replace(bench.inventory, brokers={"guarded": broker.broker})
        own = StandaloneBench(bench.server, broker, bench.files)
        job = replace(
            own.job(job_name, "doubled", JOBS / "multiplied.py"),
            source_broker=broker.guarded,
            on_error="skip",
        )
        engine = StandaloneEngine(bench.server.address, inventory)
        engine.take_artifacts(bench.files)
        own.send(job, ["1", "poison", "2"])
        state = None
        for number in (1, 2):  # it fails twice before it is left out
            handle = engine.submit(job, attempt_of(job, number, state))
            status = await_state(engine, handle, JobState.FAILED)
            assert "no such street: poison" in status.message
            state = engine.stop(handle, keep_state=True)
        handle = engine.submit(job, attempt_of(job, 3, state))
        eventually(lambda: sorted(own.mqtt.got(job)), lambda got: got == ["1-a", "1-b", "2-a", "2-b"])
        own.send(job, ["3"])  # Spark reports the counts of a batch with the next one
        eventually(lambda: engine.metrics(handle).details.get("skipped"), lambda skipped: skipped == 1)
        broker.restart_with("second")
        status = await_state(engine, handle, JobState.FAILED)
        assert "is refused since 2 s" in status.message
        assert "not authorized" in status.message.lower()
        engine.stop(handle, keep_state=False)
        engine.close()
        own.close()


# -- drivers that wait


def test_a_driver_that_no_worker_takes(
    bench: StandaloneBench, job_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, attempt = bench.job(job_name), attempt_of(bench.job(job_name))
    engine, other = bench.binder(), bench.binder()
    monkeypatch.setitem(submission._PROPERTIES, "spark.driver.cores", "1000")
    engine.start_timeout = 8.0
    waiting = threading.Thread(target=_submit_quietly, args=(engine, job, attempt))
    waiting.start()
    eventually(bench.master.cluster, lambda found: any(each.state == "SUBMITTED" for each in found.drivers))
    # Who did not submit it cannot tell whose it is, and does not say that there is none.
    monkeypatch.setattr(driver_registry, "FIND_PATIENCE", 0.5)
    with pytest.raises(OutcomeUnknown, match=r"wait for a worker.*driver-"):
        other.find(attempt)
    waiting.join()
    assert other.find(attempt) is None
    engine.start_timeout = 0.0
    with pytest.raises(NoCapacity, match="no worker accepted its driver"):
        engine.submit(job, attempt_of(job))
    assert not any(each.active for each in bench.master.cluster().drivers)


def _submit_quietly(engine: StandaloneEngine, job: Job, attempt: Attempt) -> None:
    with contextlib.suppress(NoCapacity):
        engine.submit(job, attempt)


# -- what is asked beforehand


def test_what_is_missing_is_said_before_anything_is_asked(bench: StandaloneBench, job_name: str) -> None:
    job = bench.job(job_name)
    without_files = STANDALONE.connect(bench.server.address, bench.inventory)
    with pytest.raises(Rejected, match=r"serves none \(speck serve does; its --advertise"):
        without_files.check(job, None)
    without_files.close()
    engine = StandaloneEngine(bench.server.address, Inventory())
    engine.take_artifacts(bench.files)
    with pytest.raises(Rejected, match="has no checkpoint_dir"):
        engine.check(job, None)
    engine.close()


def test_arguments_that_are_too_long(bench: StandaloneBench, job_name: str) -> None:
    job = bench.job(job_name, "good", JOBS / "simple.py", suffix="x" * 200_000)
    with pytest.raises(Rejected, match="arguments are too long"):
        bench.binder().submit(job, attempt_of(job))


@pytest.mark.parametrize(
    "address",
    ["spark://", "spark://host:port", "http://127.0.0.1:1", "spark://a:1/b", "spark://a:7077,b:7077"],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(Rejected, match="expected spark://HOST:PORT"):
        STANDALONE.connect(address, Inventory())


PORTS = ("master", "REST server", "web interface")


@pytest.mark.parametrize("which", range(len(PORTS)), ids=PORTS)
def test_another_service_at_the_address(
    bench: StandaloneBench, site_bench: SparkBench, job_name: str, which: int
) -> None:
    """Each port of the cluster where another is meant: told in one line, with what would be right."""
    port, (_, rest, ui, *_) = bench.server.ports[which], bench.server.ports
    job, at_it = bench.job(job_name), Inventory()
    expected: list[tuple[EngineBinder, str]] = [
        (connect_flink(f"http://127.0.0.1:{port}", at_it), "a JobManager's REST address"),
        (connect_flink(f"http://127.0.0.1:{site_bench.server.port}", at_it), "Unexpected HTTP/1.x request"),
        (connect_engine(f"sc://127.0.0.1:{port}", at_it), "expected a Spark Connect server"),
    ]
    if which != 0:
        expected.append((bench.at(port), rf"expected port {bench.server.ports[0]}: its own address is"))
    if port != rest:
        expected.append((bench.at(bench.server.ports[0], rest_port=port), "rest_port to be its port"))
    if port != ui:
        words = "ui_port of the inventory|answered 468: Unknown protocol version"
        expected.append((bench.at(bench.server.ports[0], ui_port=port), words))
    for engine, words in expected:
        with pytest.raises((OutcomeUnknown, Rejected, Unreachable), match=words) as caught:
            engine.check(job, None)
        assert str(caught.value).isprintable()
        engine.close()
    with pytest.raises(
        (OutcomeUnknown, Rejected), match="is it a broker, and does it speak MQTT 5 without TLS"
    ):
        MqttBroker(f"tcp://127.0.0.1:{port}", at_it).check()


# -- secrets


@trial("tests/binders/test_logins.py")
def test_a_password_is_in_no_log_and_on_no_command_line(
    bench: StandaloneBench, job_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2")
    site = replace(
        bench.inventory.sites["A"], broker_login=Login(username="me", password=Secret("${BROKER_PASSWORD}"))
    )
    engine = StandaloneEngine(bench.server.address, Inventory({"A": site}))
    engine.take_artifacts(bench.files)
    job = bench.job(job_name, "environment", name="SPECK_PARCEL")
    attempt = attempt_of(job)
    with pytest.raises(Rejected, match="SPECK_PARCEL is not there"):  # nor where the job's code sees it
        engine.submit(job, attempt)
    # Wherever in a text it stands, in base 64 these are its middle characters.
    encoded = [base64.b64encode(b" " * shift + b"hunter2")[4 * bool(shift) : -4] for shift in range(3)]
    for path in (bench.server.directory / "work").glob("driver-*/*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"hunter2" not in content
            assert not any(piece in content for piece in encoded)
    assert "hunter2" not in repr(engine._submitter._query_spec(job, attempt))
    engine.close()


# -- on a developer's machine


@trial("tests/local/test_local.py")
@pytest.mark.engine
def test_a_local_site_with_both_kinds_of_spark(tmp_path: Path) -> None:
    registry = Registry.of([CONNECT, STANDALONE, MQTT])
    kinds = {"A": ["spark-standalone", "spark-connect"]}
    with local.up(tmp_path / "local", 1, engines=kinds, registry=registry) as sites:
        inventory = load_inventory(sites.inventory.read_text(encoding="utf-8"))
        known = next(each for each in inventory.sites["A"].engines if each.rest_port is not None)
        engine = STANDALONE.connect(known.spe_address, inventory)
        capacity = engine.capacity()
        assert (capacity.slots, capacity.slots_free) == (JOBS_OF_A_CLUSTER, JOBS_OF_A_CLUSTER)
        assert capacity.memory == capacity.memory_free == known.memory
        engine.close()
        started = [server.pid for server in sites.servers]
    assert all(gone(pid) for pid in started if pid is not None)


@trial("the same in memory")
def test_a_link_is_measured_by_a_driver_that_ends(bench: StandaloneBench) -> None:
    engine, port = bench.binder(), REFUSING_PORT
    others = {each.id for each in bench.master.cluster().drivers if each.active}
    mqtt_client = MqttClient(bench.broker.port, "speck/probe/#")
    probe = engine.probe_link(bench.broker.address)
    assert 0 < probe.rtt < 5
    assert probe.bandwidth > 0
    assert sum(len(payload) for _, payload in mqtt_client.received if len(payload) > 1) == probe.bytes_sent
    mqtt_client.close()
    why = f"the probe of the link to tcp://127.0.0.1:{port} has failed: .*Connection refused"
    with pytest.raises(Rejected, match=why):
        engine.probe_link(f"tcp://127.0.0.1:{port}")
    cluster = bench.master.cluster()
    assert not [each for each in cluster.applications if each.startswith("speck probe")]
    assert {each.id for each in cluster.drivers if each.active} <= others
