from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from speck.errors import InvalidInput
from speck.schema.yaml import parser
from speck.schema.yaml.lines import LinedDict, line_of
from speck.schema.yaml.parser import parse
from tests.support.properties import property_test

scalars = (
    some.none()
    | some.booleans()
    | some.integers(-(10**20), 10**20)
    | some.floats(allow_nan=False)
    | some.dates()
    | some.text(some.characters(codec="utf-8", exclude_categories=["C"]), max_size=20)
)
documents = some.recursive(
    scalars,
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text("abc no<", max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)


@property_test
@given(documents, some.booleans())
def test_reads_what_pyyaml_writes(value: Any, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    assert parse(text).value == yaml.safe_load(text) == value


@property_test
@given(documents)
def test_reads_what_json_writes(value: Any) -> None:
    text = json.dumps(value, default=str)
    assert parse(text, format="json").value == json.loads(text)


@property_test
@given(some.text("ab:- \n[]{}&*!#|>'\",?%@\t0", max_size=60))
def test_any_text_is_read_as_pyyaml_reads_it_or_refused(text: str) -> None:
    try:
        document = parse(text)
    except InvalidInput as error:
        assert error.faults
        return
    loader: Any = parser._LOADER  # the two of PyYAML do not agree on everything (a tab after a scalar)
    try:
        expected = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError:
        return  # an anchor given twice, which YAML allows
    assert document.faults or document.value == expected


@property_test
@given(some.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for format in ("yaml", "json"):
        try:
            parse(data, format=format)
        except InvalidInput as error:
            assert error.faults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: !!str 1", {"a": "1"}),
        ("a: ! 1", {"a": "1"}),
        ("a: 0x10", {"a": 16}),
        ("a: 1:30", {"a": 90}),
        ("a: 2021-01-02", {"a": datetime.date(2021, 1, 2)}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
        ("x: &x {a: 1, b: 1}\ny: {<<: *x, a: 2}", {"x": {"a": 1, "b": 1}, "y": {"a": 2, "b": 1}}),
        (
            "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}",
            {"x": {"a": 1}, "y": {"a": 2, "b": 2}, "z": {"a": 1, "b": 2}},
        ),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_yaml_as_pyyaml_reads_it(text: str, expected: Any) -> None:
    assert parse(text).value == expected


def test_the_parser_without_the_c_library_reads_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, no]\nb: *x\na: 2\n"
    fast = parse(text)
    monkeypatch.setattr(parser, "_LOADER", yaml.SafeLoader)
    slow = parse(text)
    assert (fast.value, fast.faults) == (slow.value, slow.faults)


def nodes(node: Any, value: Any) -> Iterator[tuple[int, int | None]]:
    """The line of each key and item, as PyYAML's tree of nodes has it and as the value has it."""
    if isinstance(value, dict):
        for key, inner in node.value:
            name = yaml.SafeLoader("").construct_object(key)
            yield key.start_mark.line + 1, line_of(value, name)
            yield from nodes(inner, value[name])
    elif isinstance(value, list):
        for index, inner in enumerate(node.value):
            yield inner.start_mark.line + 1, line_of(value, index)
            yield from nodes(inner, value[index])


@property_test
@given(documents, some.booleans())
def test_lines_are_those_of_the_nodes(value: Any, flow: bool) -> None:
    text = "# first\n" + yaml.safe_dump(value, default_flow_style=flow, width=20)
    found = list(nodes(yaml.compose(text), parse(text).value))
    assert [here for _, here in found] == [expected for expected, _ in found]


@pytest.mark.parametrize(
    ("text", "format", "expected"),
    [
        ("a: b", "yaml", False),
        ("a: $b {c}", "yaml", False),
        ("a: ${b}", "yaml", True),
        (r'a: "\x24{b}"', "yaml", True),
        (r'["\u0024{b}"]', "json", True),
        ('["$b"]', "json", False),
    ],
)
def test_a_document_that_may_refer_to_variables(text: str, format: str, expected: bool) -> None:
    assert parse(text, format=format).may_refer is expected


def test_lines_are_those_of_the_text() -> None:
    value = parse("# comment\na: 1\nb:\n- x\n- c: 2\n  d: 3\n").value
    assert isinstance(value, LinedDict)
    assert [line_of(value, key) for key in ("a", "b")] == [2, 3]
    assert [line_of(value["b"], index) for index in (0, 1)] == [4, 5]
    assert line_of(value["b"][1], "d") == 6
    assert line_of({"a": 1}, "a") is None


@pytest.mark.slow("20,000 items")
def test_defaults_may_be_repeated_in_every_item_of_a_long_list() -> None:
    text = "defaults: &d {a: 1, b: 2, c: 3, d: 4, e: 5}\nitems:\n" + "- {<<: *d, n: 1}\n" * 20_000
    assert len(parse(text).value["items"]) == 20_000


def test_aliases_that_nest_deeper_and_deeper_are_refused() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(InvalidInput, match="nested too deeply"):
        parse(text)


@pytest.mark.parametrize(("around", "refused"), [(8, False), (9, True)])
def test_levels_of_an_alias_are_those_of_its_anchor(around: int, refused: bool) -> None:
    text = f"a: &a {'[' * 10}x{']' * 10}\nb: {'[' * around}*a{']' * around}\n"
    if refused:
        with pytest.raises(InvalidInput, match="nested too deeply"):
            parse(text)
    else:
        parse(text)
