"""``job_broker_address``: a broker that jobs reach by another address than the coordinator does."""

from __future__ import annotations

from pathlib import Path

import pytest

from binders.flink.submission.job_config import program_arguments, run_body
from binders.spark.query.options import probe_options, sink_options, source_options
from speck.core.graph import Graph
from speck.core.inventory import Inventory
from speck.core.runtime import Attempt
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from testbed.benches.examples import REGISTRY, job, make_jar

SITES = """\
sites:
  A:
    spe_address: http://127.0.0.1:8081
    broker_address: tcp://127.0.0.1:1884
    job_broker_address: tcp://mqtt_a
  B:
    spe_address: http://127.0.0.1:8082
    broker_address: tcp://127.0.0.1:1885
    job_broker_address: tcp://mqtt_b:1883
"""
OWN = "tcp://127.0.0.1:1884"
ATTEMPT = Attempt(id="1" * 32, job_name="a", number=1, session="speck-a")


@pytest.fixture(name="inventory")
def two_sites() -> Inventory:
    return load_inventory(SITES)


def test_the_address_is_known_both_ways(inventory: Inventory) -> None:
    assert inventory.job_broker_address(OWN) == "tcp://mqtt_a:1883"
    assert inventory.own_broker_address("tcp://mqtt_a:1883") == OWN
    for address in (OWN, "tcp://elsewhere:1883"):
        assert inventory.own_broker_address(address) == address
    assert inventory.job_broker_address("tcp://elsewhere:1883") == "tcp://elsewhere:1883"


def test_jobs_of_both_engines_get_their_address(inventory: Inventory) -> None:
    desired = job("a", source_broker=OWN, sink_broker="tcp://127.0.0.1:1885")
    assert source_options(desired, ATTEMPT, inventory)["brokerUrl"] == "tcp://mqtt_a:1883"
    assert sink_options(desired, inventory)["brokerUrl"] == "tcp://mqtt_b:1883"
    assert probe_options(OWN, "t", inventory)["brokerUrl"] == "tcp://mqtt_a:1883"
    arguments = program_arguments(desired, ATTEMPT, inventory)
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert (given["--source-broker"], given["--sink-broker"]) == ("tcp://mqtt_a:1883", "tcp://mqtt_b:1883")


def test_the_identity_of_a_copy_does_not_depend_on_the_address_of_jobs(inventory: Inventory) -> None:
    """An engine's listing is compared by the coordinator's address, so adoption and healing find the copy."""
    desired = job("a", source_broker=OWN, sink_broker=OWN)
    parameters = [
        run_body(desired, ATTEMPT, "c0de", known.engine(desired.spe_address), known)["flinkConfiguration"][
            "pipeline.global-job-parameters"
        ]
        for known in (inventory, Inventory())
    ]
    assert parameters[0] == parameters[1]


def test_both_addresses_are_one_broker_in_a_composition(inventory: Inventory, tmp_path: Path) -> None:
    make_jar(tmp_path / "x.jar", "M")
    code = "entry_class: M, job_path: x.jar"
    text = (
        f"jobs:\n"
        f"- {{job_name: a, site: A, source_topic: in, sink_broker: 'tcp://mqtt_b', sink_topic: m, {code}}}\n"
        f"- {{job_name: b, site: B, source_topic: m, sink_topic: out, {code}}}\n"
    )
    loaded = load_composition(text, inventory=inventory, registry=REGISTRY, root=tmp_path, default_name="c")
    found = loaded.composition.jobs
    assert found["a"].sink_broker == found["b"].source_broker == "tcp://127.0.0.1:1885"
    assert Graph.of(found.values()).writers_of(found["b"]) == ("a",)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("tcp://mqtt_b:1883", "tcp://mqtt_a:1883"), "the same address for jobs as that of 'A'"),
        (
            ("tcp://127.0.0.1:1885", "tcp://127.0.0.1:1884"),
            "job_broker_address tcp://mqtt_b:1883 of tcp://127.0.0.1:1884 differs",
        ),
        (("tcp://mqtt_a", "mqtt_a:1883"), "job_broker_address"),
        (("tcp://mqtt_a", "mqtts://mqtt_a"), "underscore"),
    ],
)
def test_what_cannot_be_meant_is_refused(changed: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_inventory(SITES.replace(*changed))
