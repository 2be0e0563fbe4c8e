"""Real jobs updated, moved and rewired under load: every message counted once, state included.

There are two Flink clusters, and one Spark Connect server that serves as two under two names.
``SPECK_ROUNDS`` (1) and ``SPECK_RATE`` (messages/s) make it longer and harder; ``python -m
benchmarks.promises moves`` uses two real sites.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Coordinator
from speck.core.inventory import Engine, Inventory, Site
from speck.schema.compositions import load_composition
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE
from testbed.faults.flow import Listener, Sender, client
from testbed.faults.moves import PAIRS, SPARK_COUNT, MoveTrial, Sites, coordinator_on
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

ROUNDS = int(os.environ.get("SPECK_ROUNDS", "1"))
RATE = float(os.environ.get("SPECK_RATE", "100"))

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        PROGRAM is None or not (ROOT / FLINK_CODE).exists(),
        reason="needs Mosquitto and the Flink programs (make jars)",
    ),
]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    directory = tmp_path_factory.mktemp("brokers")
    with MosquittoServer(directory / "near") as near, MosquittoServer(directory / "far") as far:
        yield near.address, far.address


@pytest.fixture(scope="module")
def other_flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    with FlinkServer(tmp_path_factory.mktemp("other-flink"), small=True) as server:
        yield server


@pytest.fixture(scope="module")
def sites(
    spark_server: SparkServer,
    flink_server: FlinkServer,
    other_flink: FlinkServer,
    brokers: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Sites:
    checkpoints = tmp_path_factory.mktemp("checkpoints")
    here = {"spark": spark_server.address, "flink": flink_server.address}
    there = {
        "spark": spark_server.address.replace("127.0.0.1", "localhost"),
        "flink": other_flink.address,
    }
    known = {"spark": str(checkpoints), "flink": None}
    inventory = Inventory(
        {
            name: Site(
                name=name,
                engines=tuple(
                    Engine(spe_address=address, checkpoint_dir=known[kind])
                    for kind, address in engines.items()
                ),
                broker_address=broker,
            )
            for name, engines, broker in zip("AB", (here, there), brokers, strict=True)
        }
    )
    return Sites(inventory, (here, there), brokers)


MARKS = {"spark-spark": [trial("[spark-flink]")]}


@pytest.mark.parametrize("pair", [pytest.param(each, marks=MARKS.get(each, ())) for each in PAIRS])
def test_nothing_is_lost_or_doubled(pair: str, sites: Sites, tmp_path: Path) -> None:
    # Between two batches, seconds of messages wait: they must be worked off before the job reads elsewhere.
    slow = replace(SPARK_COUNT, updated={"trigger": "3 seconds"})
    tried = replace(PAIRS[pair], counted=slow) if pair == "spark-spark" else PAIRS[pair]
    with coordinator_on(sites, tmp_path) as coordinator:
        result = MoveTrial(pair, tried, sites, coordinator).run(ROUNDS, RATE)
    assert (result.lost, result.doubled) == (0, 0)
    assert result.messages > 100


JOB = """
name: dies
jobs:
- job_name: dies
  site: {site}
  engine: spark
  source_topic: dies/in
  sink_topic: dies/out
  entry_class: {entry}
  job_path: testbed/programs/spark/simple.py
"""


def applied(coordinator: Coordinator, site: str, entry: str) -> Operation:
    text = JOB.format(site=site, entry=entry).encode()
    inventory = coordinator.inventory
    loaded = load_composition(text, inventory=inventory, registry=installed(), root=ROOT, default_name="dies")
    operation, _ = user.apply(coordinator, loaded.composition)
    assert operation.wait(180)
    return operation


def test_a_query_that_dies_at_its_first_batch_is_replaced_by_the_former_one(
    sites: Sites, tmp_path: Path
) -> None:
    broker = sites.brokers[0]
    with (
        coordinator_on(sites, tmp_path) as coordinator,
        client(broker) as connection,
    ):
        results = Listener(connection, "dies/out")
        assert applied(coordinator, "A", "upper").state == "succeeded"
        sender = Sender(broker, "dies/in", RATE, "w{}".format).start()
        try:
            eventually(lambda: len(results.received), lambda total: total > 50)
            operation = applied(coordinator, "A", "fails_at_run")
            assert operation.state == "failed"
            error = operation.actions["dies"].error
            assert "it was started, but is failed: RuntimeError: no such street" in error
            assert error.endswith("; the previous version was restored and runs")
            there = len(results.received)
            eventually(lambda: len(results.received), lambda total: total > there + 50)
        finally:
            sent = Counter(text.upper() for text in sender.stop())
        eventually(lambda: len(results.received), lambda total: total >= sent.total())
        assert results.texts() == sent
        assert user.delete_composition(coordinator, "dies").wait(180)
