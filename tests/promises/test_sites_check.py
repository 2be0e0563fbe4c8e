"""``speck sites check`` over four real sites: quick, and without an effect on the jobs that run there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.benches.two_engines import two_engines
from testbed.faults.flow import Listener, Sender, client
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG

pytestmark = [pytest.mark.engine, NEEDS_RIG]

RATE = 200.0  # messages/s
CHECKS = 2  # of which one may be slow, as the machine does much else
BOUND = 5.0  # s, for one check of four sites


def test_checks_are_quick_and_disturb_no_job(
    site_brokers: dict[str, MosquittoServer],
    spark_server: SparkServer,
    flink_server: FlinkServer,
    tmp_path: Path,
) -> None:
    spark, flink = two_engines(spark_server, flink_server, tmp_path)
    engines = {"A": spark, "B": flink, "C": spark, "D": flink}
    sites = {
        name: Site(name=name, engines=(engine,), broker_address=site_brokers[name].address)
        for name, engine in engines.items()
    }
    first, middle, last = (site_brokers[name].address for name in "ABC")
    text = (
        "jobs:\n"
        + job("near", spark.spe_address, (first, "check/in"), (middle, "check/mid"), (SPARK_CODE, "upper"))
        + job(
            "far",
            flink.spe_address,
            (middle, "check/mid"),
            (last, "check/out"),
            (FLINK_CODE, "io.speck.flink.jobs.Forward"),
        )
    )
    with Store(tmp_path / "store") as store, client(last) as connection:
        services = build(store, installed(), Inventory(sites), Settings(roots=(ROOT,), period=0))
        coordinator, results = services.coordinator, Listener(connection, "check/out")
        coordinator.start()
        try:
            loaded = load_composition(
                text, inventory=coordinator.inventory, registry=installed(), root=ROOT, default_name="c"
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            assert operation.wait(PATIENCE)
            assert operation.state == "succeeded"
            sender = Sender(first, "check/in", RATE, lambda number: f"M{number}").start()
            await_that(lambda: len(results.received), lambda count: count > 200)
            times, faults = [], []
            for _ in range(CHECKS):
                for each in sites.values():
                    coordinator.pool.broker(each.broker_address).close()  # forget what was measured before
                begun = time.monotonic()
                faults += [each for found in services.sites.checkups() for each in found["wrong"]]
                times.append(time.monotonic() - begun)
            reached = [each for found in services.sites.checkups_from_engines() for each in found["wrong"]]
            sent = sender.stop()
            await_that(lambda: len(set(sent) - results.texts().keys()), lambda lost: lost == 0, patience=60)
            (attempts,) = {each.attempt.number for name in ("near", "far") for each in store.attempts(name)}
        finally:
            user.delete_composition(coordinator, "c").wait(PATIENCE)
            coordinator.close()
    counts = results.texts()
    doubled = sum(count > 1 for count in counts.values())
    print({"messages": len(sent), "doubled": doubled, "seconds": [round(each, 2) for each in times]})
    assert [each for each in faults + reached if not each["remark"]] == []
    assert (doubled, attempts) == (0, 1)
    assert min(times) < BOUND
