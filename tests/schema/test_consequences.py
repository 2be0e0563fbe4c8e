"""A misspelt name is one fault: what follows from it is not reported beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speck.binder import QueryRunner, Registry
from speck.core.inventory import Broker, Engine, Inventory, Site
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from speck.schema.queries import queries_of
from testbed.benches.examples import REGISTRY, one_site

SITES = Inventory(
    {
        "Aarhus": one_site("Aarhus", "sc://a:15002", "tcp://a:1883"),
        "Bergen": one_site("Bergen", "http://b:8081/", "tcp://b:1883"),
        "Cork": Site(
            name="Cork",
            engines=(Engine(spe_address="http://c:8081/"), Engine(spe_address="sc://c:15002")),
            broker_address="tcp://c:1883",
        ),
    },
    {"cloud": Broker(broker_address="tcp://cloud:1883")},
)

TEXT = """\
jobs:
- job_name: clean
  site: Aarhus
  source_topic: raw
  sink_topic: cleaned
  entry_class: work
  job_path: work.py
- job_name: count
  site: Cork
  engine: spark
  source_broker: Aarhus
  source_topic: cleaned
  sink_topic: counts
  entry_class: work
  job_path: work.py
  key_split: {combiners: 2, window: 60 s}
- job_name: any
  sites: [Aarhus, Cork]
  engine: spark
  source_broker: Aarhus
  source_topic: cleaned
  sink_topic: others
  sink_broker: cloud
  with: clean
  entry_class: work
  job_path: work.py
- job_name: each-${each.site:lower}
  for_each: {site: [Aarhus, Cork]}
  engine: spark
  source_topic: raw
  sink_topic: each/${each.site}
  entry_class: work
  job_path: work.py
- job_name: near
  site: Aarhus
  apart: each-cork
  source_topic: raw
  sink_topic: nearest
  entry_class: work
  job_path: work.py
"""

QUERIES = """\
topics:
  raw/+:
    as: readings
    at: Bergen
    schema: {time: timestamp(ms) not null, town: string, speed: double}
    event_time: time
    watermark: 1 s
jobs:
- job_name: fast
  site: Bergen
  sql: SELECT town, speed FROM readings WHERE speed > 50
  sink_topic: results/fast
- job_name: towns
  site: Bergen
  sql: SELECT town FROM fast
  sink_topic: results/towns
- job_name: others
  site: Bergen
  sql: SELECT town FROM towns WHERE town <> 'Ulm'
  sink_topic: results/others
- job_name: all
  spe_address: http://b:8081/
  sink_broker: Bergen
  sql: SELECT * FROM readings
  sink_topic: results/all
"""


@pytest.fixture(name="root")
def root_fixture(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    (tmp_path / "runner.jar").write_bytes(b"the program")
    return tmp_path


def faults(root: Path, text: str) -> list[str]:
    runner = QueryRunner(root / "runner.jar", "io.speck.Run", panes=True)
    kinds = [replace(each, queries=runner, aggregation=lambda *_: ()) for each in REGISTRY.engines]
    registry = Registry(tuple(kinds), REGISTRY.brokers)
    try:
        load_composition(text, inventory=SITES, registry=registry, root=root, default_name="test")
    except InvalidInput as error:
        return [str(fault) for fault in error.faults]
    return []


def test_the_texts_have_no_fault(root: Path) -> None:
    assert faults(root, TEXT) == faults(root, QUERIES) == []


FIELDS = [
    ("site: Aarhus\n  source", "siet: Aarhus\n  source", "unknown field 'siet' (did you mean 'site'?)"),
    ("site: Cork\n  engine", "stie: Cork\n  engine", "unknown field 'stie' (did you mean 'site'?)"),
    ("sites: [", "sties: [", "unknown field 'sties' (did you mean 'sites'?)"),
    ("for_each: {", "foreach: {", "unknown field 'foreach' (did you mean 'for_each'?)"),
    (
        "engine: spark\n  source_b",
        "enigne: spark\n  source_b",
        "unknown field 'enigne' (did you mean 'engine'?)",
    ),
    ("source_topic: raw", "source_topc: raw", "unknown field 'source_topc' (did you mean 'source_topic'?)"),
    ("job_name: clean", "jobname: clean", "unknown field 'jobname' (did you mean 'job_name'?)"),
    ("window: 60", "windw: 60", "unknown field 'key_split.windw' (did you mean 'window'?)"),
    ("jobs:", "job:", "unknown field 'job' (did you mean 'jobs'?)"),
]

NAMES = [
    (
        "site: Aarhus\n  source",
        "site: Aarhsu\n  source",
        "site 'Aarhsu' is not a site of the inventory (did you mean 'Aarhus'?)",
    ),
    (
        "site: Cork\n  engine",
        "site: Crok\n  engine",
        "site 'Crok' is not a site of the inventory (did you mean 'Cork'?)",
    ),
    (
        "sites: [Aarhus",
        "sites: [Aarhsu",
        "sites.0 'Aarhsu' is not a site of the inventory (did you mean 'Aarhus'?)",
    ),
    (
        "site: [Aarhus",
        "site: [Aarhsu",
        "for_each.site.0 'Aarhsu' is not a site of the inventory (did you mean",
    ),
    (
        "engine: spark\n  source_b",
        "engine: sparc\n  source_b",
        "engine 'sparc' is not served by any installed binder (did you mean 'spark'?)",
    ),
    (
        "source_broker: Aarhus\n  source_topic: cleaned\n  sink_topic: c",
        "source_broker: Aarhsu\n  source_topic: cleaned\n  sink_topic: c",
        "source_broker 'Aarhsu' is neither a broker address nor a site (expected tcp://HOST:PORT or "
        "mqtts://HOST:PORT; did you mean 'Aarhus'?)",
    ),
    ("sink_broker: cloud", "sink_broker: clod", "did you mean 'cloud'?"),
    ("with: clean", "with: claen", "with 'claen' is not a job of this composition (did you mean 'clean'?)"),
    (
        "combiners: 2",
        "combiners: [{sit: Cork}]",
        "unknown field 'key_split.combiners.0.sit' (did you mean 'site'?)",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "said"), [*FIELDS, *NAMES], ids=lambda text: text[:30])
def test_a_misspelt_name_is_one_fault(root: Path, right: str, wrong: str, said: str) -> None:
    assert right in TEXT
    found = faults(root, TEXT.replace(right, wrong, 1))
    assert len(found) == 1, found
    assert said in found[0]


def test_the_other_faults_of_a_job_are_reported_beside_it(root: Path) -> None:
    text = TEXT.replace("site: Aarhus\n  source_topic: raw", "siet: Aarhus\n  source_topic: raw/#/x", 1)
    found = faults(root, text)
    assert len(found) == 2 and "siet" in found[0] and "misplaced '#'" in found[1], found


SQL = [
    ("FROM readings WHERE", "FROM reading WHERE", "table 'reading' is not known (did you mean 'readings'?)"),
    ("WHERE speed > 50", "WHERE sped > 50", "column 'sped' is not known (did you mean 'speed'?)"),
    (
        "sink_topic: results/fast",
        "sink_topc: results/fast",
        "unknown field 'sink_topc' (did you mean 'sink_topic'?)",
    ),
    ("topics:", "topcs:", "unknown field 'topcs' (did you mean 'topics'?)"),
    ("schema: {", "schem: {", "unknown field 'schem' (did you mean 'schema'?)"),
    ("as: readings", "as: 3 readings", "as '3 readings' is not a name"),
    ("speed: double}", "speed: float}", "schema.speed 'float' is not a type"),
    ("event_time: time", "event_tim: time", "unknown field 'event_tim' (did you mean 'event_time'?)"),
    ("event_time: time", "event_time: town", "event_time 'town' is a column of type string"),
    ("raw/+:", "raw/x+:", "topics: 'raw/x+' has a misplaced '+'"),
    (
        "at: Bergen",
        "at: Bregen",
        "topics: 'raw/+': at 'Bregen' is not a site of the inventory (did you mean 'Bergen'?)",
    ),
    (
        "site: Bergen\n  sql: SELECT town, s",
        "site: Bregen\n  sql: SELECT town, s",
        "site 'Bregen' is not a site of the inventory",
    ),
    ("sql: SELECT town FROM fast", "sql: none.sql", "does not exist"),
    ("sql: SELECT town FROM fast", "sq: SELECT town FROM fast", "unknown field 'sq' (did you mean 'sql'?)"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), SQL, ids=lambda text: text[:30])
def test_a_misspelt_name_of_queries_is_one_fault(root: Path, right: str, wrong: str, said: str) -> None:
    assert right in QUERIES
    found = faults(root, QUERIES.replace(right, wrong, 1))
    assert len(found) == 1, found
    assert said in found[0]


def test_two_unknown_tables_are_two_faults(root: Path) -> None:
    text = QUERIES.replace("FROM readings WHERE", "FROM reading WHERE").replace(
        "* FROM readings", "* FROM elsewhere"
    )
    found = faults(root, text)
    assert len(found) == 2 and "'reading'" in found[0] and "'elsewhere'" in found[1], found


def test_a_misspelt_block_of_tables_is_named_where_queries_are_read(root: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        queries_of(QUERIES.replace("topics:", "topcs:").encode(), (root,))
    assert [str(each) for each in refusal.value.faults] == [
        "line 1: unknown field 'topcs' (did you mean 'topics'?)"
    ]


INVENTORY = """\
sites:
  A: {spe_address: "sc://a:1", broker_address: "tcp://a:1"}
  B: {engines: [{spe_address: "sc://b:1"}], broker_address: "tcp://b:1"}
brokers:
  cloud: {broker_address: "tcp://cloud:1"}
links:
- {from: A, to: cloud, latency: 5 ms}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("sites:", "sits:", "unknown field 'sits' (did you mean 'sites'?)"),
        ("brokers:", "brokrs:", "unknown field 'brokrs' (did you mean 'brokers'?)"),
        ("spe_address", "spe_adress", "unknown field 'spe_adress' (did you mean 'spe_address'?)"),
        ("engines: [", "engins: [", "unknown field 'engins' (did you mean 'engines'?)"),
        ("broker_address", "broker_adress", "unknown field 'broker_adress' (did you mean 'broker_address'?)"),
        ("from: A", "form: A", "unknown field 'form' (did you mean 'from'?)"),
        (
            "to: cloud",
            "to: clod",
            "to 'clod' is not a site or broker of the inventory (did you mean 'cloud'?)",
        ),
        ("latency", "latancy", "unknown field 'latancy' (did you mean 'latency'?)"),
    ],
)
def test_a_misspelt_name_of_an_inventory_is_one_fault(right: str, wrong: str, said: str) -> None:
    load_inventory(INVENTORY)
    with pytest.raises(InvalidInput) as refusal:
        load_inventory(INVENTORY.replace(right, wrong, 1))
    found = [str(each) for each in refusal.value.faults]
    assert len(found) == 1, found
    assert said in found[0]
