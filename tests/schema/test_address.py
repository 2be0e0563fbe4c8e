"""Addresses of brokers: the coordinator and the connectors accept the same ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binders.kafka.address import BrokerAddress as KafkaAddress
from binders.mqtt.address import BrokerAddress
from speck.errors import InvalidInput
from speck.schema.address import BadAddress, canonical

TABLE = (
    Path(__file__)
    .parents[2]
    .joinpath("jars_and_apps/connectors/core/src/test/resources/io/speck/mqtt/addresses.tsv")
)


def rows() -> list[tuple[str, list[str]]]:
    """Each address, with its host, port and encryption, or the word ``refused``."""
    lines = [each.split("\t") for each in TABLE.read_text("utf-8").splitlines() if not each.startswith("#")]
    return [(json.loads(f'"{written}"'), expected) for written, *expected in lines]


def outcome(address: str) -> list[str]:
    try:
        known = canonical(address)
        if known.startswith("kafka"):
            cluster = KafkaAddress.parse(known)
            host, port = cluster.brokers[0]
            return [host, str(port), "tls" if cluster.tls else "plain"]
        found = BrokerAddress.parse(known)
    except (BadAddress, InvalidInput):
        return ["refused"]
    return [found.host, str(found.port), "tls" if found.tls else "plain"]


def test_the_coordinator_reads_addresses_as_the_connectors_do() -> None:
    # BrokerAddressTest.java reads the same table.
    cases = rows()
    assert len(cases) > 200
    assert [(address, outcome(address)) for address, _ in cases] == cases


@pytest.mark.parametrize("address", ["spark://spark_master:7077", "mqtts://mqtt_broker:8883", "ssl://a_b"])
def test_an_underscore_is_refused_where_java_cannot_use_it(address: str) -> None:
    with pytest.raises(BadAddress, match="underscore"):
        canonical(address)


@pytest.mark.parametrize(
    "address",
    ["tcp://mqtt_broker:1883", "sc://spark_connect:15002", "http://flink_jobmanager:8081/", "https://a_b/"],
)
def test_an_underscore_is_accepted_elsewhere(address: str) -> None:
    assert canonical(address) == address


def test_a_name_beyond_ascii_is_refused_with_its_ascii_form() -> None:
    with pytest.raises(BadAddress) as found:
        canonical("tcp://münchen.example:1883")
    assert "xn--mnchen-3ya.example" in found.value.predicate("tcp://HOST:PORT")
