"""Sessions at a real broker belong to one job of one store: through real coordinators and a Flink cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binders.flink.engine import FlinkEngine
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import fence_topic, session_name
from speck.core.settings import Settings
from speck.errors import JobsOfAnother
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, job
from testbed.benches.mqtt_client import MqttClient
from testbed.faults.witness import MosquittoWitness
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, NEEDS_RIG]

MESSAGES = 300
OBSERVATIONS = 40  # of a session that must not stand again
# The tasks of a killed JobManager run on for longer than the observations take; by default for 50 s.
IMPATIENT = {"heartbeat.interval": "2 s", "heartbeat.timeout": "25 s"}
CODE = (FLINK_CODE, "io.speck.flink.jobs.Forward")


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    directory = tmp_path_factory.mktemp("owners") / "flink"
    with FlinkServer(directory, heap="256m", slots=6, conf=IMPATIENT) as server:
        yield server


@pytest.fixture(name="mqtt_client")
def mqtt_client_fixture(mosquitto: MosquittoServer) -> Iterator[MqttClient]:
    mqtt_client = MqttClient(mosquitto.port)
    yield mqtt_client
    mqtt_client.close()


class SpecK:
    """A coordinator with a store of its own."""

    def __init__(self, server: FlinkServer, broker: str, store: Store) -> None:
        self.server, self.broker, self.store = server, broker, store
        engine = Engine(
            spe_address=server.address,
            checkpoint_dir=server.cluster.checkpoints.as_uri(),
            savepoint_dir=server.cluster.savepoints.as_uri(),
        )
        self.inventory = Inventory({"A": Site(name="A", engines=(engine,), broker_address=broker)})
        services = build(store, installed(), self.inventory, Settings(roots=(ROOT,), period=0))
        self.coordinator: Coordinator = services.coordinator
        self.checkups = services.sites.checkups

    def apply(self, **jobs: tuple[str, str]) -> Operation:
        """Run jobs that forward one topic to another, by name (``__`` for a dot)."""
        text = "jobs:\n" + "".join(
            job(
                name.replace("__", "."), self.server.address, (self.broker, source), (self.broker, sink), CODE
            )
            for name, (source, sink) in jobs.items()
        )
        loaded = load_composition(
            text, inventory=self.inventory, registry=installed(), root=ROOT, default_name="one"
        )
        operation, _ = user.apply(self.coordinator, loaded.composition)
        return self._succeeded(operation)

    def delete(self) -> None:
        self._succeeded(user.delete_composition(self.coordinator, "one"))

    def _succeeded(self, operation: Operation) -> Operation:
        assert operation.wait(PATIENCE)
        actions = operation.actions.items()
        assert operation.state == "succeeded", {name: each.error for name, each in actions}
        return operation


@contextmanager
def speck(server: FlinkServer, broker: MosquittoServer, directory: Path) -> Iterator[SpecK]:
    with Store(directory) as store:
        instance = SpecK(server, broker.address, store)
        instance.coordinator.start()
        try:
            yield instance
        finally:
            instance.coordinator.close()


def received(mqtt_client: MqttClient, topic: str) -> Counter[str]:
    return Counter(text for where, text in list(mqtt_client.received) if where == topic)


def assert_each_once(mqtt_client: MqttClient, topic: str, texts: list[str]) -> None:
    await_that(lambda: received(mqtt_client, topic), lambda found: found.keys() >= set(texts))
    assert received(mqtt_client, topic) == Counter(texts)


def server_slots(server: FlinkServer) -> tuple[int | None, int | None]:
    """The slots of a cluster, all and free."""
    engine = FlinkEngine(server.address, Inventory())
    try:
        capacity = engine.capacity()
        return capacity.slots, capacity.slots_free
    finally:
        engine.close()


def numbered(word: str, count: int = MESSAGES) -> list[str]:
    return [f"{word} {number}" for number in range(count)]


@trial("the same names over a broker in memory, in tests/apply/test_session_owners.py")
def test_a_job_whose_name_looks_like_a_later_session_of_another_keeps_its_own(
    server: FlinkServer, mosquitto: MosquittoServer, mqtt_client: MqttClient, tmp_path: Path
) -> None:
    with speck(server, mosquitto, tmp_path / "store") as one:
        dotted = ("in/dotted", "out/dotted")
        one.apply(a=("in/a", "out/a"), a__2=dotted)
        mqtt_client.send("in/dotted", before := numbered("before"))
        one.apply(a=("in/b", "out/a"), a__2=dotted)  # revision 2
        mqtt_client.send("in/dotted", after := numbered("after"))
        mqtt_client.send("in/b", rewired := numbered("rewired"))
        assert_each_once(mqtt_client, "out/a", rewired)
        assert_each_once(mqtt_client, "out/dotted", [*before, *after])
        one.apply(a__2=dotted)
        mqtt_client.send("in/dotted", alone := numbered("alone"))
        assert_each_once(mqtt_client, "out/dotted", [*before, *after, *alone])
        one.delete()


@trial("tests/binders/test_foreign_jobs.py, and the remark in tests/observe/test_healthcheck.py")
def test_two_stores_at_one_broker_lose_nothing_to_each_other_and_run_no_job_twice(
    server: FlinkServer, mosquitto: MosquittoServer, mqtt_client: MqttClient, tmp_path: Path
) -> None:
    with (
        speck(server, mosquitto, tmp_path / "first") as first,
        speck(server, mosquitto, tmp_path / "second") as second,
    ):
        first.apply(a=("in/a", "out/first"))
        with pytest.raises(JobsOfAnother) as raised:
            second.apply(a=("in/a", "out/second"), b=("in/a", "out/second"))
        for part in (server.address, mosquitto.address, session_name("a", first.store.identity)):
            assert part in str(raised.value)
        assert "job 'b'" not in str(raised.value)
        assert second.store.heads() == second.store.jobs() == []
        second.apply(b=("in/a", "out/second"))
        mqtt_client.send("in/a", both := numbered("both"))
        assert_each_once(mqtt_client, "out/first", both)
        assert_each_once(mqtt_client, "out/second", both)
        (found,) = [each for each in first.checkups() if each["role"] == "broker"]
        complaints = " ".join(wrong["message"] for wrong in found["wrong"])
        assert f"another SpecK, with store {second.store.identity}" in complaints
        assert session_name("b", second.store.identity) in complaints
        second.delete()
        mqtt_client.send("in/a", rest := numbered("rest"))
        assert_each_once(mqtt_client, "out/first", [*both, *rest])
        first.delete()


def test_a_copy_that_comes_back_does_not_bring_the_deleted_session_with_it(
    server: FlinkServer, mosquitto: MosquittoServer, mqtt_client: MqttClient, tmp_path: Path
) -> None:
    witness = MosquittoWitness(mosquitto.address, mosquitto.pid, mosquitto.directory / "mosquitto.db")
    with speck(server, mosquitto, tmp_path / "store") as one:
        one.apply(a=("in/a", "out/a"))
        session = session_name("a", one.store.identity)
        mqtt_client.send("in/a", before := numbered("before"))
        assert_each_once(mqtt_client, "out/a", before)
        server.kill_job_manager()  # the TaskManager works on, for as long as it waits for it
        await_that(server.ready, bool)
        assert session in witness.read().sessions
        one.delete()
        for _ in range(OBSERVATIONS):  # its reader comes back at once
            held = witness.read()
            assert session not in held.sessions
            assert {topic for topic in held.retained if session in topic} == {fence_topic(session)}
            time.sleep(0.2)
        await_that(lambda: server_slots(server), lambda slots: slots[0] == slots[1])
        one.apply(a=("in/a", "out/a"))
        (record,) = one.store.attempts("a")
        assert record.attempt.number > 1  # above the copy that may come back
        mqtt_client.send("in/a", after := numbered("after"))
        assert_each_once(mqtt_client, "out/a", [*before, *after])
        one.delete()
    assert session not in witness.read().sessions
