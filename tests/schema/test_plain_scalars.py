"""Plain scalars that YAML reads otherwise than they look are named, with the form to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from binders.common.signature import parameters_of
from speck.binder import installed
from speck.core.inventory import Inventory
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition
from speck.schema.yaml.parser import parse
from speck.schema.yaml.plain import canonical, in_quotes, reads_otherwise
from tests.support.properties import tries

JOB = """\
jobs:
- job_name: a
  spe_address: sc://e1:1
  source_broker: tcp://b1:1
  sink_broker: tcp://b1:1
  source_topic: in
  sink_topic: out
  job_path: work.py
  entry_class: work
"""
CODE = """\
def work(messages, x=None, n: int = 0, f: float = 0, t: str = "", b: bool = False):
    return messages
"""

Load = Callable[[str], Loaded]


@pytest.fixture(name="load")
def load_fixture(tmp_path: Path) -> Load:
    (tmp_path / "work.py").write_text(CODE)

    def load(more: str) -> Loaded:
        return load_composition(
            JOB + more, inventory=Inventory({}), registry=installed(), root=tmp_path, default_name="c"
        )

    return load


def faults(load: Load, more: str) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        load(more)
    return [f"{fault.line}: {fault}" for fault in refused.value.faults]


MISREAD = {
    "02142": "1122",
    "22:30": "1350",
    "NO": "false",
    "off": "false",
    "Yes": "true",
    "1.10": "1.1",
    "0x1F": "31",
    "0b11": "3",
    "+4930123": "4930123",
    "1_000": "1000",
    "-0": "0",
    "1.": "1.0",
    "1.50e+3": "1500.0",
    "190:20:30.15": "685230.15",
}


@pytest.mark.parametrize("text", MISREAD)
def test_an_argument_is_named_with_its_line_its_text_and_both_forms(load: Load, text: str) -> None:
    (fault,) = faults(load, f"  arguments:\n    n: 1\n    x: {text}\n")
    assert fault.startswith("12: ")
    assert f"argument 'x' of 'work' is {text}, which YAML reads as {MISREAD[text]} " in fault
    assert f'(expected "{text}" for the text, or {MISREAD[text]} for the value)' in fault


@pytest.mark.parametrize("text", ["02142", "NO", "1.10"])
def test_to_a_parameter_of_text_the_error_shows_the_text_of_the_file(load: Load, text: str) -> None:
    (fault,) = faults(load, f"  arguments: {{t: {text}}}\n")
    assert f"argument 't' of 'work' is {text}, which YAML reads as {MISREAD[text]}" in fault
    assert fault.endswith(f'(expected "{text}")')


@pytest.mark.parametrize("text", ["2024-01-01", "~", ".inf"])
def test_what_no_argument_can_be_is_shown_in_quotes(load: Load, text: str) -> None:
    (fault,) = faults(load, f"  arguments: {{x: {text}}}\n")
    assert f'"{text}"' in fault


@pytest.mark.parametrize("text", ["1e3", "1.5e3", "0o17"])
def test_a_number_of_other_programs_that_yaml_reads_as_text(load: Load, text: str) -> None:
    for name in ("x", "f"):
        (fault,) = faults(load, f"  arguments: {{{name}: {text}}}\n")
        assert f"argument '{name}' of 'work' is {text}, which YAML reads as text" in fault
        assert f'(expected "{text}", or ' in fault
    assert load(f"  arguments: {{t: {text}}}\n").composition.jobs["a"].arguments["t"] == text


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("f", "1.10", 1.1),
        ("n", "0x1F", 31),
        ("n", "1_000", 1000),
        ("n", "+5", 5),
        ("b", "NO", False),
        ("f", "1.50e+3", 1500.0),
        ("x", "1.5", 1.5),
        ("x", "-3", -3),
        ("x", "true", True),
        ("x", '"02142"', "02142"),
        ("x", "'NO'", "NO"),
        ("x", "1.10.0", "1.10.0"),
        ("x", "!!str 02142", "02142"),
        ("x", "08142", "08142"),
    ],
)
def test_what_is_meant_so_passes(load: Load, name: str, text: str, value: object) -> None:
    found = load(f"  arguments: {{{name}: {text}}}\n").composition.jobs["a"].arguments[name]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("text", ["02142", "22:30"])
def test_an_annotated_number_that_only_yaml_1_1_reads_so_is_refused(load: Load, text: str) -> None:
    (fault,) = faults(load, f"  arguments: {{n: {text}}}\n")
    assert f"is {text}, which YAML reads as {MISREAD[text]}" in fault


@pytest.mark.parametrize("text", [*MISREAD, "2024-01-01"])
def test_a_label_shows_the_text_and_how_to_write_it(load: Load, text: str) -> None:
    (fault,) = faults(load, f"  labels:\n    zone: {text}\n")
    assert fault.startswith("11: ") and f"labels.zone {text} is " in fault
    assert f'put it in quotes: "{text}")' in fault


def test_a_key_is_shown_as_it_is_written(load: Load) -> None:
    (fault,) = faults(load, "  labels:\n    NO: x\n")
    assert fault.startswith("11: ") and 'put it in quotes: "NO")' in fault


@pytest.mark.parametrize(
    "more",
    [
        "  arguments: {t: &zip 02142, x: *zip}\n",
        "  arguments:\n    <<: &all {x: 02142}\n",
        "  arguments: {x: 02142}\n  labels: {a: '1'}\n",
        "  arguments: {x: ${ZIP:-02142}}\n".replace("${ZIP:-02142}", '"${ZIP:-02142}"').replace('"', ""),
    ],
    ids=["alias", "merge", "beside", "variable"],
)
def test_the_text_is_found_through_anchors_merges_and_variables(load: Load, more: str) -> None:
    if "${" in more:
        more = "  arguments:\n    x: ${ZIP:-02142}\n"
    assert any("'x' of 'work' is 02142, which YAML reads as 1122" in each for each in faults(load, more))


def test_what_follows_a_misread_value_has_its_own_text() -> None:
    value = parse("a: 02142\nb: [NO, 1]\nc: {d: 1.10}\ne: 5\n").value
    assert dict(value.written) == {"a": "02142"}
    assert dict(value["c"].written) == {"d": "1.10"}


_plain = some.text("0123456789abefnoxyNOYE._+-:~", min_size=1, max_size=8)


@tries(300)
@given(text=_plain)
def test_a_text_that_is_not_named_is_its_value_or_the_value_of_yaml_1_2(text: str) -> None:
    """A value that passes is the text itself, or is written again as it stands."""
    try:
        read = yaml.safe_load(f"a: {text}")
        assert isinstance(read, dict)
        value = read["a"]
    except (yaml.YAMLError, ValueError, AssertionError, KeyError):
        return
    if isinstance(value, dict | list) or reads_otherwise(text, value):
        return
    assert value is None or isinstance(value, str) or canonical(value).lower() == text.lower()
    assert yaml.safe_load(f"a: {in_quotes(text)}") == {"a": text}


def test_parameters_are_as_the_tests_say() -> None:
    parameters = parameters_of(CODE.encode(), "work")
    assert parameters is not None
    assert {each.name: each.types for each in parameters}["f"] == (int, float)
