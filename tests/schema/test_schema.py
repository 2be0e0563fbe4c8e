"""Compositions are read with their defaults, and jobs are shown as they were read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from marshmallow import Schema

from speck.core.job import Job, shown_name
from speck.errors import InvalidInput
from speck.schema.compositions import load_job
from speck.schema.inventory_schemas import InventorySchema, SiteSchema
from speck.schema.schemas import CompositionSchema, JobSchema
from testbed.benches.examples import PIPELINES, REGISTRY, make_jar
from tests.schema.loading import CLEAN, FLINK, INVENTORY, faults_of, load, load_data, read, without


@pytest.mark.parametrize(("name", "jobs"), [("figure3", "A B C D"), ("figure4", "A C C2 D")])
def test_the_compositions_of_the_paper(root: Path, name: str, jobs: str) -> None:
    loaded = read(root, (PIPELINES / f"{name}.yaml").read_text())
    assert list(loaded.composition.jobs) == jobs.split()
    assert loaded.composition.name == "figure"
    # Nothing is dangling but what comes in and what goes out.
    assert {fault.value for fault in loaded.warnings} <= {"T-1", "T-2", "T-result"}


def test_the_listing_of_the_paper_as_it_stands(root: Path) -> None:
    found = load(root, FLINK).composition.jobs["A"]
    assert found == Job.from_dict({**FLINK, "engine": "flink", "code_hash": found.code_hash})
    assert len(found.code_hash) == 64


def test_a_site_stands_for_all_addresses_that_are_missing(root: Path) -> None:
    written = without(CLEAN, "spe_address", "source_broker", "sink_broker") | {"site": "A"}
    found = load(root, written).composition.jobs["A"]
    assert (found.spe_address, found.source_broker, found.sink_broker, found.site, found.engine) == (
        "sc://10.0.0.1:15002",
        "tcp://10.0.0.1:1883",
        "tcp://10.0.0.1:1883",
        "A",
        "spark",
    )


def test_a_field_given_goes_before_the_site(root: Path) -> None:
    written = without(CLEAN, "spe_address", "source_broker") | {"site": "A", "sink_broker": "tcp://else:1884"}
    assert load(root, written).composition.jobs["A"].sink_broker == "tcp://else:1884"


def test_a_site_may_be_named_in_place_of_any_address(root: Path) -> None:
    found = load(root, FLINK | {"spe_address": "D", "sink_broker": "A"}).composition.jobs["A"]
    assert (found.spe_address, found.sink_broker, found.site) == (
        "http://10.0.0.4:8081/",
        "tcp://10.0.0.1:1883",
        "D",
    )


def test_a_site_with_several_engines(root: Path) -> None:
    written = without(FLINK, "spe_address") | {"site": "M"}
    assert (
        load(root, written | {"engine": "flink"}).composition.jobs["A"].spe_address == "http://10.0.0.5:8081/"
    )
    assert load(root, FLINK | {"spe_address": "M", "engine": "flink"}).composition.jobs["A"].site == "M"
    several = "has several engines: http://10.0.0.5:8081/ and sc://10.0.0.5:1 and sc://10.0.0.5:2 (choose one"
    (fault,) = faults_of(root, written)
    assert f"job 'A': site 'M' {several}" in fault
    (fault,) = faults_of(root, without(CLEAN, "spe_address") | {"site": "M", "engine": "spark"})
    assert several in fault
    chosen = CLEAN | {"spe_address": "sc://10.0.0.5:2", "site": "M"}
    assert load(root, chosen).composition.jobs["A"].spe_address == "sc://10.0.0.5:2"


def test_a_site_without_the_engine_that_is_named(root: Path) -> None:
    (fault,) = faults_of(root, without(FLINK, "spe_address") | {"site": "A", "engine": "flink"})
    assert "sc://10.0.0.1:15002" in fault


def test_every_optional_field(root: Path) -> None:
    optional = {
        "engine": "spark",
        "arguments": {"window": "5 minutes", "limit": 3, "share": 0.5, "strict": True},
        "parallelism": 2,
        "upgrade": "stateless",
        "trigger": "2 seconds",
        "restart": "never",
        "labels": {"owner": "traffic"},
    }
    found = load(root, CLEAN | optional).composition.jobs["A"]
    assert {name: getattr(found, name) for name in optional} == optional


def test_an_empty_optional_field_means_its_default(root: Path) -> None:
    empty = dict.fromkeys(("engine", "site", "arguments", "parallelism", "trigger", "labels"))
    assert load(root, FLINK | empty).composition == load(root, FLINK).composition


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("http://172.16.39.7:8081", "http://172.16.39.7:8081/"),
        ("HTTP://Edge.Example:8081/", "http://edge.example:8081/"),
        ("http://edge:80", "http://edge/"),
        ("https://edge:443/flink/", "https://edge/flink/"),
        ("http://[::1]:8081", "http://[::1]:8081/"),
        ("http://[0:0:0:0:0:0:0:1]:8081", "http://[::1]:8081/"),
    ],
)
def test_equal_engines_have_equal_addresses(root: Path, written: str, expected: str) -> None:
    assert load(root, FLINK | {"spe_address": written}).composition.jobs["A"].spe_address == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("tcp://edge", "tcp://edge:1883"),
        ("mqtt://EDGE:1883/", "tcp://edge:1883"),
        ("mqtts://edge", "mqtts://edge:8883"),
        ("ssl://edge:8883", "mqtts://edge:8883"),
        ("TCP://edge.:1883", "tcp://edge:1883"),
    ],
)
def test_equal_brokers_have_equal_addresses(root: Path, written: str, expected: str) -> None:
    assert load(root, FLINK | {"source_broker": written}).composition.jobs["A"].source_broker == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("500 ms", "500 milliseconds"),
        ("2s", "2 seconds"),
        ("2000 milliseconds", "2 seconds"),
        ("1.5 seconds", "1500 milliseconds"),
        ("1 minute", "60 seconds"),
    ],
)
def test_equal_triggers_are_written_alike(root: Path, written: str, expected: str) -> None:
    assert load(root, CLEAN | {"trigger": written}).composition.jobs["A"].trigger == expected


def test_the_hash_of_the_code_follows_its_content(root: Path, tmp_path: Path) -> None:
    before = load(root, FLINK).composition.jobs["A"].code_hash
    make_jar(tmp_path / "jars_and_apps" / "test-1.jar", "package.ExampleJob", "package.Other")
    assert load(tmp_path, FLINK).composition.jobs["A"].code_hash != before


def test_the_first_root_that_has_the_file_gives_it(root: Path, tmp_path: Path) -> None:
    data = {"jobs": [FLINK]}
    loaded = load_data([tmp_path, root], data)
    assert loaded.composition.jobs["A"].code_hash


def test_json_and_yaml_read_alike(root: Path) -> None:
    text = json.dumps({"name": "both", "jobs": [FLINK]})
    found = read(root, text).composition
    assert found == read(root, text, format="json").composition == read(root, text.encode()).composition


def test_defaults_may_be_written_once_and_merged(root: Path) -> None:
    text = f"""
jobs:
- &first {json.dumps(FLINK)}
- <<: *first
  job_name: B
  sink_topic: T-other
"""
    jobs = read(root, text).composition.jobs
    assert jobs["B"].entry_class == jobs["A"].entry_class
    assert jobs["B"].sink_topic == "T-other"


def test_one_job(root: Path) -> None:
    assert load_job(FLINK, inventory=INVENTORY, registry=REGISTRY, root=root).job_name == "A"
    with pytest.raises(InvalidInput, match="job 'A': source_topic 'a#' has a misplaced '#'"):
        load_job(FLINK | {"source_topic": "a#"}, inventory=INVENTORY, registry=REGISTRY, root=root)


@pytest.mark.parametrize("schema", [JobSchema, CompositionSchema, SiteSchema, InventorySchema])
def test_every_field_is_described(schema: type[Schema]) -> None:
    undescribed = [name for name, field in schema().fields.items() if "description" not in field.metadata]
    assert set(undescribed) <= {"uplink", "scale", "engine_login", "broker_login", "job_login"}


def test_the_job_schema_has_every_field_of_a_job() -> None:
    shown = {shown_name(name) for name in Job.__dataclass_fields__}
    assert set(JobSchema().fields) == {
        *shown,
        "key_split",
        "for_each",
        "sql",
        "format",
        "cut",
        "rest",
        "frame",
    }


def test_a_job_is_shown_as_it_was_read(root: Path) -> None:
    found = load(root, CLEAN | {"trigger": "500 ms", "labels": {"a": "b"}}).composition.jobs["A"]
    shown = JobSchema().dump(found)
    assert shown["trigger"] == "500 milliseconds"
    derived = ("code_hash", "partitions", "placed", "query", "split", "template")
    again = {name: value for name, value in shown.items() if name not in derived}
    again = {name: value for name, value in again.items() if value != []}
    assert load(root, again).composition.jobs["A"] == found
