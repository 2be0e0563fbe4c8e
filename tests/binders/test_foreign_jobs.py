"""A job of another store is refused over REST, at real engines and a real broker, and runs on untouched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from speck.binder import installed
from speck.client import RequestRefused
from speck.core.inventory import Inventory, Site
from speck.core.runtime import Found
from speck.testing.waiting import eventually
from testbed.benches.examples import one_site
from testbed.benches.flink import FORWARD
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.rest import RestServer, rest_server
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import StandaloneServer
from tests.binders.flink.test_pyflink import NUMBERS, pyflink
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]


@dataclass(frozen=True)
class Place:
    """An engine, its kind, and the file and function of a job that it runs."""

    site: Site
    engine: str
    code: Path
    entry: str

    def composition(self, broker: str) -> bytes:
        """One job at the engine that reads and writes at a broker."""
        return f"""
jobs:
- job_name: only-once
  spe_address: {self.site.engines[0].spe_address}
  engine: {self.engine}
  source_broker: {broker}
  sink_broker: {broker}
  source_topic: in/foreign
  sink_topic: out/foreign
  entry_class: {self.entry}
  job_path: {self.code.name}
""".encode()


AS_ON_FLINK = trial("[flink], and the marks of copies in the contract, of drivers and of Python programs")


@pytest.fixture(
    name="place",
    params=[
        "flink",
        pytest.param("pyflink", marks=AS_ON_FLINK),
        pytest.param("spark-connect", marks=AS_ON_FLINK),
        pytest.param("spark-standalone", marks=AS_ON_FLINK),
    ],
)
def place_fixture(
    request: pytest.FixtureRequest, mosquitto: MosquittoServer, tmp_path: Path
) -> Iterator[Place]:
    with ExitStack() as stack:
        match request.param:
            case "spark-connect":
                spark: SparkServer = request.getfixturevalue("spark_server")
                known = {"checkpoint_dir": str(tmp_path / "checkpoints")}
                site = one_site("A", spark.address, mosquitto.address, **known)
                yield Place(site, "spark", JOBS / "simple.py", "upper")
            case "spark-standalone":
                cluster: StandaloneServer = request.getfixturevalue("standalone_server")
                site = one_site("A", cluster.address, mosquitto.address, **cluster.engine)
                yield Place(site, "spark", JOBS / "simple.py", "upper")
            case "flink":
                shared: FlinkServer = request.getfixturevalue("flink_server")
                yield Place(one_site("A", shared.address, mosquitto.address), "flink", *FORWARD)
            case _:
                if not pyflink():
                    pytest.skip("no Python with PyFlink (make pyflink)")
                flink = stack.enter_context(
                    FlinkServer(tmp_path / "flink", python=pyflink(), slots=2, small=True)
                )
                site = one_site("A", flink.address, mosquitto.address)
                yield Place(site, "flink", NUMBERS, "as_they_are")


def test_a_second_store_is_refused_and_touches_nothing(
    place: Place, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    mqtt_client = MqttClient(mosquitto.port)
    with ExitStack() as stack:
        stack.callback(mqtt_client.close)
        first, second = (stack.enter_context(_server(tmp_path / each, place)) for each in ("first", "second"))
        ours = place.composition(mosquitto.address)
        assert first.client.apply(ours, "one", wait=240)["state"] == "succeeded"
        stack.callback(lambda: first.client.delete_composition("one", wait=240))
        mqtt_client.send("in/foreign", ["a"])
        eventually(lambda: mqtt_client.received, lambda got: len(got) == 1)
        owner = first.coordinator.store.identity
        before = _seen(first, place, mosquitto)

        _refused(second, ours, owner)
        elsewhere = stack.enter_context(MosquittoServer(tmp_path / "other"))
        # No session is there: the marks of the copy alone.
        _refused(second, place.composition(elsewhere.address), owner)

        assert _seen(first, place, mosquitto) == before
        assert _sessions(elsewhere) == []
        assert second.coordinator.store.jobs() == second.coordinator.store.heads() == []
        mqtt_client.send("in/foreign", ["b"])
        eventually(lambda: mqtt_client.received, lambda got: len(got) == 2)
    assert sorted(text.upper() for _, text in mqtt_client.received) == ["A", "B"]


@contextmanager
def _server(directory: Path, place: Place) -> Iterator[RestServer]:
    """A server with a store of its own, and the code of the job under its root."""
    with rest_server(directory, Inventory({"A": place.site}), registry=installed()) as rest:
        shutil.copy(place.code, rest.root)
        yield rest


def _refused(server: RestServer, text: bytes, owner: str) -> None:
    with pytest.raises(RequestRefused, match="job 'only-once'") as refused:
        server.client.apply(text, "one", wait=240)
    assert refused.value.status == 409
    assert owner in str(refused.value)
    (found,) = server.client.plan(text, "one")["foreign"]
    assert (found["job"], found["owner"]) == ("only-once", owner)


def _seen(server: RestServer, place: Place, broker: MosquittoServer) -> tuple[list[Found], list[object]]:
    """The jobs that the engine lists, and the sessions that the broker has."""
    engine = server.coordinator.pool.engine_at(place.engine, place.site.engines[0].spe_address)
    return list(engine.running()), _sessions(broker)


def _sessions(broker: MosquittoServer) -> list[object]:
    binder = MqttBroker(broker.address, Inventory())
    binder.take_owner("another")
    try:
        return list(binder.foreign_sessions())
    finally:
        binder.close()
