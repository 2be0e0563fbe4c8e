from __future__ import annotations

import json

import pytest

from speck.errors import InvalidInput
from speck.model import Engine, Inventory, Login, Secret, Site, Uplink
from speck.schema import InventorySchema, load_inventory

SITES_YAML = """\
sites:
  A:
    spe_address: sc://10.0.0.1
    broker_address: mqtt://10.0.0.1
    slots: 8
    memory: 1 GiB
    checkpoint_dir: /var/lib/speck
    savepoint_dir: /var/lib/flink
    uplink: {bandwidth: 10 Mbit/s, latency: 20 ms}
    engine_login: {token: "${SPARK_TOKEN}", ca_file: /etc/ssl/ca.pem}
    broker_login: {username: speck, password: file:/run/secrets/broker}
  D:
    engines:
    - {spe_address: "spark://10.0.0.4", rest_port: 6067}
    - {spe_address: "http://10.0.0.4:8081", memory: 536870912}
    broker_address: mqtts://10.0.0.4
"""


def test_the_site_inventory() -> None:
    assert load_inventory(SITES_YAML) == Inventory(
        {
            "A": Site(
                name="A",
                engines=(
                    Engine(
                        spe_address="sc://10.0.0.1:15002",
                        slots=8,
                        memory=2**30,
                        checkpoint_dir="/var/lib/speck",
                        savepoint_dir="/var/lib/flink",
                        engine_login=Login(token=Secret("${SPARK_TOKEN}"), ca_file="/etc/ssl/ca.pem"),
                    ),
                ),
                broker_address="tcp://10.0.0.1:1883",
                uplink=Uplink(bandwidth=10e6, latency=20.0),
                broker_login=Login(username="speck", password=Secret("file:/run/secrets/broker")),
            ),
            "D": Site(
                name="D",
                engines=(
                    Engine(spe_address="spark://10.0.0.4:7077", rest_port=6067),
                    Engine(spe_address="http://10.0.0.4:8081/", memory=2**29),
                ),
                broker_address="mqtts://10.0.0.4:8883",
            ),
        }
    )


SITE = "sites:\n  A:\n    spe_address: sc://a\n    broker_address: tcp://a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "unknown field 'name' (the fields are sites)"),
        ("sites:\n", "line 1: sites is empty (expected a mapping of names to sites)"),
        ("sites: [a]\n", "line 1: sites is a list"),
        ("sites: {A: }\n", "line 1: site 'A': is empty (expected a mapping)"),
        (
            "sites: {A: {broker_address: tcp://a}}\n",
            "spe_address is missing (expected an engine's address, or engines)",
        ),
        (SITE.replace("A:", "a b:"), "line 2: site 'a b': is not a name"),
        (SITE + "    memory: lots\n", "line 5: site 'A': memory 'lots' is not a quantity that fits here"),
        (SITE + "    memory: -1\n", "memory -1 is not a quantity"),
        (SITE + "    memory: .inf\n", "memory inf is not a quantity"),
        (SITE + "    slots: 0\n", "line 5: site 'A': slots 0 is not a whole number"),
        (SITE + "    uplink: fast\n", "line 5: site 'A': uplink 'fast'"),
        (SITE + "    uplink:\n      latency: 3 bit/s\n", "line 6: site 'A': uplink.latency '3 bit/s'"),
        (SITE + "    uplink: {latncy: 3}\n", "unknown field 'uplink.latncy' (did you mean 'latency'?)"),
        (
            SITE + "  B:\n    spe_address: SC://A:15002\n    broker_address: tcp://b\n",
            "is that of site 'A' too",
        ),
        (SITE + "    engines: [{spe_address: sc://b}]\n", "spe_address stands beside engines"),
        (SITE + "    engines: []\n", "engines [] is empty (expected an engine or more)"),
        (
            "sites:\n  A:\n    broker_address: tcp://a\n    engines: [{spe_adress: sc://b}]\n",
            "unknown field 'engines.0.spe_adress' (did you mean 'spe_address'?)",
        ),
        (
            "sites:\n  A:\n    broker_address: tcp://a\n    engines: [{spe_address: nowhere at all}]\n",
            "line 4: site 'A': engines.0.spe_address 'nowhere at all'",
        ),
        (SITE.replace("tcp://a", "tcp:/a"), "line 4: site 'A': broker_address 'tcp:/a' is not an address"),
    ],
)
def test_bad_inventory(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "login",
    [
        "{password: hunter2}",
        "{token: hunter2}",
        "{pasword: hunter2}",
        "{username: {a: hunter2}}",
        '{username: "hunter2\\x07"}',
        "hunter2",
        "{password: [hunter2]}",
        "{password: 2020-99-99}",
    ],
)
def test_a_secret_written_out_is_not_repeated(login: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(SITE + f"    broker_login: {login}\n")
    assert "hunter2" not in repr(caught.value.faults) + str(caught.value)
    assert "2020-99-99" not in repr(caught.value.faults)
    assert caught.value.faults[0].line == 5


def test_a_site_is_shown_with_the_reference_and_not_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_TOKEN", "hunter2")
    shown = InventorySchema().dump(load_inventory(SITES_YAML))
    (engine,) = shown["sites"]["A"]["engines"]
    assert engine["engine_login"]["token"] == "${SPARK_TOKEN}"
    assert engine["memory"] == 2**30
    assert "hunter2" not in json.dumps(shown)
