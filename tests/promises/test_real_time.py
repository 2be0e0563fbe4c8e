"""Jobs in real time on Spark Connect: nothing lost, nothing doubled, whatever fails or changes under load.

``SPECK_RATE`` (messages/s) makes it harder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binders.spark.local.commands import CONNECTOR
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT as PROJECT
from testbed.benches import user
from testbed.faults.flow import Listener, Sender, client
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

PATIENCE = 180.0  # s, for a server that starts on a busy machine
RATE = float(os.environ.get("SPECK_RATE", "300"))

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]

# The second job reads what the first writes at the far broker, and writes at the near one.
CHAIN = """
name: chain
jobs:
- job_name: first
  site: {site}
  source_broker: {near}
  source_topic: chain/in
  sink_broker: {far}
  sink_topic: {middle}
  entry_class: {entry}
  job_path: testbed/programs/spark/multiplied.py
  {trigger}
- job_name: second
  site: A
  source_broker: {far}
  source_topic: {middle}
  sink_broker: {near}
  sink_topic: chain/out
  entry_class: passed
  job_path: testbed/programs/spark/multiplied.py
  trigger: real-time
"""
REAL_TIME = "trigger: real-time"

# The first two jobs of a site of the road traffic.
TRAFFIC = """
name: chain
jobs:
- job_name: clean
  site: {site}
  source_broker: {near}
  source_topic: chain/in
  sink_broker: {near}
  sink_topic: {middle}
  entry_class: clean
  job_path: jars_and_apps/road_traffic/jobs.py
  {trigger}
- job_name: forward
  site: {site}
  source_broker: {near}
  source_topic: {middle}
  sink_broker: {near}
  sink_topic: chain/out
  entry_class: forward
  job_path: jars_and_apps/road_traffic/jobs.py
  {trigger}
"""
READING = "OK,120,42,668,120,2014-02-13T11:30:00,7,{},158324"


class Chain:
    """Two jobs on one server, which serves as two sites under two names, and two brokers."""

    def __init__(self, coordinator: Coordinator, near: MosquittoServer, far: MosquittoServer) -> None:
        self._coordinator, self.near, self.far = coordinator, near, far

    def apply(
        self,
        entry: str = "passed",
        site: str = "A",
        trigger: str = REAL_TIME,
        middle: str = "chain/middle",
        form: str = CHAIN,
    ) -> Operation:
        text = form.format(
            near=self.near.address,
            far=self.far.address,
            entry=entry,
            site=site,
            trigger=trigger,
            middle=middle,
        )
        loaded = load_composition(
            text.encode(),
            inventory=self._coordinator.inventory,
            registry=installed(),
            root=PROJECT,
            default_name="chain",
        )
        operation, _ = user.apply(self._coordinator, loaded.composition)
        assert operation.wait(180)
        return operation


@contextmanager
def chain(directory: Path, server: SparkServer) -> Iterator[Chain]:
    with (
        MosquittoServer(directory / "near") as near,
        MosquittoServer(directory / "far") as far,
        Store(directory / "store") as store,
    ):
        addresses = {"A": server.address, "B": server.address.replace("127.0.0.1", "localhost")}
        checkpoints = str(directory / "checkpoints")
        sites = {
            name: Site(
                name=name,
                engines=(Engine(spe_address=address, checkpoint_dir=checkpoints),),
                broker_address=near.address,
            )
            for name, address in addresses.items()
        }
        settings = Settings(roots=(PROJECT,), period=1)
        coordinator = build(store, installed(), Inventory(sites), settings).coordinator
        coordinator.start()
        try:
            yield Chain(coordinator, near, far)
            assert user.delete_composition(coordinator, "chain").wait(60)
        finally:
            coordinator.close()


def account(
    running: Chain, harm: Callable[[Callable[[int], None]], None], text: str = "m{}"
) -> dict[str, int]:
    """The messages sent while this was done, and those of them that were lost or doubled."""
    with client(running.near.address) as connection:
        results = Listener(connection, "chain/out")

        def await_more(number: int) -> None:
            there = len(results.received)
            eventually(lambda: len(results.received), lambda total: total >= there + number, PATIENCE)

        sender = Sender(running.near.address, "chain/in", RATE, text.format).start()
        try:
            await_more(200)
            harm(await_more)
            await_more(200)
        finally:
            sent = sender.stop()

        def lost() -> int:
            found = results.texts()
            return sum(not (found[each] or found[f"{each}-a"]) for each in sent)

        eventually(lost, lambda number: number == 0, PATIENCE)
        time.sleep(1)  # for what comes twice
        found = results.texts()
    doubled = sum(found[each] + found[f"{each}-a"] > 1 or found[f"{each}-b"] > 1 for each in sent)
    print({"messages": len(sent), "lost": lost(), "doubled": doubled})
    return {"lost": lost(), "doubled": doubled}


NOTHING = {"lost": 0, "doubled": 0}


def test_a_killed_server_and_a_broker_killed_twice(spark_server: SparkServer, tmp_path: Path) -> None:
    """One after the other, in one chain: each fault meets jobs that have recovered from the one before."""
    with chain(tmp_path, spark_server) as running:
        assert running.apply().state == "succeeded"

        def harm(await_more: Callable[[int], None]) -> None:
            spark_server.kill()
            spark_server.start()
            await_more(300)
            for _ in range(2):
                running.far.kill()
                running.far.start()
                await_more(300)

        assert account(running, harm) == NOTHING


def test_updates_moves_and_changes_of_the_mode(spark_server: SparkServer, tmp_path: Path) -> None:
    with chain(tmp_path, spark_server) as running:
        assert running.apply().state == "succeeded"

        def harm(await_more: Callable[[int], None]) -> None:
            for entry, site, trigger in (
                ("doubled", "A", REAL_TIME),
                ("doubled", "B", REAL_TIME),
                ("passed", "B", ""),
                ("passed", "A", REAL_TIME),
            ):
                assert running.apply(entry, site, trigger).state == "succeeded"
                await_more(300)

        assert account(running, harm) == NOTHING


@trial("a killed server, a broker killed twice, and updates and moves, one at a time")
def test_rewires_and_two_faults_at_once(spark_server: SparkServer, tmp_path: Path) -> None:
    with chain(tmp_path, spark_server) as running:
        assert running.apply().state == "succeeded"

        def harm(await_more: Callable[[int], None]) -> None:
            for middle in ("chain/other", "chain/middle"):
                assert running.apply(middle=middle).state == "succeeded"
                await_more(300)
            running.far.kill()
            spark_server.kill()
            running.far.start()
            spark_server.start()
            await_more(300)
            spark_server.kill()
            spark_server.start()
            running.far.kill()
            running.far.start()
            await_more(300)

        assert account(running, harm) == NOTHING


@trial("jobs of two columns in real time")
def test_readings_of_the_road_traffic_are_cleaned_and_forwarded(
    spark_server: SparkServer, tmp_path: Path
) -> None:
    with chain(tmp_path, spark_server) as running:
        assert running.apply(form=TRAFFIC).state == "succeeded"

        def harm(await_more: Callable[[int], None]) -> None:
            for site, trigger in (("B", REAL_TIME), ("B", ""), ("A", REAL_TIME)):
                assert running.apply(site=site, trigger=trigger, form=TRAFFIC).state == "succeeded"
                await_more(300)

        assert account(running, harm, READING) == NOTHING
