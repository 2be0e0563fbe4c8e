"""The loop over real engines: jobs that were stopped behind its back, and engines that were restarted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from binders.spark.connect.grpc_client import ConnectClient, Query, endpoint_of
from speck.binder import installed
from speck.controller.backoff import Backoff
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job
from speck.core.runtime import Handle
from speck.core.settings import Settings
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.flink import FlinkBench
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS, SparkBench
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.password_broker import VARIABLE, PasswordBroker
from testbed.servers.spark import SparkServer
from tests.support.trials import trials_run

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]

PATIENCE = 120.0


@contextmanager
def looping(job: Job, inventory: Inventory, directory: Path, root: Path) -> Iterator[Services]:
    """A coordinator whose loop goes round quickly, with the job deployed; deletes it in the end."""
    accepted = replace(job, code_hash=hashlib.sha256(Path(job.job_path).read_bytes()).hexdigest())
    with Store(directory / "store") as store:
        services = build(
            store,
            installed(),
            inventory,
            Settings(roots=(root,), period=0.5),
            backoff=Backoff(lambda tries: 0.5),
        )
        coordinator = services.coordinator
        # Losses are counted as often as the loop goes round, and not every 20 s.
        coordinator.sampler.period = coordinator.sampler.watch_period = 0.5
        coordinator.start()
        try:
            operation, _ = user.apply(coordinator, Composition("one", {job.job_name: accepted}))
            try:
                assert operation.wait(PATIENCE)
                assert operation.state == "succeeded", operation.actions
                yield services
            finally:
                # After a failure, too: a test that runs again would meet its own job at the shared server.
                assert user.delete_composition(coordinator, "one").wait(PATIENCE)
        finally:
            coordinator.close()


def losses(services: Services, job: Job) -> dict[str, int]:
    """The messages of a job by the reason for which they were counted."""
    return {each["reason"]: each["count"] for each in services.queries.job(job.job_name)["losses"]}


def handle_of(services: Services, job: Job) -> Handle:
    """The handle of the attempt that the store names."""
    (record,) = services.coordinator.store.attempts(job.job_name)
    assert record.handle is not None
    return record.handle


def await_healed(services: Services, job: Job, times: int) -> None:
    """Wait until the job is in no drift, having been healed ``times`` times at least."""

    def reported() -> tuple[int, object]:
        kinds = [event["kind"] for event in services.queries.events(1000) if event["job"] == job.job_name]
        return kinds.count("healed"), services.queries.job(job.job_name)["drift"]

    # A copy that fails again at once is in another drift by then.
    eventually(reported, lambda seen: seen[0] >= times and seen[1] is None, PATIENCE)


def drifts(services: Services) -> list[str]:
    """The drifts that the reconciler has reported, in order."""
    return [
        each["message"].split(": ")[1] for each in services.queries.events(1000) if each["kind"] == "drift"
    ]


def test_flink_job_that_was_cancelled_and_its_cluster_that_was_restarted(
    flink_server: FlinkServer, flink_jobs: Path, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    bench, out = FlinkBench(flink_server, flink_jobs), tmp_path / "out"
    inventory = Inventory({"A": one_site("A", flink_server.address, mosquitto.address)})
    job = replace(
        bench.job("looped", rate=50, out=str(out)),
        source_broker=mosquitto.address,
        sink_broker=mosquitto.address,
    )

    def counts() -> list[int]:
        lines = out.read_text().splitlines() if out.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith("0 ")]

    def await_checkpoint(attempt: str) -> None:
        """Await one that began after something was written: an earlier one may know nothing of it."""

        def completed() -> int:
            return int((bench.rest.checkpoints(attempt) or {}).get("counts", {}).get("completed", 0))

        written = len(counts())
        eventually(counts, lambda lines: len(lines) > written, PATIENCE)
        before = completed()
        # The first of them may have begun before.
        eventually(completed, lambda count: count > before + 1, PATIENCE)

    try:
        with looping(job, inventory, tmp_path, flink_jobs.parent) as services:
            first = handle_of(services, job).engine_id
            await_checkpoint(first)
            bench.rest.cancel(first)
            await_healed(services, job, 1)
            second = handle_of(services, job).engine_id
            assert second != first
            await_checkpoint(second)
            flink_server.kill()
            eventually(
                lambda: services.queries.jobs()[0]["state"], lambda state: state == "unknown", PATIENCE
            )
            flink_server.start()
            await_healed(services, job, 2)
            assert bench.running(job.job_name) == 1
            seen = len(counts())
            eventually(lambda: len(counts()), lambda now: now > seen, PATIENCE)
            assert drifts(services) == ["stopped by hand", "missing"]
    finally:
        bench.close()
    assert counts().count(1) == 1  # it went on from its state each time, and began only once
    assert bench.running(job.job_name) == 0


def test_spark_query_that_was_stopped_and_its_server_that_was_restarted(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    bench = SparkBench(spark_server, mosquitto, tmp_path)
    job = bench.job("looped-count")
    client = ConnectClient(spark_server.address, endpoint_of(spark_server.address))

    def sent(count: int) -> None:
        bench.feed(job)
        eventually(lambda: bench.mqtt.got(job), lambda got: f"a {count}" in got, PATIENCE)

    try:
        with looping(job, bench.inventory, tmp_path, JOBS) as services:
            sent(1)
            handle = handle_of(services, job)
            client.stop_query(handle.engine_id, Query(handle.details["query"], handle.details["run"]))
            await_healed(services, job, 1)
            sent(2)
            spark_server.kill()
            eventually(
                lambda: services.queries.jobs()[0]["state"], lambda state: state == "unknown", PATIENCE
            )
            spark_server.start()
            await_healed(services, job, 2)
            sent(3)
            assert bench.running(job.job_name) == 1
            assert drifts(services) == ["stopped by hand", "missing"]
    finally:
        client.close()
        bench.close()


def test_spark_job_that_fails_on_a_message_and_is_refused_by_its_broker(
    spark_server: SparkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is parked; a password that is changed ends the job, which goes on with the new one."""
    monkeypatch.setenv(VARIABLE, "first")
    with PasswordBroker(tmp_path / "mosquitto") as broker:
        bench = SparkBench(spark_server, broker, tmp_path)
        job = replace(
            bench.job("parks", "doubled", JOBS / "multiplied.py"),
            source_broker=broker.guarded,
            on_error="park",
            park_topic="out/parked",
        )
        inventory = replace(bench.inventory, brokers={"guarded": broker.broker})
        parked = replace(job, sink_topic="out/parked")
        try:
            with looping(job, inventory, tmp_path, JOBS) as services:
                bench.send(job, ["1", "poison", "2"])
                # This subscriber drops no repetition: what the failed batch has sent comes once more.
                sound = {"1-a", "1-b", "2-a", "2-b"}
                eventually(lambda: set(bench.mqtt.got(job)), lambda got: got >= sound, PATIENCE)
                assert set(bench.mqtt.got(job)) == sound
                eventually(lambda: bench.mqtt.got(parked), lambda got: got == ["poison"], PATIENCE)
                await_healed(services, job, 1)
                bench.send(job, ["3"])  # Spark reports the counts of a batch with the next one
                eventually(lambda: losses(services, job), lambda found: found == {"parked": 1}, PATIENCE)
                # It fails twice; the second time may be within the start of a copy, and then is no drift.
                before = len(drifts(services))
                bench.mqtt.close()
                broker.restart_with("second")
                bench.mqtt = MqttClient(broker.port)
                eventually(lambda: drifts(services), lambda found: len(found) > before, PATIENCE)
                monkeypatch.setenv(VARIABLE, "second")
                await_healed(services, job, before + 1)
                bench.send(job, ["4"])
                eventually(lambda: bench.mqtt.got(job), lambda got: "4-b" in got, PATIENCE)
                died = [each for each in drifts(services) if "died" in each]
                assert len(died) == before + 1, drifts(services)
        finally:
            bench.close()


def python_workers(server: SparkServer) -> list[psutil.Process]:
    """The Python processes below a server."""
    found = []
    for each in psutil.Process(server.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended since it was listed, or awaits its parent
            if "pyspark" in " ".join(each.cmdline()):
                found.append(each)
    return found


def test_sound_messages_outlive_killed_python_workers_and_a_poisonous_one_is_skipped(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    """Workers are ended as the kernel ends them when memory is short; none of their messages is the cause."""
    bench = SparkBench(spark_server, mosquitto, tmp_path)
    job = replace(bench.job("outlives", "read_in_python"), on_error="skip")
    sent: list[str] = []

    def send(count: int, *more: str) -> None:
        numbers = [str(number) for number in range(len(sent), len(sent) + count)]
        sent.extend(numbers)
        bench.send(job, [*numbers, *more])

    def await_all() -> None:
        eventually(lambda: set(sent) - set(bench.mqtt.got(job)), lambda missing: not missing, PATIENCE)

    try:
        with looping(job, bench.inventory, tmp_path, JOBS) as services:
            send(1)
            await_all()
            for _ in range(2 if trials_run() else 1):
                send(60)
                for each in eventually(lambda: python_workers(spark_server), bool, PATIENCE):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
                await_all()
            assert losses(services, job).get("skipped", 0) == 0
            assert drifts(services)  # the kills did end the job
            send(2, "poison")
            await_all()
            send(1)  # Spark reports the counts of a batch with the next one
            eventually(lambda: losses(services, job).get("skipped"), lambda count: count == 1, PATIENCE)
            await_all()
    finally:
        bench.close()


def test_a_result_beyond_the_packet_size_of_the_sinks_broker_is_parked(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    with MosquittoServer(tmp_path / "limited", "max_packet_size 20000") as limited:
        bench = SparkBench(spark_server, mosquitto, tmp_path)
        job = replace(
            bench.job("enlarges", "enlarged"),
            sink_broker=limited.address,
            on_error="park",
            park_topic="out/enlarged-parked",
        )
        results = MqttClient(limited.port)
        try:
            with looping(job, bench.inventory, tmp_path, JOBS) as services:
                numbers = [str(number) for number in range(39)]
                bench.send(job, [*numbers[:17], "large", *numbers[17:]])
                eventually(lambda: sorted(results.got(job)), lambda got: got == sorted(numbers), PATIENCE)
                parked = replace(job, sink_topic="out/enlarged-parked")
                eventually(lambda: bench.mqtt.got(parked), lambda got: got == ["x" * 90_000], PATIENCE)
                bench.send(job, ["39"])
                eventually(
                    lambda: losses(services, job), lambda found: found == {"parked result": 1}, PATIENCE
                )
                everything = sorted([*numbers, "39"])
                eventually(lambda: sorted(results.got(job)), lambda got: got == everything, PATIENCE)
                assert not drifts(services)
        finally:
            results.close()
            bench.close()
