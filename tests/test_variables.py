"""Variables of compositions: what stands for them, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from speck.cli.variables import read_composition, read_env
from speck.errors import InvalidInput
from speck.schema import load_composition
from speck.schema.document import read_document
from speck.schema.variables import complete, put_in
from tests.examples import REGISTRY, property_test
from tests.rest_server import RestServer, rest_fixture, yaml_of  # noqa: F401

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
    return complete(put_in(text, variables))


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
    found = read_document(put_in(text, {"X": value})).value
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
        ("a: 1\nb: ${\n", ["line 2: '${' is not the start of a variable (expected ${NAME}"]),
        ("a: ${1X}", ["line 1: '${' is not the start"]),
        ("a: ${X:?must}", ["line 1: '${' is not the start"]),
        ("a: ${BROKER_PASSWORD}", ["line 1: variable 'BROKER_PASSWORD' is a secret by its name"]),
        ("a: ${api_token:-hunter2}", ["line 1: variable 'api_token' is a secret by its name"]),
        ("a: [b, ${X}]", ["line 1: a variable inside of { } or [ ] has to be in quotes"]),
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
    from speck.model import Inventory

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
    assert read_composition(file, [], ["C=c", "D="]).decode() == "1 0 c  ${E:-5}"
    assert read_composition(file, [first, last], ["C=x=y"]).decode() == "true 2 x=y 4.5 ${E:-5}"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.env", "A=1\nhunter2 and more\n", r"a\.env: line 2: is not NAME=VALUE"),
        ("a.env", "A=1\nB\n", r"a\.env: line 2: is not NAME=VALUE"),
        ("a.env", "A-B=hunter2\n", r"'A-B' is not the name of a variable"),
        ("a.yaml", "A: [hunter2]\n", r"a\.yaml: line 1: A is a list \(expected text, a number"),
        ("a.yaml", "- hunter2\n", r"a\.yaml: is a list \(expected a mapping"),
        ("a.yml", "A: }\n", r"a\.yml: line 1: not valid YAML"),
        ("a.env", b"A=\xff", r"a\.env: is not UTF-8 text"),
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
def test_a_setting_that_is_none(tmp_path: Path, setting: str, words: str) -> None:
    (file := tmp_path / "c.yaml").write_text("a: 1")
    with pytest.raises(InvalidInput, match=words) as caught:
        read_composition(file, [], [setting])
    assert "hunter2" not in str(caught.value)


# -- from the command line to the store


def test_a_composition_for_each_environment(
    rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "c.yaml").write_text(yaml_of("a in-${REGION:-x} out parallelism: ${TASKS}"))
    (env := tmp_path / "test.env").write_text("TASKS=2\n")
    text = read_composition(file, [env], ["REGION=north"])
    assert rest.client.apply(text, "c", wait=60)["state"] == "succeeded"
    wanted = rest.client.job("a")["job"]
    assert (wanted["source_topic"], wanted["parallelism"]) == ("in-north", 2)
    again = rest.client.plan(read_composition(file, [env], ["REGION=north"]), "c", None)
    assert [each["verdict"] if "verdict" in each else each["kind"] for each in again["actions"]] == ["keep"]
