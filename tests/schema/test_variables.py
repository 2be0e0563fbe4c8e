"""Variables of compositions: what stands for them, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from speck.cli.variables import read_composition, read_env, values
from speck.client import Client
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.yaml.documents import read_document
from speck.schema.yaml.variables import expand, substitute
from testbed.benches.examples import REGISTRY
from testbed.servers.rest import RestServer, yaml_of
from testbed.servers.served_process import served
from tests.fixtures.speck_command import Speck
from tests.support.properties import property_test

TEXT = """\
# not ${THIS}
name: line-${REGION:-aarhus}
jobs:
- parallelism: ${TASKS}
  labels: {owner: "${OWNER}", who: '${OWNER}'}
  trigger: |
    ${OWNER}
    twice
  entry: streets.Counting$Slow and $${HOME}
  ${FIELD:-job_name}: ${NAME}
"""


def expanded(text: str, **variables: str) -> str:
    return expand(substitute(text, variables))


def read(text: str, **variables: str) -> object:
    return yaml.safe_load(expanded(text, **variables))


def test_values_and_defaults() -> None:
    assert read(TEXT, TASKS="4", OWNER="traffic", NAME="a", REGION="") == {
        "name": "line-aarhus",
        "jobs": [
            {
                "parallelism": 4,
                "labels": {"owner": "traffic", "who": "traffic"},
                "trigger": "traffic\ntwice\n",
                "entry": "streets.Counting$Slow and ${HOME}",
                "job_name": "a",
            }
        ],
    }


def test_lines_stay_where_they_were() -> None:
    text = expanded(TEXT, TASKS="4", OWNER="several\nlines", NAME="a")
    assert text.count("\n") == TEXT.count("\n")
    assert text.splitlines()[-1] == "  job_name: a"


@pytest.mark.parametrize(
    ("written", "value", "meant"),
    [
        ("a: ${X}", "4", {"a": 4}),
        ("a: ${X}", "true", {"a": True}),
        ('a: "${X}"', "4", {"a": "4"}),
        ("a: n${X}", "4", {"a": "n4"}),
        ("a: ${X}", "b: c", {"a": "b: c"}),
        ("a: ${X}", "b #c", {"a": "b #c"}),
        ("a: ${X}", "*alias", {"a": "*alias"}),
        ("a: ${X}", "- b", {"a": "- b"}),
        ("a: ${X}", "[b]", {"a": "[b]"}),
        ("a: ${X}", "", {"a": ""}),
        ("a: ${X}", "x\nb: 2", {"a": "x\nb: 2"}),
        ("a: ${X}", "${Y}", {"a": "${Y}"}),
        ("a: ${X}", "$${Y}", {"a": "$${Y}"}),
        ("a: ${X}\n  and more", "v", {"a": "v and more"}),
        ("${X}: 1", "<<", {"<<": 1}),
        ("a: ${X:-}", "", {"a": ""}),
        ("a: ${X:-b c}", "", {"a": "b c"}),
        ('a: "${X:-b: c}"', "", {"a": "b: c"}),
    ],
)
def test_a_value_is_a_value_and_no_structure(written: str, value: str, meant: object) -> None:
    assert read(written, X=value) == meant


@property_test
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from(['"{}"', "'{}'", "|\n  {}"]),
)
def test_any_value_comes_through(value: str, form: str) -> None:
    text = f"é: ü\na: {form.format('${X}')}\nb: [1]\n"
    found = read_document(substitute(text, {"X": value})).value
    expected = value + ("\n" if form.startswith("|") else "")
    assert (found["a"], found["b"], found.lines["b"]) == (expected, [1], text.count("\n"))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (
            "a: ${X}\nb: 1\nc: ${Y}\n",
            [
                "line 1: variable 'X' has no value (expected --set X=VALUE",
                "line 3: variable 'Y' has no value",
            ],
        ),
        ("a: 1\nb: ${\n", ["line 2: '${' does not start a variable (expected ${NAME}"]),
        ("a: ${1X}", ["line 1: '${' does not start"]),
        ("a: ${X:?must}", ["line 1: '${' does not start"]),
        ("a: ${BROKER_PASSWORD}", ["line 1: variable 'BROKER_PASSWORD' has the name of a secret"]),
        ("a: ${api_token:-hunter2}", ["line 1: variable 'api_token' has the name of a secret"]),
        ("a: [b, ${X}]", ["line 1: a variable inside { } or [ ] must be in quotes"]),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, faults: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        expanded(text)
    assert len(caught.value.faults) == len(faults)
    for fault, words in zip(caught.value.faults, faults, strict=True):
        assert str(fault).startswith(words)
    assert "hunter2" not in str(caught.value)


def test_a_text_that_is_no_yaml_is_refused_as_ever() -> None:
    with pytest.raises(InvalidInput, match=r"line 2: not valid YAML"):
        read_document("a: ${X:-1}\nb: }\n")


def test_json_has_variables_too() -> None:
    assert read_document('{"a": ["${X:-1}", 2, {"$${Y}": null}]}', format="json").value == {
        "a": ["1", 2, {"${Y}": None}]
    }
    with pytest.raises(InvalidInput, match="'X' has no value"):
        read_document('{"a": "${X}"}', format="json")


def test_the_server_gives_nothing_of_its_environment_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECK_REGION", "of-the-server")
    from speck.core.inventory import Inventory

    with pytest.raises(InvalidInput, match="'SPECK_REGION' has no value"):
        load_composition(
            "name: ${SPECK_REGION}\njobs: []\n",
            inventory=Inventory(),
            registry=REGISTRY,
            root=tmp_path,
            default_name="x",
        )


# -- where values come from


def test_the_nearest_value_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "c.yaml").write_text("${A} ${B} ${C} ${D} ${E:-5}")
    (first := tmp_path / "first.env").write_text("# a file\nexport B=2\nC='two words' # here\nD=4\n")
    (last := tmp_path / "last.yaml").write_text("D: 4.5\nA: true\n")
    monkeypatch.setenv("A", "1")
    monkeypatch.setenv("B", "0")
    assert read_composition(file, values([], ["C=c", "D="])).decode() == "1 0 c  ${E:-5}"
    assert read_composition(file, values([first, last], ["C=x=y"])).decode() == "true 2 x=y 4.5 ${E:-5}"


@pytest.mark.parametrize(
    "text",
    [
        *("02142", "NO", "off", "1.10", "22:30", "0x1F", "1_000", "-0", "1e3", "4.5", "true", "12", ".inf"),
        *("2026-03-02", "2026-03-02T07:00:00Z", "0o17", "north"),
    ],
)
def test_a_value_of_a_yaml_file_is_its_text(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "prod.yaml").write_text(f"A: {text}\nB: &same {text}\nC: *same\n")
    assert read_env(file) == {"A": text, "B": text, "C": text}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.yaml", "A: ~\n", r"a\.yaml: line 1: A is empty \(expected text, a number"),
        ("a.env", "A=1\nhunter2 and more\n", r"a\.env: line 2: not in the form NAME=VALUE"),
        ("a.env", "A=1\nB\n", r"a\.env: line 2: not in the form NAME=VALUE"),
        ("a.env", "A-B=hunter2\n", r"'A-B' is not the name of a variable"),
        ("a.yaml", "A: [hunter2]\n", r"a\.yaml: line 1: A is a list \(expected text, a number"),
        ("a.yaml", "- hunter2\n", r"a\.yaml: is a list \(expected a mapping"),
        ("a.yml", "A: }\n", r"a\.yml: line 1: not valid YAML"),
        ("a.env", b"A=\xff", r"a\.env: not UTF-8 text"),
    ],
)
def test_a_file_that_is_none_of_variables(
    tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidInput, match=words) as caught:
        read_env(path)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "words"), [("hunter2", "NAME=VALUE"), ("1A=hunter2", "'1A' is not the name")]
)
def test_a_setting_that_is_none(setting: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        values([], [setting])
    assert "hunter2" not in str(caught.value)


# -- from the command line to the store


def test_a_composition_for_each_environment(
    rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "c.yaml").write_text(yaml_of("a in-${REGION:-x} out parallelism: ${TASKS}"))
    (env := tmp_path / "test.env").write_text("TASKS=2\n")
    text = read_composition(file, values([env], ["REGION=north"]))
    assert rest.client.apply(text, "c", wait=60)["state"] == "succeeded"
    desired = rest.client.job("a")["job"]
    assert (desired["source_topic"], desired["parallelism"]) == ("in-north", 2)
    again = rest.client.plan(read_composition(file, values([env], ["REGION=north"])), "c")
    assert [each["verdict"] if "verdict" in each else each["kind"] for each in again["actions"]] == ["keep"]


# -- the site inventory

SITES = """\
sites:
  A:
    spe_address: sc://${EDGE}:15002
    broker_address: tcp://${EDGE}:${PORT:-1883}
    broker_login: {username: speck, password: "${BROKER_PASSWORD}"}
brokers:
  cloud: {broker_address: "tcp://${CLOUD:-cloud}"}
"""


def places(url: str) -> list[tuple[str, list[str], str]]:
    """The sites that a server knows: name, engines, broker."""
    return [
        (each["name"], [engine["address"] for engine in each["engines"]], each["broker"]["address"])
        for each in Client(url).sites()
    ]


def test_the_server_reads_its_inventory_with_variables(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(SITES)
    (env := tmp_path / "prod.env").write_text("EDGE=near\nBROKER_PASSWORD=hunter2\n")
    options = ("--sites", "sites.yaml", "--env", "prod.env")
    with served(tmp_path, *options, PORT="1884", BROKER_PASSWORD="hunter2") as first:
        assert places(first.url) == [
            ("A", ["sc://near:15002"], "tcp://near:1884"),
            ("cloud", [], "tcp://cloud:1883"),
        ]
        assert "hunter2" not in json.dumps(Client(first.url).check_sites())
        first.process.terminate()
        assert first.process.wait(60) == 0
    env.write_text("EDGE=far\n")
    with served(tmp_path, *options, "--set", "CLOUD=mqtt.example.org") as again:
        assert places(again.url) == [
            ("A", ["sc://far:15002"], "tcp://far:1883"),
            ("cloud", [], "tcp://mqtt.example.org:1883"),
        ]


def test_every_command_that_reads_an_inventory_takes_values(
    speck: Speck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites.yaml").write_text(SITES)
    (tmp_path / "prod.env").write_text("EDGE=127.0.0.1\nFROM=t0\n")
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    job = "job_name: a, site: A, sink_broker: cloud, source_topic: '${FROM}', sink_topic: t1"
    (tmp_path / "line.yaml").write_text(f"jobs:\n- {{{job}, entry_class: work, job_path: work.py}}\n")
    missing = "error: line 3: variable 'EDGE' has no value (expected --set EDGE=VALUE"
    for command in (
        ("validate", "sites.yaml"),
        ("validate", "line.yaml", "--sites", "sites.yaml"),
        ("graph", "line.yaml", "--sites", "sites.yaml"),
        ("sites", "check", "--sites", "sites.yaml"),
        ("serve", "--sites", "sites.yaml"),
    ):
        said = speck(*command)
        assert (said.code, said.out) == (1, ""), command
        assert said.err.startswith(missing), command
    assert speck("validate", "sites.yaml", "--env", "prod.env").out.startswith(
        "sites.yaml: sites A, brokers cloud"
    )
    assert speck("validate", "line.yaml", "--sites", "sites.yaml", "--env", "prod.env").code == 0
    said = speck("validate", "sites.yaml", "--env", "prod.env", "--set", "CLUOD=c", "--set", "CLOUD=d")
    assert said.err == "warning: --set CLUOD: no such variable (did you mean CLOUD?)\n"
    assert "A" in speck("graph", "line.yaml", "--sites", "sites.yaml", "--env", "prod.env").out
    said = speck(
        "sites",
        "check",
        "--sites",
        "sites.yaml",
        "--env",
        "prod.env",
        "--set",
        "PORT=1",
        "--set",
        "CLOUD=127.0.0.1:2",
    )
    assert "A, broker tcp://127.0.0.1:1: " in said.out
    assert "cloud, broker" in said.out
    assert "--env and --set require --sites" in speck("sites", "check", "--env", "prod.env").err
