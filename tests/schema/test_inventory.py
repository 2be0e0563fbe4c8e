from __future__ import annotations

import json

import pytest

from speck.core.draft import Draft
from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Link, Login, Secret, Site, Uplink
from speck.core.job import Composition
from speck.errors import InvalidInput
from speck.placement.profile import Inputs
from speck.placement.sites import site_table
from speck.schema.inventory import load_inventory
from speck.schema.inventory_schemas import InventorySchema
from testbed.benches.examples import REGISTRY, job

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
    job_login: {username: jobs, password_file: /etc/speck/password}
  D:
    engines:
    - {spe_address: "spark://10.0.0.4", rest_port: 6067}
    - {spe_address: "http://10.0.0.4:8081", memory: 536870912}
    broker_address: mqtts://10.0.0.4
    broker_login: {ca_file: /ca.pem, certificate_file: /me.pem, key_file: /me.key}
brokers:
  cloud:
    broker_address: ssl://mqtt.example.org
    broker_login: {username: me, password: "${CLOUD_PASSWORD}"}
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
                job_login=JobLogin(username="jobs", password_file="/etc/speck/password"),
            ),
            "D": Site(
                name="D",
                engines=(
                    Engine(spe_address="spark://10.0.0.4:7077", rest_port=6067),
                    Engine(spe_address="http://10.0.0.4:8081/", memory=2**29),
                ),
                broker_address="mqtts://10.0.0.4:8883",
                broker_login=Login(ca_file="/ca.pem", certificate_file="/me.pem", key_file="/me.key"),
            ),
        },
        {
            "cloud": Broker(
                broker_address="mqtts://mqtt.example.org:8883",
                broker_login=Login(username="me", password=Secret("${CLOUD_PASSWORD}")),
            )
        },
    )


COMPUTING_YAML = """\
sites:
  A:
    spe_address: sc://a
    broker_address: tcp://a
    cores: 4
    speed: 0.5
    price: 0
    tier: edge
    uplink: {bandwidth: 2 Mbit/s, downlink: 8 Mbit/s, latency: 80 ms}
  D:
    engines:
    - {spe_address: "sc://d", cores: 6, speed: 2}
    - {spe_address: "http://d:8081", cores: 2, price: 3}
    broker_address: tcp://d
    tier: cloud
  E:
    engines: [{spe_address: "sc://e"}, {spe_address: "http://e:8081"}]
    broker_address: tcp://e
    cores: 8
brokers:
  plant: {broker_address: tcp://plant}
links:
- {from: A, to: D, bandwidth: 4 Mbit/s, latency: 30 ms}
- {from: D, to: A, latency: 20 ms}
- {from: plant, to: A, bandwidth: 1 Gbit/s}
"""


def test_the_computing_power_and_the_links_of_sites() -> None:
    found = load_inventory(COMPUTING_YAML)
    a, d, e = found.sites.values()
    assert a.uplink == Uplink(bandwidth=2e6, downlink=8e6, latency=80.0)
    assert (a.tier, d.tier, e.tier) == ("edge", "cloud", None)
    assert (a.all_cores, a.mean_speed, a.mean_price) == (4.0, 0.5, 0.0)
    assert (d.all_cores, d.mean_speed, d.mean_price) == (8.0, (6 * 2 + 2) / 8, (6 + 2 * 3) / 8)
    assert (e.all_cores, e.mean_speed, e.mean_price) == (8.0, None, None)
    assert found.links == (
        Link(source="A", target="D", bandwidth=4e6, latency=30.0),
        Link(source="D", target="A", latency=20.0),
        Link(source="plant", target="A", bandwidth=1e9),
    )


def test_a_link_holds_for_the_other_direction_unless_that_is_listed() -> None:
    found = load_inventory(COMPUTING_YAML)
    assert found.link("A", "D") == found.links[0]
    assert found.link("D", "A") == found.links[1]
    assert found.link("A", "plant") == found.link("plant", "A") == found.links[2]
    assert found.link("A", "E") is None


def test_an_inventory_from_before_declares_no_computing_power() -> None:
    found = load_inventory(SITES_YAML)
    for site in found.sites.values():
        assert (site.all_cores, site.mean_speed, site.mean_price, site.tier) == (None,) * 4
    assert found.links == ()


SITE = "sites:\n  A:\n    spe_address: sc://a\n    broker_address: tcp://a\n"
LINK = SITE + "brokers: {c: {broker_address: tcp://c}}\nlinks: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "unknown field 'name' (the fields are brokers, links, sites)"),
        (
            "jobs: []\n",
            "line 1: this is a composition, by its field 'jobs:' (expected a site inventory with 'sites:')",
        ),
        ("sites:\n", "line 1: sites is empty (expected a mapping of names to sites)"),
        ("sites: [a]\n", "line 1: sites is a list"),
        ("sites: {A: }\n", "line 1: site 'A': is empty (expected a mapping with 'spe_address:' and 'br"),
        (
            "sites: {A: {broker_address: tcp://a}}\n",
            "spe_address is missing (expected an engine's address, or a list 'engines')",
        ),
        (SITE.replace("A:", "a b:"), "line 2: site 'a b': is not a name"),
        (SITE + "    memory: lots\n", "line 5: site 'A': memory 'lots' is not a valid quantity"),
        (SITE + "    memory: -1\n", "memory -1 is not a valid quantity"),
        (SITE + "    memory: .inf\n", "memory inf is not a valid quantity"),
        (SITE + "    slots: 0\n", "line 5: site 'A': slots 0 is not a whole number"),
        (SITE + "    uplink: fast\n", "line 5: site 'A': uplink 'fast'"),
        (SITE + "    uplink:\n      latency: 3 bit/s\n", "line 6: site 'A': uplink.latency '3 bit/s'"),
        (SITE + "    uplink: {latncy: 3}\n", "unknown field 'uplink.latncy' (did you mean 'latency'?)"),
        (
            SITE
            + "    checkpoint_dir: /a\n  B:\n    spe_address: SC://A:15002\n    broker_address: tcp://b\n",
            "line 6: site 'B': checkpoint_dir of sc://a:15002 differs from that of site 'A'",
        ),
        (
            "sites:\n  A:\n    broker_address: tcp://a\n    engines: [{spe_address: sc://a}, {spe_address: SC://A}]\n",
            "line 2: site 'A': spe_address 'sc://a:15002' is given twice (expected it once)",
        ),
        (
            SITE + "    cores: 0\n",
            "line 5: site 'A': cores 0 is not more than 0 (expected, for example, 1.5",
        ),
        (SITE + "    speed: fast\n", "line 5: site 'A': speed 'fast' is not a valid quantity"),
        (SITE + "    price: -1\n", "line 5: site 'A': price -1 is not a valid quantity"),
        (SITE + "    tier: fog\n", "tier 'fog' is not known (expected edge, region or cloud)"),
        (SITE + "    uplink: {bandwidth: 0 bit/s}\n", "uplink.bandwidth '0 bit/s' is not more than 0"),
        (SITE + "    uplink: {downlink: 0}\n", "uplink.downlink 0 is not more than 0"),
        (SITE.replace("A:", "any:"), "line 2: site 'any': has a reserved name (expected another"),
        (
            "sites:\n  A:\n    broker_address: tcp://a\n    cores: 2\n"
            "    engines: [{spe_address: a, cores: 1}]\n",
            "line 4: site 'A': cores 2 conflicts with that of an engine (expected it once)",
        ),
        (SITE + "links: {}\n", "line 5: links is a mapping (expected a list of links)"),
        (SITE + "links: [A]\n", "line 5: links[0] is text (expected a mapping with 'from:' and 'to:')"),
        (
            SITE + "links: [{from: A}]\n",
            "line 5: links[0]: to is missing (expected the name of a site or a broker)",
        ),
        (
            SITE + "links: [{from: A, to: Ab}]\n",
            "links[0]: to 'Ab' is not a site or broker of the inventory (did you mean 'A'?)",
        ),
        (SITE + "links: [{from: A, to: A, latency: 1}]\n", "links[0]: to 'A' is where the link begins"),
        (
            LINK + "[{from: A, to: c}]\n",
            "line 6: links[0]: bandwidth is missing (expected bandwidth or latency,",
        ),
        (
            LINK + "[{from: A, to: c, latency: 1}, {from: A, to: c, latency: 2}]\n",
            "links[1]: to 'c' ends a link from 'A' that is given before (expected it once)",
        ),
        (LINK + "[{from: A, to: c, latency: -1 ms}]\n", "links[0]: latency '-1 ms' is not a valid quantity"),
        (LINK + "[{from: A, to: c, bandwith: 1}]\n", "links[0]: unknown field 'bandwith' (did you mean 'ban"),
        (SITE + "    engines: [{spe_address: sc://b}]\n", "spe_address conflicts with 'engines'"),
        (SITE + "    engines: []\n", "engines [] is empty (expected one engine or more)"),
        (
            "sites:\n  A:\n    broker_address: tcp://a\n    engines: [{spe_adress: sc://b}]\n",
            "unknown field 'engines.0.spe_adress' (did you mean 'spe_address'?)",
        ),
        (
            "sites:\n  A:\n    broker_address: tcp://a\n    engines: [{spe_address: nowhere at all}]\n",
            "line 4: site 'A': engines.0.spe_address 'nowhere at all'",
        ),
        (SITE.replace("tcp://a", "tcp:/a"), "line 4: site 'A': broker_address 'tcp:/a' is not an address"),
        (SITE + "brokers: [a]\n", "line 5: brokers is a list (expected a mapping of names to brokers)"),
        (
            SITE + "brokers: {c: 1}\n",
            "line 5: broker 'c': is a number (expected a mapping with 'broker_address:')",
        ),
        (SITE + "brokers: {c: {}}\n", "line 5: broker 'c': broker_address is missing"),
        (SITE + "brokers: {c: {slots: 1, broker_address: tcp://c}}\n", "unknown field 'slots'"),
        (
            SITE + "brokers: {A: {broker_address: tcp://c}}\n",
            "line 5: broker 'A': is also the name of a site",
        ),
        (
            SITE + "brokers: {c: {broker_address: tcp://a, broker_login: {username: me}}}\n",
            "line 5: 'c': the logins to tcp://a:1883 differ from those of 'A'",
        ),
        (
            SITE + "brokers: {c: {broker_address: tcp://a, max_queued_bytes: 20 MB}}\n",
            "line 5: 'c': max_queued_bytes 20000000 of tcp://a:1883 differs from the 100000000 of 'A'",
        ),
    ],
)
def test_bad_inventory(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "broker", "login", "message"),
    [
        (
            "sc://e",
            "tcp://b",
            "engine_login: {username: hunter2}",
            "username is not supported by Spark engines",
        ),
        ("sc://e", "tcp://b", "engine_login: {key_file: k}", "key_file is given without certificate_file"),
        (
            "http://e",
            "tcp://b",
            "engine_login: {ca_file: c}",
            "ca_file has no effect on http://, which has no TLS (expected https://HOST:PORT)",
        ),
        (
            "https://e",
            "tcp://b",
            'engine_login: {username: u, token: "${T}"}',
            "token is given together with username (expected one of the two)",
        ),
        (
            "sc://e",
            "tcp://b",
            'broker_login: {token: "${T}"}',
            "token is not supported by MQTT brokers (expected username and password)",
        ),
        ("sc://e", "tcp://b", 'broker_login: {password: "${P}"}', "password is given without username"),
        (
            "sc://e",
            "tcp://b",
            "broker_login: {ca_file: c}",
            "ca_file has no effect on tcp://, which has no TLS",
        ),
        (
            "sc://e",
            "mqtts://b",
            "broker_login: {certificate_file: c}",
            "certificate_file is given without key_file",
        ),
        (
            "sc://e",
            "tcp://b",
            'job_login: {username: u, password: "${P}", password_file: f}',
            "password_file is given together with password (expected one of the two)",
        ),
        ("sc://e", "tcp://b", "job_login: {password_file: f}", "password_file is given without username"),
        ("sc://e", "tcp://b", "job_login: {token: t}", "unknown field 'job_login.token'"),
    ],
)
def test_a_login_that_does_not_fit(engine: str, broker: str, login: str, message: str) -> None:
    text = f"sites:\n  A:\n    spe_address: {engine}\n    broker_address: {broker}\n    {login}\n"
    with pytest.raises(InvalidInput) as caught:
        load_inventory(text)
    (fault,) = caught.value.faults
    assert fault.line == 5
    assert message in str(fault)
    assert "hunter2" not in repr(fault)


@pytest.mark.parametrize("section", ["broker_login", "job_login", "engine_login"])
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
def test_a_secret_written_out_is_not_repeated(login: str, section: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(SITE + f"    {section}: {login}\n")
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


# -- variables

PLACES = """\
sites:
  ${HOME_SITE:-A}:
    spe_address: sc://${HOST}:${PORT:-15002}
    broker_address: tcp://${HOST}
    slots: ${SLOTS:-8}
    checkpoint_dir: /var/lib/${REGION:-here}/$${job}
    uplink: {bandwidth: "${LINK:-10 Mbit/s}"}
    engine_login: {token: "${SPARK_TOKEN}"}
    broker_login: &login
      username: ${WHO:-speck}
      password: file:/run/${REGION:-here}/broker
    job_login: {username: jobs, password: &secret "${JOBS_PASSWORD}"}
brokers:
  cloud: {broker_address: "tcp://${CLOUD:-c}", broker_login: {username: me, password: *secret}}
"""


def test_variables_have_values_and_secrets_stay_references() -> None:
    given = {"HOST": "edge", "SLOTS": "4", "SPARK_TOKEN": "hunter2", "JOBS_PASSWORD": "hunter2"}
    found = load_inventory(PLACES, given)
    site = found.sites["A"]
    (engine,) = site.engines
    assert (engine.spe_address, engine.slots) == ("sc://edge:15002", 4)
    assert engine.checkpoint_dir == "/var/lib/here/${job}"
    assert engine.engine_login.token == Secret("${SPARK_TOKEN}")
    assert site.broker_login == Login(username="speck", password=Secret("file:/run/here/broker"))
    assert site.job_login == JobLogin(username="jobs", password=Secret("${JOBS_PASSWORD}"))
    assert site.uplink.bandwidth == 10e6
    assert found.brokers["cloud"].broker_login.password == Secret("${JOBS_PASSWORD}")
    assert "hunter2" not in json.dumps(InventorySchema().dump(found))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SITE + "    slots: ${SLOTS}\n", "line 5: variable 'SLOTS' has no value (expected --set SLOTS=VALUE"),
        (SITE + "    slots: ${SLOTS:-none}\n", "line 5: site 'A': slots 'none' is not a whole number"),
        (SITE + "    slots: ${1}\n", "line 5: '${' does not start a variable"),
        (
            SITE + "    broker_login: {username: ${WHO}}\n",
            "line 5: a variable inside { } or [ ] must be",
        ),
        (
            SITE + "    broker_login: {username: '${BROKER_PASSWORD}'}\n",
            "line 5: variable 'BROKER_PASSWORD' has the name of a secret, but this field is shown",
        ),
        (
            SITE + "    broker_login: {username: me, password: 'file:/${BROKER_PASSWORD}'}\n",
            "line 5: variable 'BROKER_PASSWORD' has the name of a secret",
        ),
        (
            SITE + "    broker_login: {username: me, password: '${BROKER_PASSWORD:-hunter2}'}\n",
            "line 5: site 'A': broker_login.password is not a reference to a secret",
        ),
        (
            SITE + "    engine_login: {ca_file: &it '${BROKER}'}\n    broker_login: {password: *it}\n",
            "line 6: site 'A': broker_login.password is not a reference to a secret",
        ),
    ],
)
def test_bad_variables(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_inventory(text, {"BROKER_PASSWORD": "hunter2", "BROKER": "hunter2"})
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


SHARED = SITE + "  B:\n    spe_address: SC://A:15002\n    broker_address: tcp://b\n    slots: 2\n"


def test_an_engine_may_serve_two_sites() -> None:
    found = load_inventory(SHARED)
    a, b = found.sites.values()
    assert a.engines[0].spe_address == b.engines[0].spe_address == "sc://a:15002"
    assert found.site_of_engine("sc://a:15002") is a
    assert found.site_of_engine("sc://a:15002", None, "B") is b
    assert found.site_of_engine("sc://a:15002", None, "tcp://elsewhere:1883", "tcp://b:1883") is b


def test_each_job_belongs_to_the_site_that_it_names_of_those_of_its_engine() -> None:
    inventory = load_inventory(SHARED)
    jobs = [
        job(name, site=site, spe_address="sc://a:15002", source_broker=f"tcp://{broker}:1883", engine="spark")
        for name, site, broker in (("a", "A", "a"), ("b", "B", "b"), ("reader", None, "b"))
    ]
    draft = Draft.of(Composition("test", {each.job_name: each for each in jobs}), inventory, REGISTRY)
    assert {name: list(sites) for name, sites in draft.candidates.items()} == {
        "a": ["A"],
        "b": ["B"],
        "reader": ["B"],
    }
    table = site_table(inventory, Inputs(), jobs)
    assert table.engines == {"sc://a:15002": 0}
