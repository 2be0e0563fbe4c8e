"""The controller of workers over a real Spark standalone cluster, whose workers are killed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from binders.spark.local.commands import CONNECTOR
from speck import local
from speck.client import Client
from speck.schema.inventory import read_inventory
from speck.testing.waiting import eventually
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS, gone
from testbed.faults.served import Served
from testbed.servers.mosquitto import PROGRAM
from tests.support.trials import trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed"),
    pytest.mark.skipif(not CONNECTOR.exists(), reason=f"{CONNECTOR.name} is not built (make)"),
]

PATIENCE = 180.0
NAMES = ("count-0", "count-1")


@contextmanager
def served(sites: local.LocalSites, directory: Path) -> Iterator[Client]:
    """A server of these sites, as it is run by its command: its REST interface gives drivers their code."""
    with Served(directory / "store", sites.inventory, JOBS, directory / "serve.log") as server:
        client = server.client()
        assert client is not None, (directory / "serve.log").read_text()[-2000:]
        yield client


def composition(names: Sequence[str]) -> bytes:
    jobs = (
        f"- {{job_name: {name}, site: A, source_topic: in/{name}, sink_topic: out/{name}, engine: spark, "
        "entry_class: count, job_path: simple.py}\n"
        for name in names
    )
    return ("jobs:\n" + "".join(jobs)).encode()


def await_running(client: Client) -> None:
    eventually(
        lambda: {each["state"] for each in client.jobs()}, lambda found: found == {"running"}, PATIENCE
    )


def await_count(mqtt_client: MqttClient, number: int) -> None:
    """Wait until each job has counts this count, after lower ones only."""
    for name in NAMES:
        eventually(
            lambda name=name: [value for topic, value in mqtt_client.received if topic == f"out/{name}"],
            lambda got: bool(got) and got[-1] == f"a {number}",
            PATIENCE,
        )
        counts = [int(value.split()[1]) for topic, value in mqtt_client.received if topic == f"out/{name}"]
        assert counts == sorted(counts)


def kill_workers(directory: Path) -> list[int]:
    """End all workers of the site by SIGKILL; returns the processes that had drivers or executors."""
    below = []
    for each in local.status(directory).workers:
        assert each.pid is not None
        process = psutil.Process(each.pid)
        below += [child.pid for child in process.children(recursive=True)]
        process.kill()
        process.wait(30)
    return below


@trial("the same on Flink, and a lost worker without a coordinator")
@pytest.mark.parametrize("most", [1, 2])
def test_jobs_of_killed_workers_come_back_with_their_counts(tmp_path: Path, most: int) -> None:
    """All workers are killed at once: no driver has a place until the hook has brought others."""
    directory = tmp_path / "local"
    with (
        local.up(directory, 1, engines={"A": ["spark-standalone"]}, workers={"A": (1, most)}) as sites,
        served(sites, tmp_path) as client,
    ):
        (known,) = read_inventory(sites.inventory).sites.values()
        mqtt_client = MqttClient(int(known.broker_address.rpartition(":")[2]))
        eventually(lambda: client.workers()[0]["present"], lambda present: present == 1, PATIENCE)
        client.apply(composition(NAMES), "counting", wait=PATIENCE)
        await_running(client)  # their sessions are there
        for name in NAMES:
            mqtt_client.send(f"in/{name}", ["a"] * 20)
        await_count(mqtt_client, 20)
        eventually(lambda: client.workers()[0]["present"], lambda present: present == most, PATIENCE)

        orphans = kill_workers(directory)
        assert orphans  # the drivers and executors of the jobs
        for name in NAMES:
            mqtt_client.send(f"in/{name}", ["a"] * 2)
        await_count(mqtt_client, 22)  # and not 2
        eventually(lambda: client.workers()[0]["present"], lambda present: present == most, PATIENCE)
        await_running(client)
        assert all(gone(each) for each in orphans)
        assert {each["attempt"] for each in client.jobs()} == {1}
        mqtt_client.close()
