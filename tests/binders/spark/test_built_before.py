"""Code that Spark cannot analyse is refused by an apply before anything is stopped, at a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binders.spark.local.commands import CONNECTOR
from speck.apply.operation import Operation
from speck.binder import installed
from speck.core.inventory import Inventory
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.rest import rest_server
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import StandaloneServer
from tests.support.trials import trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]

CODE = """from pyspark.sql import functions as F


def upper(messages):
    # as they come
    text = F.col("value").cast("string")
    return messages.select(F.upper(text).alias("value"))


def lower(messages):
    return messages.select(F.lower(F.col("value").cast("string")).alias("value"))
"""

BOTH = """
jobs:
- {{job_name: up, site: A, source_topic: words, sink_topic: out/up, entry_class: upper, job_path: air.py}}
- {{job_name: low, site: A, source_topic: words, sink_topic: {low}, entry_class: lower, job_path: air.py}}
"""


COUNTED = """
jobs:
- {{job_name: counted, site: A, source_topic: words, sink_topic: out/counted, entry_class: {entry},
   job_path: own_queries.py, upgrade: stateless{more}}}
"""


def test_a_form_that_does_not_start_gives_way_to_the_one_before_with_its_state(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    known: dict[str, Any] = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    site = one_site("A", spark_server.address, mosquitto.address, **known)
    inventory = Inventory({"A": site})
    with rest_server(tmp_path / "server", inventory, registry=installed()) as served:
        (served.root / "own_queries.py").write_text((JOBS / "own_queries.py").read_text())

        def apply(entry: str, more: str = "") -> Operation:
            loaded = load_composition(
                COUNTED.format(entry=entry, more=more),
                inventory=inventory,
                registry=installed(),
                root=served.root,
                default_name="counted",
            )
            operation, _ = user.apply(served.coordinator, loaded.composition)
            assert operation.wait(120)
            return operation

        mqtt_client = MqttClient(mosquitto.port)

        def texts() -> list[str]:
            return [text for topic, text in mqtt_client.received if topic == "out/counted"]

        try:
            assert apply("words").state == "succeeded"
            mqtt_client.send("words", ["a"])
            eventually(texts, lambda found: found[-1:] == ["a 1"])
            with pytest.raises(InvalidInput, match=r"expected output_mode: append.*; nothing was stopped"):
                apply("twice")
            failed = apply("fails_when_started", f", arguments: {{mark: {tmp_path / 'mark'}}}")
            assert "no such street" in failed.actions["counted"].error
            assert failed.actions["counted"].error.endswith("the previous version was restored and runs")
            mqtt_client.send("words", ["a"])
            eventually(texts, lambda found: found[-1:] == ["a 2"])
            assert texts() == ["a 1", "a 2"]
        finally:
            mqtt_client.close()
            assert user.delete_composition(served.coordinator, "counted").wait(120)


@pytest.mark.parametrize("kind", ["connect", pytest.param("standalone", marks=trial("the same on Connect"))])
def test_a_missing_column_is_told_with_its_place_and_nothing_stops(
    request: pytest.FixtureRequest, kind: str, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    spark: SparkServer | StandaloneServer = request.getfixturevalue(
        "spark_server" if kind == "connect" else "standalone_server"
    )
    known = {"checkpoint_dir": str(tmp_path / "checkpoints")}
    if isinstance(spark, StandaloneServer):
        known = spark.engine
    inventory = Inventory({"A": one_site("A", spark.address, mosquitto.address, **known)})
    with rest_server(tmp_path / "server", inventory, registry=installed()) as served:
        services, coordinator = served.services, served.coordinator
        store, code = coordinator.store, served.root / "air.py"
        code.write_text(CODE)

        def apply(low: str = "out/low") -> None:
            loaded = load_composition(
                BOTH.format(low=low),
                inventory=inventory,
                registry=installed(),
                root=served.root,
                default_name="air",
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            assert operation.wait(120) and operation.state == "succeeded", operation.actions

        def attempts() -> dict[str, str]:
            return {each.attempt.job_name: each.attempt.id for each in store.attempts()}

        mqtt_client = MqttClient(mosquitto.port)
        try:
            apply()
            before = attempts()
            code.write_text(
                CODE.replace('F.col("value").cast("string")\n', 'F.col("vaule").cast("string")\n')
            )
            with pytest.raises(InvalidInput) as refused:
                apply(low="out/lower")  # which would update the neighbour too
            text = str(refused.value)
            assert "`vaule` cannot be resolved" in text and "`value`" in text
            assert "(air.py, line 6, column 19)" in text
            assert text.endswith("nothing was stopped")
            assert attempts() == before and len(services.queries.revisions("air")) == 1
            mqtt_client.send("words", ["aB"])
            eventually(
                lambda: sorted(mqtt_client.received),
                lambda found: found == [("out/low", "ab"), ("out/up", "AB")],
            )
            code.write_text(CODE.replace("# as they come", "# as they are"))
            apply()
            assert attempts() == before  # and a comment restarts nothing
        finally:
            mqtt_client.close()
            assert user.delete_composition(coordinator, "air").wait(120)
