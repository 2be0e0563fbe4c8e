"""Faults of fields and of compositions, all at once, with their lines; no secret is repeated."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from speck.binder import Parameter, Registry
from speck.errors import Fault, InvalidInput
from speck.schema.code import argument_faults
from speck.schema.compositions import client_id_conflicts, load_job
from speck.schema.fault_report import fault_data
from testbed.benches.examples import MQTT, REGISTRY, SPARK, job
from tests.schema.loading import CLEAN, FLINK, INVENTORY, faults_of, load, load_data, read, without

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
        (CLEAN, "job_path", "x.jar", "has the wrong type for spark (expected .py, .zip or .whl)"),
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
        (FLINK, "restart", False, "restart false is not known (expected always or never)"),
        (CLEAN, "trigger", 5, "trigger 5 is not an interval (expected, for example, '2 seconds'"),
        (CLEAN, "timezone", 1, "timezone 1 is not a time zone (expected a name of the IANA Time Zone"),
        (CLEAN, "source_topic", None, "source_topic is missing (expected a topic)"),
        (CLEAN, "source_topic", 5, "source_topic 5 is a number, not text (put it in quotes)"),
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
        (FLINK, "labels", {"a": {"b": "c"}}, "labels.a {'b': 'c'} is a mapping (expected text)"),
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
        load_data(root, {"jobs": [FLINK]}, registry)


def test_a_login_written_into_an_address_is_not_repeated(root: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(root, FLINK | {"sink_broker": "tcp://me:hunter2@edge:1883"})
    assert "hunter2" not in repr(caught.value.faults)
    right = "(expected the login as engine_login, broker_login or job_login of the site inventory)"
    assert f"contains a user name or password {right}" in str(caught.value)


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
        (4, "A", "spe_adress"),
        (5, "A", "source_broker"),
        (8, "A", "sink_topic"),
        (10, "A", "job_path"),
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
        (
            "name: x\nsites: {A: {}}\n",
            "line 2: this is a site inventory, by its field 'sites:' (expected a composition with 'jobs:')",
        ),
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


def test_faults_are_values() -> None:
    assert str(Fault("is wrong", job="A", line=3)) == "line 3: job 'A': is wrong"


def test_a_misspelt_argument_is_one_fault() -> None:
    parameters = [
        Parameter("limit", needed=True, types=(float,)),
        Parameter("window", needed=True, types=(str,)),
    ]
    assert list(argument_faults("alarms", parameters, {"limt": 1, "window": "1 s"})) == [
        "'alarms' takes no argument 'limt' (did you mean 'limit'?)"
    ]
    assert list(argument_faults("alarms", parameters, {"x": 1, "limit": 1.0})) == [
        "'alarms' takes no argument 'x' (it takes limit, window)",
        "'alarms' needs an argument 'window' (expected arguments: {window: ...})",
    ]
