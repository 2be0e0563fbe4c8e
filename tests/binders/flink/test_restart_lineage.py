"""A Flink job that dies before its first checkpoint does its work again, under the stamps that it had.

``SPECK_DEATHS`` sets how often it dies.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from binders.flink.submission import job_config
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, job
from testbed.benches.mqtt_client import subscribe
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG

MESSAGES = 200
DEATHS = int(os.environ.get("SPECK_DEATHS", "1"))


pytestmark = [pytest.mark.engine, NEEDS_RIG]


class Listener:
    """All that is written to a topic: the stamps under which each text came, as often as it came."""

    def __init__(self, broker: MosquittoServer, topic: str) -> None:
        self.stamps: dict[str, list[str]] = defaultdict(list)
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        subscribe(self.client, topic, self._take)

    def _take(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        properties = dict(message.properties.UserProperty)  # type: ignore[union-attr]
        self.stamps[message.payload.decode()].append(f"{properties['speck-job']} {properties['speck-seq']}")

    def came(self) -> int:
        return sum(map(len, list(self.stamps.values())))

    def send(self, topic: str, texts: list[str]) -> None:
        for each in [self.client.publish(topic, text, 1) for text in texts]:
            each.wait_for_publish(30)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture(name="listener")
def listener_fixture(mosquitto: MosquittoServer) -> Iterator[Listener]:
    listener = Listener(mosquitto, "out")
    yield listener
    listener.close()


def test_what_it_writes_again_bears_the_stamps_that_it_had(
    mosquitto: MosquittoServer, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a pause to keep, Flink begins with a checkpoint, whatever the interval.
    late = {f"execution.checkpointing.{name}": "1 h" for name in ("interval", "min-pause")}
    monkeypatch.setattr(job_config, "SETTINGS", {**job_config.SETTINGS, **late})
    with (
        FlinkServer(tmp_path / "flink", slots=2, small=True) as server,
        Store(tmp_path / "store") as store,
    ):
        engine = Engine(
            spe_address=server.address,
            checkpoint_dir=server.cluster.checkpoints.as_uri(),
            savepoint_dir=server.cluster.savepoints.as_uri(),
        )
        inventory = Inventory({"A": Site(name="A", engines=(engine,), broker_address=mosquitto.address)})
        coordinator = build(store, installed(), inventory, Settings(roots=(ROOT,), period=0)).coordinator
        try:
            coordinator.start()
            code = (FLINK_CODE, "io.speck.flink.jobs.Forward")
            broker = mosquitto.address
            text = "jobs:\n" + job("passing", server.address, (broker, "in"), (broker, "out"), code)
            loaded = load_composition(
                text, inventory=inventory, registry=installed(), root=ROOT, default_name="one"
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            assert operation.wait(PATIENCE)
            assert operation.state == "succeeded"
            listener.send("in", [f"text {number}" for number in range(MESSAGES)])
            await_that(listener.came, lambda came: came == MESSAGES)
            assert not list(server.cluster.checkpoints.glob("*/chk-*"))
            for death in range(1, DEATHS + 1):  # the lineage stays that of the first copy
                server.kill()
                server.start()
                for _ in range(2):  # what an engine does not know waits for a second observation
                    coordinator.reconciler.round()
                    await_that(lambda: coordinator.operations.is_idle("one"), bool)
                    coordinator.backoff.forget(["passing"])
                await_that(listener.came, lambda came: came >= (death + 1) * MESSAGES)  # noqa: B023
        finally:
            coordinator.close()
    assert {len(stamps) for stamps in listener.stamps.values()} == {DEATHS + 1}
    assert {len(set(stamps)) for stamps in listener.stamps.values()} == {1}
    assert len({stamp for stamps in listener.stamps.values() for stamp in stamps}) == MESSAGES
