"""Jobs that real engines call running, and that do not read: reported within a minute, with the address."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.benches.two_engines import two_engines
from testbed.servers.base import REFUSING_PORT
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG

pytestmark = [pytest.mark.engine, NEEDS_RIG]

BOUND = 60.0  # s
FORWARD = "io.speck.flink.jobs.Forward"


def events(services: Services, kind: str) -> dict[str, str]:
    """The messages of this kind of events, by job."""
    return {each["job"]: each["message"] for each in services.queries.events(1000) if each["kind"] == kind}


def apply(services: Services, text: str, *, healthy: bool = True) -> None:
    loaded = load_composition(
        text,
        inventory=services.coordinator.inventory,
        registry=installed(),
        root=(ROOT, Path("/")),
        default_name="c",
    )
    operation, _ = user.apply(services.coordinator, loaded.composition)
    assert operation.wait(PATIENCE)
    assert not healthy or operation.state == "succeeded", operation


def test_what_does_not_read_is_told_within_a_minute(
    mosquitto: MosquittoServer,
    spark_server: SparkServer,
    flink_server: FlinkServer,
    flink_jobs: Path,
    tmp_path: Path,
) -> None:
    """The coordinator reaches the broker, the engines do not; and a program generates its own input."""
    engines = two_engines(spark_server, flink_server, tmp_path)
    broker = mosquitto.address
    text = (
        "jobs:\n"
        + job("near", spark_server.address, (broker, "in"), (broker, "out"), (SPARK_CODE, "upper"))
        + job("far", flink_server.address, (broker, "in"), (broker, "out"), (FLINK_CODE, FORWARD))
        + job(
            "own",
            flink_server.address,
            (broker, "in"),
            (broker, "out"),
            (str(flink_jobs), "streets.Counting"),
        )
    )
    with Store(tmp_path / "store") as store:
        nowhere = f"tcp://127.0.0.1:{REFUSING_PORT}"
        site = Site(name="A", engines=engines, broker_address=broker, job_broker_address=nowhere)
        settings = Settings(roots=(ROOT, flink_jobs.parent), period=2)
        services = build(store, installed(), Inventory({"A": site}), settings)
        services.coordinator.start()
        try:
            apply(services, text, healthy=False)
            begun = time.monotonic()
            reported = await_that(lambda: events(services, "not reading"), lambda found: len(found) == 3)
            took = time.monotonic() - begun
            shown = {each["job_name"]: each["message"] for each in services.queries.jobs()}
            # Flink restarts the task for ever, so that the state of its job does not change.
            error = await_that(lambda: events(services, "drift").get("near", ""), bool, patience=120)
        finally:
            user.delete_composition(services.coordinator, "c").wait(PATIENCE)
            services.coordinator.close()
    print({"seconds": round(took, 1)}, reported, shown, error, sep="\n")
    assert took < BOUND
    for message in reported.values():
        assert broker in message
        assert f"for jobs: {nowhere}" in message
    assert "cannot read topic 'in'" in error
    assert f"cannot reach broker {nowhere}" in error
