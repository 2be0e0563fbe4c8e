"""A chain of a Spark job and a Flink job under the access list of docs/security.md.

The coordinator has its own user, the jobs have theirs, and so have the devices and the jobs of others.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory, JobLogin, Login, Secret, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.benches.two_engines import two_engines
from testbed.servers.base import free_port
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG

PASSWORD = "correct horse battery"
MESSAGES = 200
_PASSWORDS = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin:/usr/sbin")

pytestmark = [
    pytest.mark.engine,
    NEEDS_RIG,
    pytest.mark.skipif(_PASSWORDS is None, reason="mosquitto_passwd is not installed"),
]

# Jobs of others, whose topics are their own.
OTHERS = "\nuser others\ntopic readwrite others/#\n"
OUTSIDERS = ("device", "others")


def access_list() -> str:
    """The list of docs/security.md."""
    section = (ROOT / "docs" / "security.md").read_text("utf-8").partition("\n## Topics of SpecK\n")[2]
    return section.partition("```\n")[2].partition("```")[0]


@dataclass(frozen=True)
class Broker:
    """Its address; the ports of the listener there, and of one whose clients do not choose their ids."""

    address: str
    port: int
    other_port: int


@pytest.fixture(name="broker")
def broker_fixture(tmp_path: Path) -> Iterator[Broker]:
    assert _PASSWORDS is not None
    (tmp_path / "access").write_text(access_list() + OTHERS, encoding="utf-8")
    (tmp_path / "passwords").touch()
    for account in ("speck", "jobs", "device", "others"):
        subprocess.run([_PASSWORDS, "-b", str(tmp_path / "passwords"), account, PASSWORD], check=True)
    guarded = [
        "allow_anonymous false",
        f"password_file {tmp_path}/passwords",
        f"acl_file {tmp_path}/access",
    ]
    port, other = free_port(), free_port()
    settings = [
        "per_listener_settings true",
        *(f"listener {port} 127.0.0.1", *guarded),
        *(f"listener {other} 127.0.0.1", *guarded, "use_username_as_clientid true"),
    ]
    with MosquittoServer(tmp_path / "broker", "\n".join(settings), port=port) as server:
        yield Broker(server.address, port, other)


@contextmanager
def connected(port: int, user: str, name: str = "") -> Iterator[tuple[paho.Client, list[bytes]]]:
    """A client of a user with what it receives; ``name`` is the id of a client whose session it resumes."""
    client = paho.Client(CallbackAPIVersion.VERSION2, name or uuid.uuid4().hex, protocol=paho.MQTTv5)
    client.username_pw_set(user, PASSWORD)
    received: list[bytes] = []
    client.on_message = lambda _, __, message: received.append(message.payload)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 0xFFFFFFFF if name else 0
    client.connect("127.0.0.1", port, clean_start=not name, properties=properties)
    client.loop_start()
    try:
        await_that(client.is_connected, bool)
        yield client, received
    finally:
        client.disconnect()
        client.loop_stop()


def apply(coordinator: Coordinator, broker: str, spark: SparkServer, flink: FlinkServer) -> None:
    text = (
        "jobs:\n"
        + job("near", spark.address, (broker, "in/a"), (broker, "out/mid"), (SPARK_CODE, "upper"))
        + job(
            "far",
            flink.address,
            (broker, "out/mid"),
            (broker, "out/result"),
            (FLINK_CODE, "io.speck.flink.jobs.Forward"),
        )
    )
    loaded = load_composition(
        text, inventory=coordinator.inventory, registry=installed(), root=ROOT, default_name="guarded"
    )
    operation, _ = user.apply(coordinator, loaded.composition)
    assert operation.wait(PATIENCE)
    assert operation.state == "succeeded", operation.to_dict()


def test_a_chain_runs_under_it_and_the_users_of_others_read_none_of_its_sessions(
    broker: Broker,
    spark_server: SparkServer,
    flink_server: FlinkServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)
    password = Secret("${BROKER_PASSWORD}")
    site = Site(
        name="A",
        engines=two_engines(spark_server, flink_server, tmp_path),
        broker_address=broker.address,
        broker_login=Login(username="speck", password=password),
        job_login=JobLogin(username="jobs", password=password),
    )
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(ROOT,), period=1, adapt=0)
        coordinator = build(store, installed(), Inventory({"A": site}), settings).coordinator
        coordinator.start()
        try:
            apply(coordinator, broker.address, spark_server, flink_server)
            with connected(broker.port, "device") as (device, results):
                device.subscribe("out/result", 1)
                sent = [f"M{number}" for number in range(MESSAGES)]
                for each in sent:
                    device.publish("in/a", each, 1).wait_for_publish(PATIENCE)
                await_that(lambda: len(results), lambda count: count >= MESSAGES)
                assert Counter(each.decode() for each in results) == Counter(sent)
            # The records of its sessions are retained: readable for its jobs, and for nobody else.
            assert retained(broker, "jobs", "speck/#")
            assert [retained(broker, user, "speck/#") for user in OUTSIDERS] == [[], []]
        finally:
            operation = user.delete_composition(coordinator, "guarded")
            assert operation.wait(PATIENCE)
            coordinator.close()
        assert operation.state == "succeeded", operation.to_dict()


def retained(broker: Broker, user: str, topic: str) -> list[bytes]:
    """The retained messages below a topic that a user gets."""
    with connected(broker.port, user) as (client, seen):
        client.subscribe(topic, 1)
        time.sleep(1)
    return seen


SESSION = "speck-a:0a1b2c3d4e5f6071"


@pytest.mark.parametrize("user", OUTSIDERS)
@pytest.mark.parametrize("chosen", [True, False], ids=["chosen-id", "name-as-id"])
def test_who_connects_by_the_id_of_a_session_reads_nothing_of_it(
    broker: Broker, user: str, chosen: bool
) -> None:
    """If clients choose their ids, Mosquitto discards what waits in it and that user may not read."""
    with connected(broker.port, "speck", SESSION) as (client, _):
        client.subscribe("in/a", 1)
        time.sleep(0.5)
    with connected(broker.port, "device") as (device, _):
        device.publish("in/a", "secret", 1).wait_for_publish(PATIENCE)
    with connected(broker.port if chosen else broker.other_port, user, SESSION) as (_, seen):
        time.sleep(1)
    assert seen == []
    with connected(broker.port, "jobs", SESSION) as (_, seen):
        time.sleep(1)
    assert seen == ([] if chosen else [b"secret"])
