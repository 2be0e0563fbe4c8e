"""A job's state between two real Connect servers that share no storage.

Each server keeps its checkpoints in a directory that its configuration names relative to its own working
directory, so that the same name is another place for the other, and no path of the one leads to the other's.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binders.spark.connect import specification
from binders.spark.connect.checkpoint_transfer import PART
from binders.spark.connect.engine import ConnectEngine
from binders.spark.local.commands import CONNECTOR
from binders.spark.query.options import settings
from speck.apply.operation import Operation
from speck.binder import StateFiles, installed
from speck.coordinator import build
from speck.core.inventory import Engine, Inventory
from speck.core.job import Composition, Job
from speck.core.runtime import Attempt, Handle, State
from speck.core.settings import Settings
from speck.errors import Rejected
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT as PROJECT
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

ROOT = PROJECT / "testbed" / "programs"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]

ROUND_TRIPS = int(os.environ.get("SPECK_ROUND_TRIPS", "1"))
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COMPOSITION = """
jobs:
- job_name: counted
  site: A
  source_topic: words
  sink_topic: out/counted
  entry_class: {entry}
  job_path: spark/simple.py
"""


@pytest.fixture(scope="module")
def other_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    with SparkServer(tmp_path_factory.mktemp("other")) as server:
        yield server


class Sites:
    """Two sites with storage of their own, one broker, and a coordinator."""

    def __init__(
        self,
        here: SparkServer,
        there: SparkServer,
        broker: str,
        directory: Path,
        *,
        shared: bool = False,
        entry: str = "count",
    ) -> None:
        """``shared``: with one storage for both; ``entry`` is the function of the job."""
        self.servers = {"A": here, "B": there}
        self.entry = entry
        checkpoints = str(directory / "checkpoints") if shared else f"checkpoints/{directory.name}"
        self.inventory = Inventory(
            {
                name: one_site(name, server.address, broker, checkpoint_dir=checkpoints)
                for name, server in self.servers.items()
            }
        )
        self.folder = Path("checkpoints") / directory.name
        self.store = Store(directory / "store")
        self.coordinator = build(
            self.store, installed(), self.inventory, Settings(roots=(ROOT,), period=0)
        ).coordinator
        self.coordinator.start()

    def begin(self) -> None:
        """Start the job at A; a server that has just begun may take longer than it is waited for."""
        eventually(lambda: self.apply("A"), lambda operation: operation.state == "succeeded", 300)

    def apply(self, site: str) -> Operation:
        operation, _ = user.apply(self.coordinator, self._composition(site))
        assert operation.wait(300)
        return operation

    def copies(self, site: str) -> list[str]:
        """The names of the job's checkpoints on a site's disk."""
        return sorted(path.name for path in (self.servers[site].directory / self.folder).glob("counted/*"))

    def handle(self) -> Handle:
        (record,) = self.store.attempts("counted")
        assert record.handle is not None
        return record.handle

    def close(self) -> None:
        deletion = user.delete_composition(self.coordinator, "apart")
        assert deletion.wait(120)
        self.coordinator.close()
        self.store.close()

    def _composition(self, site: str) -> Composition:
        text = COMPOSITION.format(entry=self.entry).replace("site: A", f"site: {site}")
        loaded = load_composition(
            text, inventory=self.inventory, registry=installed(), root=ROOT, default_name="apart"
        )
        return loaded.composition


@pytest.fixture
def sites(spark_server: SparkServer, other_server: SparkServer, tmp_path: Path) -> Iterator[Sites]:
    with MosquittoServer(tmp_path / "mosquitto") as broker:
        sites = Sites(spark_server, other_server, broker.address, tmp_path)
        yield sites
        sites.close()


class Feeder:
    """Sends words at a steady pace until it is stopped."""

    def __init__(self, port: int) -> None:
        self.mqtt_client = MqttClient(port)
        self.sent: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def counts(self) -> Counter[str]:
        """The last count of each word."""
        latest: Counter[str] = Counter()
        for _, value in list(self.mqtt_client.received):
            word, count = value.split()
            latest[word] = max(latest[word], int(count))
        return latest

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def close(self) -> None:
        self.stop()
        self.mqtt_client.close()

    def _send(self) -> None:
        number = 0
        while not self._stop.wait(0.1):
            words = [f"w{each % 7}" for each in range(number, number + 20)]
            self.mqtt_client.send("words", words)
            self.sent.update(words)
            number += 20


def port_of(sites: Sites) -> int:
    return int(sites.inventory.sites["A"].broker_address.rpartition(":")[2])


# -- the binder alone, which also makes the other server's first steps


@pytest.fixture(scope="module")
def engine(other_server: SparkServer) -> Iterator[ConnectEngine]:
    engine = engine_at(other_server, "checkpoints")
    yield engine
    engine.close()


def engine_at(server: SparkServer, directory: str) -> ConnectEngine:
    site = one_site("B", server.address, "tcp://127.0.0.1:1", checkpoint_dir=directory)
    return ConnectEngine(server.address, Inventory({"B": site}))


def test_what_is_written_is_read_again(engine: ConnectEngine, other_server: SparkServer) -> None:
    place = engine.state_place("a", "1-ab")
    files = {
        "metadata": b"{}",
        "state/0/0/7.snapshot": os.urandom(PART + 1000),
        "state/0/_stateSchema/default/0_ab": b"of a name that listing leaves out",
        "state/0/_metadata/v2/0": b'{"schema": "speck:place-of-the-checkpoint/state/0/x"}',
    }
    assert engine.state_fault(place) is not None
    engine.check_state_place("a")
    for _ in range(2):  # done again, as after a kill
        engine.write_state(place, StateFiles(place.kind, files))
    assert engine.state_fault(place) is None
    assert engine.read_state(place).files == files
    folder = other_server.directory / "checkpoints/a/1-ab"
    assert engine.state_size(place) == sum(path.stat().st_size for path in visible(folder))
    # What tells its own place tells the new one.
    schema = (folder / "state/0/_metadata/v2/0").read_text(encoding="utf-8")
    assert schema == f'{{"schema": "file:{folder}/state/0/x"}}'
    engine.delete_state(place)
    assert not folder.exists()
    engine.delete_state(place)


def visible(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


def test_a_directory_that_cannot_be_written_is_refused(other_server: SparkServer) -> None:
    (other_server.directory / "file").write_text("not a directory", encoding="utf-8")
    engine = engine_at(other_server, "file/checkpoints")
    try:
        with pytest.raises(Rejected, match="expected checkpoint_dir on the server's default file system"):
            engine.check_state_place("a")
    finally:
        engine.close()


def test_a_place_without_a_checkpoint_has_no_size(engine: ConnectEngine) -> None:
    with pytest.raises(Rejected, match="checkpoints/none"):
        engine.state_size(State("spark-checkpoint", "checkpoints/none"))


# -- moves


def move_and_count(sites: Sites, *, carried: bool) -> None:
    """Move the job there and back under load; every word is to be counted just once."""
    sites.begin()
    feeder = Feeder(port_of(sites))
    try:
        for site in ["B", "A"] * ROUND_TRIPS:
            seen = feeder.counts().total()
            eventually(lambda: feeder.counts().total(), lambda total: total > seen + 100)  # noqa: B023
            operation = sites.apply(site)
            assert operation.state == "succeeded", operation.actions
            assert bool(operation.calls["read_state"] and operation.calls["write_state"]) == carried
        feeder.stop()
        eventually(feeder.counts, lambda counts: counts.total() >= feeder.sent.total())
        assert feeder.counts() == feeder.sent
    finally:
        feeder.close()


def test_counts_go_on_over_moves_between_sites_that_share_no_storage(sites: Sites) -> None:
    move_and_count(sites, carried=True)
    assert [len(sites.copies(site)) for site in "AB"] == [1, 0]


@trial("counts that go on over moves")
@pytest.mark.parametrize("shared", [False, True], ids=["carried", "shared"])
def test_windows_in_rocksdb_go_on_over_moves(
    spark_server: SparkServer,
    other_server: SparkServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared: bool,
) -> None:
    if shared and ROUND_TRIPS == 1:
        pytest.skip("the longer run takes it as well (SPECK_ROUND_TRIPS)")

    def with_rocksdb(job: Job, attempt: Attempt, engine: Engine) -> dict[str, str]:
        return settings(job, attempt, engine) | {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}

    monkeypatch.setattr(specification, "settings", with_rocksdb)
    with MosquittoServer(tmp_path / "mosquitto") as broker:
        sites = Sites(spark_server, other_server, broker.address, tmp_path, shared=shared, entry="windowed")
        try:
            move_and_count(sites, carried=not shared)
            place = Path(sites.handle().details["checkpoint"])
            files = (sites.servers["A"].directory / place).rglob("state/0/0/*.zip")
            assert any(files)  # only a state of RocksDB has such
        finally:
            sites.close()


def test_a_job_that_goes_leaves_no_checkpoint(sites: Sites) -> None:
    sites.begin()
    assert len(sites.copies("A")) == 1
    operation, _ = user.apply(sites.coordinator, Composition("apart", {}))
    assert operation.wait(300)
    assert (operation.state, sites.copies("A")) == ("succeeded", [])


def test_a_state_over_the_limit_is_refused_while_the_job_runs_on(sites: Sites) -> None:
    sites.begin()
    feeder = Feeder(port_of(sites))
    try:
        eventually(lambda: feeder.counts().total(), bool)
        before = sites.handle()
        operations = sites.coordinator.operations
        operations.settings = replace(operations.settings, state_limit=100)
        operation = sites.apply("B")
        assert "finds no checkpoint" in operation.actions["counted"].error
        assert "exceeds the transfer limit" in operation.actions["counted"].error
        assert operation.calls == {}
        assert sites.handle() == before
        assert [len(sites.copies(site)) for site in "AB"] == [1, 0]
        feeder.stop()
        eventually(feeder.counts, lambda counts: counts == feeder.sent)
    finally:
        feeder.close()
