"""Updates that change how often a Spark job reads its messages, through a real server and coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.spark.local.commands import CONNECTOR
from binders.spark.query.code_check import may_have_several_sources
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT as PROJECT
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer

ROOT = PROJECT / "testbed" / "programs"

needs_engines = pytest.mark.skipif(
    not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
)

JOB = """
jobs:
- job_name: read
  site: A
  source_topic: words
  sink_topic: out/read
  entry_class: {entry}
  job_path: spark/simple.py
  upgrade: {upgrade}
  output_mode: {mode}
"""


class OneJob:
    """A coordinator with one job at a real server."""

    def __init__(self, server: SparkServer, broker: str, store: Store, checkpoints: Path) -> None:
        site = one_site("A", server.address, broker, checkpoint_dir=str(checkpoints))
        self.inventory = Inventory({"A": site})
        settings = Settings(roots=(ROOT,), period=0)
        self.coordinator = build(store, installed(), self.inventory, settings).coordinator
        self.coordinator.start()

    def apply(self, entry: str, upgrade: str = "stateful", mode: str = "") -> Operation:
        text = JOB.format(entry=entry, upgrade=upgrade, mode=mode)
        loaded = load_composition(
            text, inventory=self.inventory, registry=installed(), root=ROOT, default_name="one"
        )
        operation, _ = user.apply(self.coordinator, loaded.composition)
        assert operation.wait(300)
        return operation

    def close(self) -> None:
        assert user.delete_composition(self.coordinator, "one").wait(120)
        self.coordinator.close()


@pytest.fixture
def one(spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[OneJob]:
    with Store(tmp_path / "store") as store:
        job = OneJob(spark_server, mosquitto.address, store, tmp_path / "checkpoints")
        yield job
        job.close()


@needs_engines
def test_a_union_with_itself_is_refused_before_the_running_copy_stops(
    one: OneJob, mosquitto: MosquittoServer
) -> None:
    mqtt_client = MqttClient(mosquitto.port)

    def texts() -> list[str]:
        return [text for _, text in list(mqtt_client.received)]

    assert one.apply("upper").state == "succeeded"
    mqtt_client.send("words", ["ab"])
    eventually(texts, lambda found: found == ["AB"])
    refused = one.apply("twice")
    error = refused.actions["read"].error
    assert "job 'read': twice of simple.py reads its messages 2 times" in error
    assert "its checkpoint is of a form that read them once" in error
    assert "upgrade: stateless" in error
    assert refused.calls.get("stop", 0) == 0
    mqtt_client.send("words", ["cd"])
    eventually(texts, lambda found: found == ["AB", "CD"])
    # Without the state it can, and from then on it continues from its own.
    assert one.apply("twice", "stateless").state == "succeeded"
    mqtt_client.send("words", ["ef"])
    eventually(texts, lambda found: {"ef", "fe"} <= set(found))
    error = one.apply("upper").actions["read"].error
    assert "upper of simple.py reads its messages once" in error
    assert "a form that read them 2 times" in error
    with pytest.raises(InvalidInput, match="output_mode 'complete' needs an aggregation"):
        one.apply("twice", mode="complete")
    mqtt_client.send("words", ["gh"])
    eventually(texts, lambda found: {"gh", "hg"} <= set(found))
    mqtt_client.close()


def test_a_job_that_cannot_have_several_sources_is_not_rehearsed(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    cases = {
        "messages.unionByName(messages)": True,
        "messages.crossJoin(other)": True,
        "spark.sql('select * from a EXCEPT ALL select 1')": True,
        "messages.select('value')": False,
        "try: pass\nexcept ValueError: pass": False,
    }
    for text, expected in cases.items():
        path.write_text(text)
        assert may_have_several_sources(path) is expected, text
    assert may_have_several_sources(tmp_path / "absent.py")
