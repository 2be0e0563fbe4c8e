from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from marshmallow import Schema

from speck.binder import Registry
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Job, shown_name
from speck.errors import Fault, InvalidInput
from speck.schema.compositions import Loaded, client_id_conflicts, load_composition, load_job, load_jobs
from speck.schema.fault_report import fault_data
from speck.schema.inventory_schemas import InventorySchema, SiteSchema
from speck.schema.schemas import CompositionSchema, JobSchema
from testbed.benches.examples import MQTT, PIPELINES, REGISTRY, SPARK, job, make_jar, one_site

INVENTORY = Inventory(
    {
        "A": one_site("A", "sc://10.0.0.1:15002", "tcp://10.0.0.1:1883"),
        "D": one_site("D", "http://10.0.0.4:8081/", "tcp://10.0.0.4:1883"),
        "M": Site(
            name="M",
            engines=tuple(
                Engine(spe_address=each)
                for each in ("http://10.0.0.5:8081/", "sc://10.0.0.5:1", "sc://10.0.0.5:2")
            ),
            broker_address="tcp://10.0.0.5:1883",
        ),
    }
)

FLINK = {
    "job_name": "A",
    "spe_address": "http://172.16.39.7:8081/",
    "source_broker": "tcp://172.16.39.7:1883",
    "source_topic": "T-1",
    "sink_broker": "tcp://172.16.192.18:1883",
    "sink_topic": "T-C-filter",
    "entry_class": "package.ExampleJob",
    "job_path": "jars_and_apps/test-1.jar",
}
CLEAN = {**FLINK, "spe_address": "sc://10.0.0.1:15002", "entry_class": "clean", "job_path": "clean.py"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("files")
    (base / "outside.py").write_text("def clean(messages): ...\n")
    directory = base / "root"
    make_jar(directory / "jars_and_apps" / "test-1.jar", "package.ExampleJob")
    (directory / "clean.py").write_text("def clean(messages): ...\n")
    (directory / "link.py").symlink_to(base / "outside.py")
    (directory / "loop.py").symlink_to(directory / "loop.py")
    (directory / "directory.py").mkdir()
    return directory


def load(root: Path, *jobs: Any, **top: Any) -> Loaded:
    data = {"jobs": list(jobs), **top}
    return load_jobs(data, inventory=INVENTORY, registry=REGISTRY, root=root, default_name="test")


def read(root: Path, text: str | bytes, **options: Any) -> Loaded:
    return load_composition(
        text, inventory=INVENTORY, registry=REGISTRY, root=root, default_name="test", **options
    )


def faults_of(root: Path, *jobs: Any, **top: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(root, *jobs, **top)
    return [str(fault) for fault in caught.value.faults]


def without(data: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in fields}


# --- what is right ----------------------------------------------------------------------------------


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
    loaded = load_jobs(
        data, inventory=INVENTORY, registry=REGISTRY, root=[tmp_path, root], default_name="test"
    )
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


# --- what is wrong with a field ---------------------------------------------------------------------

TEXT = "not text (YAML reads yes, no, on and off as booleans: put it in quotes)"
BROKER = "(expected tcp://HOST:PORT or mqtts://HOST:PORT)"
ENGINE = "(expected sc://HOST:PORT or http://HOST:PORT or https://HOST:PORT)"
SITES = "(expected tcp://HOST:PORT or mqtts://HOST:PORT; known: A, D, M)"
CLASS = "expected the dotted name of a class or function"


@pytest.mark.parametrize(
    ("base", "field", "value", "message"),
    [
        (FLINK, "source_brokr", "x", "unknown field 'source_brokr' (did you mean 'source_broker'?)"),
        (FLINK, "code_hash", "x", "unknown field 'code_hash'"),
        (FLINK, "job_name", "a b", "job_name 'a b' is not a name (expected 1 to 100 letters"),
        (FLINK, "job_name", "-a", "job_name '-a' is not a name"),
        (FLINK, "job_name", "a" * 101, "is not a name"),
        (FLINK, "source_broker", "tcp:/x", f"source_broker 'tcp:/x' is not a broker address {BROKER}"),
        (FLINK, "source_broker", "E", f"source_broker 'E' is neither a broker address nor a site {SITES}"),
        (FLINK, "sink_broker", "amqp://x:1", "is not served by any installed binder"),
        (FLINK, "sink_broker", "tcp://x:99999", "has an invalid port (expected 1 to 65535)"),
        (FLINK, "sink_broker", "tcp://x:0", "has port 0"),
        (FLINK, "sink_broker", "tcp://:1883", "has no host"),
        (FLINK, "sink_broker", "tcp://a..b:1883", "has no valid host name"),
        (FLINK, "sink_broker", f"tcp://{'a' * 64}.b:1883", "has no valid host name"),
        (FLINK, "sink_broker", f"tcp://{'a.' * 127}b:1883", "has no valid host name"),
        (CLEAN, "spe_address", "spark://a:7077,b:7077", "names several hosts (expected one; for a group,"),
        (FLINK, "sink_broker", "tcp://256.1.1.1", "has no valid IPv4 address"),
        (FLINK, "sink_broker", "tcp://[::z]:1", "sink_broker 'tcp://[::z]:1'"),
        (FLINK, "sink_broker", "tcp://x:1/path", "has a path"),
        (FLINK, "sink_broker", "tcp://x y:1", "a space or a control character"),
        (FLINK, "sink_broker", 1883, "sink_broker 1883 is a number, not text (put it in quotes)"),
        (FLINK, "spe_address", "ftp://x:1", f"spe_address 'ftp://x:1' is not an engine address {ENGINE}"),
        (FLINK, "spe_address", "http://x:1/?a=b", "has a query or a fragment"),
        (FLINK, "spe_address", "", "spe_address '' is empty (expected an engine's address)"),
        (CLEAN, "spe_address", "sc://x:1/;user_id=me", "has the parameter 'user_id'"),
        (FLINK, "source_topic", "a/#/b", "source_topic 'a/#/b' has a misplaced '#'"),
        (FLINK, "source_topic", "", "source_topic '' is empty (expected a topic)"),
        (FLINK, "source_topic", False, f"source_topic false is true or false, {TEXT}"),
        (FLINK, "source_topic", "$share/g/t", "is a shared subscription"),
        (FLINK, "sink_topic", "a/+", "sink_topic 'a/+' has a wildcard"),
        (FLINK, "sink_topic", "$SYS/x", "starts with '$'"),
        (FLINK, "sink_topic", "speck/fence/x", "starts with 'speck/fence/'"),
        (FLINK, "sink_topic", "speck/session/x", "starts with 'speck/session/'"),
        (FLINK, "sink_topic", "speck/again/x", "starts with 'speck/again/'"),
        (FLINK, "sink_topic", "a\0", "contains a control character"),
        (FLINK, "sink_topic", "x" * 65_536, "is too long (expected at most 65,535 bytes of UTF-8)"),
        (FLINK, "entry_class", "1.x", f"entry_class '1.x' is not a name of code ({CLASS})"),
        (FLINK, "entry_class", "package.None", "entry_class 'package.None' is not in test-1.jar"),
        (CLEAN, "entry_class", "clen", "entry_class 'clen' is not in clean.py"),
        (FLINK, "job_path", "no.jar", "job_path 'no.jar' does not exist (searched in "),
        (FLINK, "job_path", "clean.zip", "has the wrong type for flink (expected .jar or .py)"),
        (CLEAN, "job_path", "x.jar", "has the wrong type for spark (expected .py or .zip or .whl)"),
        (CLEAN, "job_path", "../outside.py", "is outside of the directories"),
        (CLEAN, "job_path", "/etc/speck.py", "is outside of the directories"),
        (CLEAN, "job_path", "link.py", "is outside of the directories"),
        (CLEAN, "job_path", "loop.py", "cannot be resolved"),
        (CLEAN, "job_path", "directory.py", "is not a regular file"),
        (CLEAN, "job_path", "a\0.py", "contains a control character"),
        (
            FLINK,
            "engine",
            "storm",
            "engine 'storm' is not served by any installed binder (installed: flink, spark)",
        ),
        (FLINK, "engine", "spark", "engine 'spark' does not fit spe_address 'http://172.16.39.7:8081/'"),
        (FLINK, "site", "E", "site 'E' is not a site of the inventory (known: A, D, M)"),
        (FLINK, "parallelism", 0, "parallelism 0 is not a whole number from 1 to 32,768"),
        (FLINK, "parallelism", True, "parallelism true is not a whole number"),
        (FLINK, "parallelism", 2.0, "parallelism 2.0 is not a whole number"),
        (FLINK, "parallelism", float("nan"), "parallelism nan is not a whole number"),
        (FLINK, "parallelism", "2", "parallelism '2' is not a whole number"),
        (FLINK, "upgrade", "fast", "upgrade 'fast' is not known (expected stateful or stateless)"),
        (FLINK, "restart", False, f"restart false is true or false, {TEXT}"),
        (CLEAN, "trigger", "soon", "trigger 'soon' is not an interval (expected, for example, '2 seconds'"),
        (CLEAN, "trigger", "2", "trigger '2' is not an interval"),
        (CLEAN, "trigger", "0 seconds", "trigger '0 seconds' is not an interval"),
        (FLINK, "trigger", "2 seconds", "trigger '2 seconds' does not fit engine 'flink'"),
        (FLINK, "arguments", ["a"], "arguments ['a'] is not a flat mapping"),
        (FLINK, "arguments", {"a-b": 1}, "arguments.a-b 1 has an invalid name"),
        (FLINK, "arguments", {"class": 1}, "arguments.class 1 has an invalid name"),
        (
            FLINK,
            "arguments",
            {"a": [1]},
            "arguments.a [1] is a list (expected text, a number, true or false)",
        ),
        (FLINK, "arguments", {"a": None}, "arguments.a null is empty"),
        (FLINK, "arguments", {"a": float("inf")}, "arguments.a inf is not a finite number"),
        (FLINK, "arguments", {"a": "x" * 70_000}, "characters (expected at most 65,536)"),
        (FLINK, "labels", {"a": {"b": "c"}}, "labels.a {'b': 'c'} is a mapping, not text"),
        (FLINK, "labels", {"a": 1.10}, "labels.a 1.1 is a number, not text (put it in quotes)"),
        (FLINK, "labels", "text", "labels 'text' is not a flat mapping"),
    ],
)
def test_bad_field(root: Path, base: dict[str, Any], field: str, value: Any, message: str) -> None:
    (fault,) = faults_of(root, base | {field: value})
    name = value if field == "job_name" else "A"
    assert fault.startswith(f"job {name!r}: ")
    assert message in fault


@pytest.mark.parametrize("field", [*FLINK])
def test_missing_field(root: Path, field: str) -> None:
    (fault,) = faults_of(root, without(FLINK, field))
    assert f"{field} is missing (expected " in fault


def test_an_engine_that_no_binder_serves(root: Path) -> None:
    registry = Registry.of([SPARK, MQTT])
    with pytest.raises(
        InvalidInput, match=r"'flink' is not served by any installed binder \(installed: spark\)"
    ):
        load_jobs({"jobs": [FLINK]}, inventory=INVENTORY, registry=registry, root=root, default_name="x")


def test_a_login_written_into_an_address_is_not_repeated(root: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(root, FLINK | {"sink_broker": "tcp://me:hunter2@edge:1883"})
    assert "hunter2" not in repr(caught.value.faults)
    assert "contains a user name or password" in str(caught.value)


def test_the_value_of_an_unknown_field_is_not_repeated(root: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(root, FLINK | {"password": "hunter2"})
    assert "hunter2" not in repr(caught.value.faults)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("arguments", {name: "hunter2"}) for name in ("api-key", "access-token", "db.password", "db-pwd")),
        *(("arguments", {"client-secret": each}) for each in (["hunter2"], {"a": "hunter2"}, 7654321)),
        ("arguments", {"password": ["hunter2"]}),
        ("arguments", {"password": date(2024, 1, 31)}),
        ("arguments", {"db": {"name": "towns", "password": "hunter2"}}),
        ("arguments", {"db": ["postgresql://me:hunter2@db/towns"]}),
        ("arguments", {"token": "hunter2\x07"}),
        ("labels", {"password": 7654321}),
        ("labels", {"password": ["hunter2"]}),
        ("labels", {"pass\x07.password": "hunter2"}),
        ("labels", {"owner": {"password": "hunter2"}}),
        ("source_topic", {"password": "hunter2"}),
        ("key_split", {"options": {"api_key": "hunter2"}}),
    ],
)
@pytest.mark.parametrize("base", [FLINK, CLEAN])
def test_a_secret_is_not_repeated_whatever_else_is_wrong_with_it(
    root: Path, base: dict[str, Any], field: str, value: Any
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_job(base | {field: value}, inventory=INVENTORY, registry=REGISTRY, root=root)
    faults = caught.value.faults
    shown = repr(faults) + json.dumps([fault_data(each) for each in faults]) + str(caught.value)
    assert not re.search("hunter2|7654321|2024", shown)
    if field in ("arguments", "labels"):
        assert all("looks like a secret" in each.message for each in faults)


@pytest.mark.parametrize(
    ("jobs", "top"),
    [
        ([[{"password": "hunter2"}]], {}),
        ([], {"sources": {"in": [{"token": "hunter2"}]}}),
    ],
)
def test_a_secret_in_an_entry_of_another_kind_is_not_repeated(
    root: Path, jobs: list[Any], top: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(root, *jobs, **top)
    assert "hunter2" not in json.dumps([fault_data(each) for each in caught.value.faults]) + str(caught.value)


# --- what is wrong with a composition ---------------------------------------------------------------


def test_all_faults_come_at_once_with_their_lines(root: Path) -> None:
    text = """\
name: all of them
jobs:
- job_name: A
  spe_adress: http://edge:8081/
  source_broker: tcp:/x
  source_topic: T-1
  sink_broker: tcp://cloud:1883
  sink_topic: T/+
  entry_class: package.ExampleJob
  job_path: none.jar
- nothing
- job_name: A
  spe_address: http://edge:8081/
  source_broker: tcp://edge:1883
  source_topic: no
  sink_broker: tcp://cloud:1883
  sink_topic: T-2
  entry_class: package.Missing
  job_path: jars_and_apps/test-1.jar
  parallelism: 0
  parallelism: 1
"""
    with pytest.raises(InvalidInput) as caught:
        read(root, text)
    assert [(fault.line, fault.job, fault.field) for fault in caught.value.faults] == [
        (1, None, "name"),
        (3, "A", "spe_address"),
        (4, "A", "spe_adress"),
        (5, "A", "source_broker"),
        (8, "A", "sink_topic"),
        (11, "jobs[1]", None),
        (12, "A", "job_name"),
        (15, "A", "source_topic"),
        (18, "A", "entry_class"),
        (20, "A", "parallelism"),
        (21, None, None),
    ]


def test_a_job_name_given_twice(root: Path) -> None:
    (fault,) = faults_of(root, FLINK, FLINK | {"sink_topic": "T-other"})
    assert "job_name 'A' is given twice" in fault


def test_a_cycle_names_its_jobs_in_order(root: Path) -> None:
    near = FLINK | {"sink_broker": FLINK["source_broker"]}
    jobs = [
        near | {"job_name": "C", "source_topic": "t2", "sink_topic": "t3"},
        near | {"job_name": "A", "source_topic": "t3", "sink_topic": "t1"},
        near | {"job_name": "B", "source_topic": "t1", "sink_topic": "t2"},
        near | {"job_name": "E", "source_topic": "e", "sink_topic": "e"},
    ]
    faults = faults_of(root, *jobs)
    assert len(faults) == 2
    assert "the jobs form a cycle through their topics: A -> B -> C -> A" in faults[0]
    assert "E -> E" in faults[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the document is empty"),
        ("# nothing\n", "the document is empty"),
        ("--- \n", "the composition is empty"),
        ("- a\n", "line 1: the composition is a list (expected a mapping with 'jobs:')"),
        ("name: x\n", "line 1: jobs is missing (expected a list of jobs)"),
        ("jobs:\n", "line 1: jobs is empty (expected a list of jobs)"),
        ("jobs: {a: b}\n", "line 1: jobs is a mapping (expected a list of jobs)"),
        ("jobs: []\njob: []\n", "line 2: unknown field 'job' (did you mean 'jobs'?)"),
        ("jobs: []\njobs: []\n", "line 2: key 'jobs' is given twice (first in line 1)"),
        ("name: 2021-01-01\njobs: []\n", "line 1: name 2021-01-01 is a date, not text (put it in quotes)"),
        ("jobs:\n- a: b: c\n", "line 2: not valid YAML: mapping values are not allowed"),
        ("jobs: [\n", "line 2: not valid YAML: "),
        ("jobs: *x\n", "line 1: the alias '*x' has no anchor '&x' before it"),
        ("jobs: &x [*x]\n", "line 1: the alias '*x' has no anchor"),
        ("jobs: []\n---\njobs: []\n", "line 2: a second document begins here"),
        ("jobs: !!python/object:os.system {}\n", "line 1: the tag "),
        ("jobs: " + "[" * 50 + "]" * 50, "line 1: the document is nested too deeply"),
        ("jobs: [\x07]", "line 1: not valid YAML: control characters are not allowed"),
        ("name: x\njobs: []\nno: x\n", "line 3: a key is not text (YAML reads yes, no, on and off as"),
        (b"name: \xff", "the document is not UTF-8 text"),
    ],
)
def test_bad_document(root: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(root, text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"jobs": [}', "line 1: not valid JSON: Expecting value (line 1, column 11)"),
        ('{"jobs": [], "jobs": []}', "key 'jobs' is given twice"),
        ("[" * 100_000, "the document is nested too deeply"),
        ('{"jobs": ' + "[" * 30 + "]" * 30 + "}", "the document is nested too deeply"),
        ("name: x", "line 1: not valid JSON: "),
    ],
)
def test_bad_json(root: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(root, text, format="json")
    assert str(caught.value).startswith(message)


def test_aliases_that_blow_up_are_not_expanded(root: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(InvalidInput, match="the aliases expand the document too far"):
        read(root, "\n".join(lines))


def test_a_document_over_the_limit_is_not_read(root: Path) -> None:
    text = "# " + "x" * 1000 + "\njobs: []\n"
    with pytest.raises(InvalidInput, match=r"has 1,012 bytes \(at most 1,000 are accepted\)"):
        read(root, text, max_bytes=1000)
    assert read(root, text, max_bytes=1012).composition.jobs == {}


def test_client_ids_that_meet_at_one_broker() -> None:
    jobs = [job("a"), job("b"), job("a", "x", "y"), job("a", source_broker="tcp://cloud:1883")]
    (fault,) = client_id_conflicts(jobs)
    assert fault.job == "a"
    assert "the client id 'speck-a' is used twice at tcp://edge:1883" in str(fault)


# --- warnings ---------------------------------------------------------------------------------------


def warnings_of(root: Path, *jobs: Any) -> list[str]:
    return [str(fault) for fault in load(root, *jobs).warnings]


def test_a_topic_misspelt_is_told_with_the_near_name(root: Path) -> None:
    first = FLINK | {"sink_broker": "A", "sink_topic": "T-C-filter"}
    second = FLINK | {
        "job_name": "C",
        "source_broker": "A",
        "source_topic": "T-C-fliter",
        "sink_topic": "end",
    }
    warnings = warnings_of(root, first, second)
    assert (
        "job 'C': source_topic 'T-C-fliter' is written by no job here: an external source, "
        "or a mistake (did you mean 'T-C-filter'?)"
    ) in warnings
    assert any("sink_topic 'T-C-filter' is read by no job here" in each for each in warnings)
    assert len(warnings) == 4


def test_a_topic_written_at_one_broker_and_read_at_another(root: Path) -> None:
    second = FLINK | {
        "job_name": "C",
        "source_broker": "A",
        "source_topic": "T-C-filter",
        "sink_topic": "end",
    }
    warnings = warnings_of(root, FLINK, second)
    assert (
        "job 'C': source_topic 'T-C-filter' is written at tcp://172.16.192.18:1883 but read at "
        "tcp://10.0.0.1:1883: no data flows between them"
    ) in warnings


def test_a_dangling_topic_is_told_once(root: Path) -> None:
    warnings = warnings_of(root, FLINK, FLINK | {"job_name": "B"}, FLINK | {"job_name": "C", "site": "A"})
    assert [each.rpartition(" (")[2] for each in warnings] == [
        "read by 2 more jobs)",
        "written by 2 more jobs)",
    ]


def test_a_dangling_topic_at_several_brokers_is_told_once(root: Path) -> None:
    second = FLINK | {"job_name": "B", "source_broker": "A", "sink_broker": "A"}
    assert len(warnings_of(root, FLINK, second)) == 2


def test_a_filter_that_takes_in_fence_messages(root: Path) -> None:
    assert any("fence messages" in each for each in warnings_of(root, FLINK | {"source_topic": "#"}))


def test_a_warning_has_its_line(root: Path) -> None:
    text = (PIPELINES / "figure3.yaml").read_text()
    lines = text.splitlines()
    for fault in read(root, text).warnings:
        assert fault.line is not None
        assert str(fault.value) in lines[fault.line - 1]


# --- what the API is described by -------------------------------------------------------------------


@pytest.mark.parametrize("schema", [JobSchema, CompositionSchema, SiteSchema, InventorySchema])
def test_every_field_is_described(schema: type[Schema]) -> None:
    undescribed = [name for name, field in schema().fields.items() if "description" not in field.metadata]
    assert set(undescribed) <= {"uplink", "scale", "engine_login", "broker_login", "job_login"}


def test_the_job_schema_has_every_field_of_a_job() -> None:
    shown = {shown_name(name) for name in Job.__dataclass_fields__}
    assert set(JobSchema().fields) == {*shown, "key_split", "for_each", "sql", "format", "cut", "rest"}


def test_a_job_is_shown_as_it_was_read(root: Path) -> None:
    found = load(root, CLEAN | {"trigger": "500 ms", "labels": {"a": "b"}}).composition.jobs["A"]
    shown = JobSchema().dump(found)
    assert shown["trigger"] == "500 milliseconds"
    derived = ("code_hash", "partitions", "placed", "query", "split", "template")
    again = {name: value for name, value in shown.items() if name not in derived}
    again = {name: value for name, value in again.items() if value != []}
    assert load(root, again).composition.jobs["A"] == found


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"on_error": "ignore"}, "on_error 'ignore' is not known (expected fail or skip or park)"),
        ({"on_error": "park"}, "park_topic is missing (expected the topic for parked messages"),
        ({"on_error": "skip", "park_topic": "p"}, "park_topic 'p' does not fit on_error 'skip'"),
        ({"park_topic": "p"}, "park_topic 'p' does not fit on_error 'fail' (expected on_error: park)"),
        ({"on_error": "park", "park_topic": "a/#"}, "park_topic 'a/#' has a wildcard"),
        (
            {"on_error": "park", "park_topic": "T-1"},
            "park_topic 'T-1' is among the topics that the job reads",
        ),
    ],
)
def test_treatments_of_errors_that_do_not_fit(root: Path, fields: dict[str, Any], fault: str) -> None:
    (found,) = faults_of(root, CLEAN | fields)
    assert fault in found


def test_a_python_program_on_flink_cannot_leave_messages_out(root: Path) -> None:
    found = faults_of(root, CLEAN | {"spe_address": "http://172.16.39.7:8081/", "on_error": "skip"})
    assert any("on_error 'skip' does not fit a Python program on Flink" in each for each in found)


def test_messages_on_which_the_code_fails_are_parked(root: Path) -> None:
    found = load(root, FLINK | {"on_error": "park", "park_topic": "T-1-parked"}).composition.jobs["A"]
    assert (found.on_error, found.park_topic) == ("park", "T-1-parked")
    assert load(root, FLINK).composition.jobs["A"].on_error == "fail"


def test_a_binder_that_does_not_name_the_treatments_of_failing_messages_knows_none(root: Path) -> None:
    old = Registry.of([replace(SPARK, on_error=("fail",)), MQTT])
    data = {"jobs": [CLEAN | {"on_error": "skip"}]}
    with pytest.raises(InvalidInput, match="on_error 'skip' is not supported by the binder of 'spark'"):
        load_jobs(data, inventory=INVENTORY, registry=old, root=root, default_name="test")


def test_results_may_be_retained_where_the_connector_can(root: Path) -> None:
    assert load(root, FLINK | {"retain": True}).composition.jobs["A"].retain
    assert not load(root, FLINK).composition.jobs["A"].retain
    (found,) = faults_of(root, FLINK | {"retain": "always"})
    assert "retain 'always'" in found
    old = Registry.of([replace(SPARK, retains=False), MQTT])
    with pytest.raises(InvalidInput, match="retain true is not supported by the binder of 'spark'"):
        load_jobs(
            {"jobs": [CLEAN | {"retain": True}]},
            inventory=INVENTORY,
            registry=old,
            root=root,
            default_name="test",
        )


def test_real_time_is_a_trigger_of_jobs_on_spark_connect(root: Path) -> None:
    fields = {"trigger": "real-time", "on_error": "park", "park_topic": "parked"}
    found = load(root, CLEAN | fields).composition.jobs["A"]
    assert (found.trigger, found.on_error) == ("real-time", "park")
    (fault,) = faults_of(root, CLEAN | {"trigger": "realtime"})
    assert fault.endswith("(expected, for example, '2 seconds' or '500 ms'; or 'real-time')")
    (fault,) = faults_of(root, FLINK | {"trigger": "real-time"})
    assert "trigger 'real-time' does not fit engine 'flink'" in fault
    standalone = Registry.of([replace(SPARK, real_time=False), MQTT])
    data = {"jobs": [CLEAN | {"trigger": "real-time"}]}
    right = "is not supported by the binder of 'spark' (expected an interval, or an engine on Spark Connect)"
    with pytest.raises(InvalidInput, match=re.escape(right)):
        load_jobs(data, inventory=INVENTORY, registry=standalone, root=root, default_name="test")


def test_real_time_fits_no_other_output_mode(root: Path) -> None:
    (found,) = faults_of(root, CLEAN | {"trigger": "real-time", "output_mode": "complete"})
    assert "output_mode 'complete' does not fit trigger 'real-time'" in found


@pytest.mark.parametrize("code", [CLEAN, FLINK], ids=["spark", "flink"])
def test_a_time_zone_is_a_name_of_the_database(root: Path, code: dict[str, Any]) -> None:
    assert load(root, code | {"timezone": "Europe/Berlin"}).composition.jobs["A"].timezone == "Europe/Berlin"
    assert load(root, code).composition.jobs["A"].timezone == "UTC"
    for wrong, right in (
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("America/New York", "did you mean 'America/New_York'?"),
        ("EST", "such as Europe/Berlin or America/New_York, or UTC"),
        ("../../etc/passwd", "such as Europe/Berlin or America/New_York, or UTC"),
        ("+02:00", "such as Europe/Berlin or America/New_York, or UTC"),
    ):
        (found,) = faults_of(root, code | {"timezone": wrong})
        assert f"timezone {wrong!r} is not a time zone (expected a name of the IANA" in found
        assert right in found


def test_an_output_mode_is_that_of_a_spark_job(root: Path) -> None:
    assert load(root, CLEAN | {"output_mode": "complete"}).composition.jobs["A"].output_mode == "complete"
    assert load(root, CLEAN).composition.jobs["A"].output_mode is None
    (found,) = faults_of(root, CLEAN | {"output_mode": "sometimes"})
    assert "output_mode 'sometimes' is not known (expected append or update or complete)" in found
    (found,) = faults_of(root, FLINK | {"output_mode": "update"})
    assert "output_mode 'update' does not fit engine 'flink' (only Spark has output modes)" in found
    old = Registry.of([replace(SPARK, output_modes=False), MQTT])
    data = {"jobs": [CLEAN | {"output_mode": "update"}]}
    with pytest.raises(InvalidInput, match="output_mode 'update' is not supported by the binder of 'spark'"):
        load_jobs(data, inventory=INVENTORY, registry=old, root=root, default_name="test")


def test_faults_are_values() -> None:
    assert str(Fault("is wrong", job="A", line=3)) == "line 3: job 'A': is wrong"
