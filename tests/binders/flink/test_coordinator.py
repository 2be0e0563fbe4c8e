"""A Flink job through the real coordinator: started, updated and moved with its state, and deleted."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from speck.apply.job_state import RETAINED_STATES
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import session_name
from speck.core.settings import Settings
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.store.maintenance.backup import restore
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.flink import FlinkBench
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]

JOB = """
jobs:
- job_name: {name}
  site: {site}
  engine: flink
  source_topic: in
  sink_topic: out
  entry_class: {entry}
  job_path: streets.jar
  arguments: {{rate: {rate}, out: {out}}}
  upgrade: {upgrade}
"""


@pytest.fixture(name="bench")
def bench_fixture(flink_server: FlinkServer, flink_jobs: Path) -> Iterator[FlinkBench]:
    bench = FlinkBench(flink_server, flink_jobs)
    yield bench
    bench.close()


def counts(out: Path) -> list[int]:
    """The counts of one of the keys, in order."""
    lines = out.read_text().splitlines() if out.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith("0 ")]


def test_a_job_is_updated_moved_put_back_with_its_state_and_deleted(
    bench: FlinkBench, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    here = bench.server.address
    there = here.replace("127.0.0.1", "localhost")  # to SpecK another cluster
    inventory = Inventory(
        {name: one_site(name, address, mosquitto.address) for name, address in (("A", here), ("B", there))}
    )
    out = tmp_path / "out"
    with Store(tmp_path / "store") as store:
        coordinator = build(
            store, installed(), inventory, Settings(roots=(bench.jar.parent,), period=0)
        ).coordinator
        coordinator.start()

        def apply(
            site: str,
            rate: int,
            entry: str = "streets.Counting",
            state: str = "done",
            upgrade: str = "stateful",
        ) -> Operation:
            loaded = load_composition(
                JOB.format(name="counted", site=site, rate=rate, out=out, entry=entry, upgrade=upgrade),
                inventory=inventory,
                registry=installed(),
                root=bench.jar.parent,
                default_name="one",
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            assert operation.wait(120)
            assert operation.actions["counted"].state == state, operation.actions["counted"]
            return operation

        try:
            kinds = []
            for number, (site, rate) in enumerate([("A", 200), ("A", 300), ("B", 300)], 1):
                kinds.append(apply(site, rate).actions["counted"].kind)
                eventually(lambda: counts(out), lambda found: len(found) >= 40 * number)  # noqa: B023
                assert bench.running("counted") == 1
            assert kinds == ["start", "update", "move"]
            # Code that cannot be built is refused before anything is stopped.
            with pytest.raises(InvalidInput, match="no such street") as refused:
                apply("B", 300, "streets.Counting$FailsAtBuild")
            assert bench.fault_place() in str(refused.value)
            assert str(refused.value).endswith("nothing was stopped")
            assert bench.running("counted") == 1 and len(store.revision_numbers("one")) == 3
            # Flink takes a program whose tasks die as soon as they run.  The form before it continues with
            # its state, though this one began without.
            failing = apply("B", 300, "streets.Counting$FailsAtRun", "failed", "stateless")
            died = failing.actions["counted"].error
            assert "it was started, but is failed: " in died
            assert died.endswith("; the previous version was restored and runs")
            there = len(counts(out))
            eventually(lambda: counts(out), lambda found: len(found) >= there + 40)
            assert bench.running("counted") == 1
            assert len([name for name in bench.rest.jars().values() if len(name) == 68]) == 1
            savepoints = bench.server.cluster.savepoints / "counted"
            assert len(list(savepoints.glob("*/savepoint-*"))) == RETAINED_STATES
            assert user.delete_composition(coordinator, "one").wait(120)
            assert bench.running("counted") == 0
            assert not savepoints.exists()
        finally:
            coordinator.close()
    assert counts(out) == list(range(1, len(counts(out)) + 1))  # nothing lost, nothing counted twice
    assert bench.rest.jars() == {}
    assert not MqttBroker(mosquitto.address, inventory).session_exists(
        session_name("counted", store.identity)
    )


def test_after_an_old_backup_the_copy_of_later_is_taken_up(
    bench: FlinkBench, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    inventory = Inventory({"A": one_site("A", bench.server.address, mosquitto.address)})

    def apply(coordinator: Coordinator, rate: int) -> None:
        text = JOB.format(
            upgrade="stateful",
            name="strayed",
            site="A",
            rate=rate,
            out=tmp_path / "out",
            entry="streets.Counting",
        )
        loaded = load_composition(
            text, inventory=inventory, registry=installed(), root=bench.jar.parent, default_name="one"
        )
        operation, _ = user.apply(coordinator, loaded.composition)
        assert operation.wait(120)
        assert operation.state == "succeeded"

    with Store(tmp_path / "store") as store:
        services = build(store, installed(), inventory, Settings(roots=(bench.jar.parent,), period=0))
        coordinator = services.coordinator
        apply(coordinator, 100)
        backup = b"".join(services.queries.backup())
        for rate in (200, 100):
            apply(coordinator, rate)
        (later,) = store.attempts("strayed")
        coordinator.close()
    restore(io.BytesIO(backup), "backup", tmp_path / "restored")
    with Store(tmp_path / "restored") as store:
        coordinator = build(
            store, installed(), inventory, Settings(roots=(bench.jar.parent,), period=0)
        ).coordinator
        coordinator.start()
        try:
            coordinator.reconciler.round()
            (taken,) = store.attempts("strayed")
            assert (taken.attempt.id, taken.attempt.number) == (later.attempt.id, 3)
            assert taken.handle is not None
            # Where it began is asked of the cluster: it may die before its first checkpoint.
            assert later.attempt.state is not None
            assert taken.handle.details["state"].endswith(later.attempt.state.location.partition("file:")[2])
            assert bench.running("strayed") == 1
            assert user.delete_composition(coordinator, "one").wait(120)
            assert bench.running("strayed") == 0
        finally:
            coordinator.close()
