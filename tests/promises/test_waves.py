"""A roll-out in waves on real engines: a job of the first wave or the coordinator dies, under load."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from binders.flink.local.cluster import CONNECTOR as FLINK_CONNECTOR
from binders.spark.local.commands import CONNECTOR as SPARK_CONNECTOR
from speck.client import Client
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE
from testbed.benches.mqtt_client import MqttClient
from testbed.faults.served import Served
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE
from tests.support.requirements import needs
from tests.support.trials import trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(1800),  # s; engines start, and jobs settle, on a busy machine
    needs(FLINK_CONNECTOR, SPARK_CONNECTOR, ROOT / FLINK_CODE),
    trial("tests/server/test_waves.py"),
]

SETTLED = 20.0  # s
TEXTS = 300  # that are sent again and again
POISON = "poison"
FORMER = f"""
jobs:
- {{job_name: read, site: A, source_topic: in, sink_topic: mid, job_path: {SPARK_CODE}, entry_class: upper}}
- {{job_name: count, site: B, source_broker: A, source_topic: mid, sink_topic: out/counted,
   job_path: {FLINK_CODE}, entry_class: io.speck.flink.jobs.CountByKey}}
"""
# The newer form of the first job keeps the letters, and fails on a text without a number.
NEWER = FORMER.replace("upper", "numbered").replace("out/counted", "out/newer")


@dataclass
class Deployment:
    """A server to be killed, with a job at each of two sites, and what they have counted."""

    directory: Path
    sender: MqttClient
    receiver: MqttClient
    flink: FlinkServer
    served: Served

    @property
    def client(self) -> Client:
        """A client of the server that runs now."""
        client = self.served.client()
        assert client is not None, (self.directory / "serve.log").read_text()
        return client

    def kill(self) -> None:
        """Kill the server."""
        self.served.kill()

    def start(self) -> None:
        """Start one again on what the killed one has stored."""
        self.served = serve(self.directory)

    def attempts(self) -> dict[str, int]:
        """The number of the attempt of each job."""
        return {each["job_name"]: each["attempt"] for each in self.client.jobs()}

    def ended(self, identifier: str) -> dict[str, Any]:
        """An operation when it has ended."""
        return eventually(
            lambda: self.client.operation(identifier), lambda found: found["state"] != "running", PATIENCE
        )

    def counted(self) -> Counter[str]:
        """The count of each text, over both forms in which the first job writes it."""
        latest = Counter[str]()
        for _, value in list(self.receiver.received):
            text, _, count = value.partition(",")
            latest[text] = max(latest[text], int(count))
        total = Counter[str]()
        for text, times in latest.items():
            total[text.lower()] += times
        return total

    def topics(self) -> set[str]:
        """The topics to which the second job has written."""
        return {topic for topic, _ in list(self.receiver.received)}

    def await_more(self) -> None:
        """Wait until more messages are counted."""
        before = self.counted().total()
        eventually(lambda: self.counted().total(), lambda now: now > before + 200, PATIENCE)

    def assert_counted(self, sent: list[str]) -> None:
        """Each text is counted as often as it was sent."""
        eventually(lambda: self.counted().total(), lambda total: total >= len(sent), PATIENCE)
        assert self.counted() == Counter(sent)
        print(f"{len(sent)} messages, each of them counted once")

    def begin_roll_out(self, settle: float, site: str = "A") -> str:
        """Apply the newer form, this site first; answers the operation's id once that settles."""
        identifier = str(self.client.apply(NEWER.encode(), "one", wave=[site], settle=settle)["id"])
        eventually(
            lambda: self.client.operation(identifier),
            lambda found: "must have been" in found["waits"],
            PATIENCE,
        )
        return identifier

    def assert_taken_back(
        self, operation: dict[str, Any], first: dict[str, int], changed: str = "read", other: str = "count"
    ) -> None:
        """The first wave has not settled: its job runs in its former form, the other has not been touched."""
        states = {each["job"]: each["state"] for each in operation["actions"]}
        assert (operation["state"], states[other]) == ("failed", "skipped"), operation
        (why,) = [each["error"] for each in operation["actions"] if each["job"] == other]
        assert why.startswith(f"wave 1 did not settle: job {changed!r} is "), why
        by = eventually(lambda: self.client.operation(operation["id"])["replaced_by"], bool, PATIENCE)
        back = self.ended(by)
        assert back["state"] == "succeeded", back
        jobs = {each["job_name"]: each for each in self.client.jobs()}
        assert (jobs[other]["attempt"], jobs[changed]["attempt"] > first[changed]) == (first[other], True)
        eventually(lambda: {each["state"] for each in self.client.jobs()}, lambda found: found == {"running"})


def serve(directory: Path) -> Served:
    """A server on the folder's store, for its sites."""
    return Served(directory / "store", directory / "sites.yaml", ROOT, directory / "serve.log")


@contextmanager
def sending(mqtt_client: MqttClient) -> Iterator[list[str]]:
    """Send texts in the background, some 100/s; the list has all of them after the block."""
    ended, sent, numbers = threading.Event(), list[str](), itertools.count()

    def send() -> None:
        while not ended.wait(0.2):
            texts = [f"w{next(numbers) % TEXTS}" for _ in range(20)]
            mqtt_client.send("in", texts)
            sent.extend(texts)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()


@pytest.fixture(name="deployed")
def deployed_fixture(tmp_path: Path) -> Iterator[Deployment]:
    """The former form, deployed at the sites A with Spark and B with Flink."""
    spark, flink = SparkServer(tmp_path / "spark"), FlinkServer(tmp_path / "flink", small=True)
    with ExitStack() as stack:
        at_a = stack.enter_context(MosquittoServer(tmp_path / "a"))
        at_b = stack.enter_context(MosquittoServer(tmp_path / "b"))
        stack.enter_context(spark)
        stack.enter_context(flink)
        sites = {
            "A": {
                "broker_address": at_a.address,
                "spe_address": spark.address,
                "checkpoint_dir": str(tmp_path / "checkpoints"),
            },
            "B": {
                "broker_address": at_b.address,
                "spe_address": flink.address,
                "checkpoint_dir": flink.cluster.checkpoints.as_uri(),
                "savepoint_dir": flink.cluster.savepoints.as_uri(),
            },
        }
        (tmp_path / "sites.yaml").write_text(yaml.safe_dump({"sites": sites}))
        mqtt_clients = MqttClient(at_a.port), MqttClient(at_b.port)
        for each in mqtt_clients:
            stack.callback(each.close)
        deployment = Deployment(tmp_path, *mqtt_clients, flink, serve(tmp_path))
        stack.callback(deployment.kill)
        deployed = deployment.client.apply(FORMER.encode(), "one", wait=PATIENCE)
        assert deployed["state"] == "succeeded", deployed
        yield deployment


def test_the_second_site_is_not_touched_when_a_job_of_the_first_dies(deployed: Deployment) -> None:
    first = deployed.attempts()
    with sending(deployed.sender) as sent:
        deployed.await_more()
        operation = deployed.begin_roll_out(settle=PATIENCE)
        deployed.await_more()  # in the newer form
        deployed.sender.send("in", [POISON])
        deployed.assert_taken_back(deployed.ended(operation), first)
        deployed.await_more()
    deployed.assert_counted([*sent, POISON])
    assert deployed.topics() == {"out/counted"}


def test_a_coordinator_that_is_killed_as_a_wave_settles_carries_on(deployed: Deployment) -> None:
    first = deployed.attempts()
    with sending(deployed.sender) as sent:
        deployed.await_more()
        operation = deployed.begin_roll_out(SETTLED)
        newer = deployed.attempts()
        assert (newer["read"] > first["read"], newer["count"]) == (True, first["count"])
        deployed.kill()
        deployed.await_more()
        deployed.start()
        eventually(
            lambda: deployed.client.operation(operation),
            lambda found: (found["wave"], found["waits"] != "") == (1, True),
        )
        assert deployed.topics() == {"out/counted"}
        found = deployed.ended(operation)
        assert found["state"] == "succeeded", found
        after = deployed.attempts()
        assert (after["read"], after["count"] > first["count"]) == (newer["read"], True)
        deployed.await_more()
    deployed.assert_counted(sent)
    assert deployed.topics() == {"out/counted", "out/newer"}


def test_a_job_that_dies_while_the_coordinator_is_away_takes_the_wave_back(deployed: Deployment) -> None:
    first = deployed.attempts()
    with sending(deployed.sender) as sent:
        deployed.await_more()
        operation = deployed.begin_roll_out(settle=PATIENCE)
        deployed.kill()
        deployed.sender.send("in", [POISON])
        sent_by_then = len(sent)
        eventually(lambda: len(sent), lambda count: count > sent_by_then + 500, PATIENCE)
        deployed.start()
        deployed.assert_taken_back(deployed.ended(operation), first)
        deployed.await_more()
    deployed.assert_counted([*sent, POISON])
    assert deployed.topics() == {"out/counted"}


def test_a_job_that_is_lost_with_its_engine_takes_the_wave_back(deployed: Deployment) -> None:
    """The former form continues with the counts of the newer one, at its former topic."""
    first = deployed.attempts()
    with sending(deployed.sender) as sent:
        deployed.await_more()
        operation = deployed.begin_roll_out(settle=PATIENCE, site="B")
        deployed.await_more()
        deployed.flink.kill_task_manager()  # in a small cluster, of the process of the JobManager too
        deployed.assert_taken_back(deployed.ended(operation), first, "count", "read")
        deployed.await_more()
    deployed.assert_counted(sent)
    assert deployed.topics() == {"out/counted", "out/newer"}
