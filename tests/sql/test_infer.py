"""Schemas from samples of messages, and messages against a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from speck.schema.queries import tables_of
from speck.sql.check import MOST_REASONS, Check
from speck.sql.infer import Inferred, entry, infer
from speck.sql.types import Contract, column_of

BEGIN = 1_700_000_000_000


def sample(*messages: object) -> list[tuple[str, bytes]]:
    """Messages of JSON, or of the texts and bytes that are given."""
    return [("a/x", _content(each)) for each in messages]


def _content(message: object) -> bytes:
    if isinstance(message, bytes):
        return message
    return (message if isinstance(message, str) else json.dumps(message)).encode()


def inferred(*messages: object, topic: str = "a/+") -> Inferred:
    found = infer(topic, sample(*messages))
    assert found is not None
    return found


def types(found: Inferred) -> dict[str, str]:
    return {each.name: each.written_type for each in found.contract.columns}


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, 2], "bigint not null"),
        ([1, 2.5], "double not null"),
        ([2**70, 1], "double not null"),
        ([True, False], "boolean not null"),
        (["x", "2026-01-01"], "string not null"),
        (["2026-01-01", "2026-01-01T10:00:00.5Z"], "timestamp not null"),
        ([BEGIN, BEGIN + 1], "timestamp(ms) not null"),
        ([1, None], "bigint"),
    ],
)
def test_a_column_has_the_narrowest_type_of_its_values(values: list[Any], type: str) -> None:
    assert types(inferred(*({"c": each} for each in values))) == {"c": type}


def test_seconds_are_times_by_the_name_of_their_column() -> None:
    found = inferred({"sent_at": 1_700_000_000.25, "id": 1_700_000_000})
    assert types(found) == {"sent_at": "timestamp(s) not null", "id": "bigint not null"}
    assert found.times == ("sent_at",)


def test_a_column_that_some_messages_lack_is_nullable() -> None:
    assert types(inferred({"a": 1}, {"b": 1})) == {"a": "bigint", "b": "bigint"}


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("c", [1, "x"], "its values are numbers and texts"),
        ("c", [{}, []], "its values are lists and objects"),
        ("c", [None, None], "it is always null"),
        ("x y", [1, 1], "letters, digits and '_'"),
        ("topic", [1, 1], "SpecK gives a column of this name"),
        ("Window_End", [1, 1], "SpecK gives a column of this name"),
        ("K", [1, 1], "in another case"),
    ],
)
def test_a_column_without_a_type_is_left_out_and_named(name: str, values: list[Any], reason: str) -> None:
    found = inferred(*({"k": 1, name: each} for each in values))
    assert list(types(found)) == ["k"]
    (note,) = found.notes
    assert note.startswith(f"{name!r} is left out: ") and reason in note


def test_lines_that_are_no_objects_are_csv_and_keep_their_places() -> None:
    found = inferred(f'{BEGIN},Ulm,3.5,,true,"a,b"', f"{BEGIN - 2500},Bonn,4,,false,c,further")
    assert found.contract.format == "csv"
    assert types(found) == {
        "column1": "timestamp(ms) not null",
        "column2": "string not null",
        "column3": "double not null",
        "column4": "string",
        "column5": "boolean not null",
        "column6": "string not null",
    }
    assert found.contract.watermark_ms == 3000
    assert any("lines have 6 to 7 fields" in each for each in found.notes)


def test_the_watermark_is_the_most_by_which_a_message_was_late() -> None:
    times = [0, 5000, 1700, 6000]
    found = inferred(*({"t": BEGIN + each, "u": BEGIN} for each in times))
    assert (found.contract.event_time, found.contract.watermark_ms) == ("t", 4000)
    assert "    event_time: t  # or: u" in entry(found)


def test_messages_of_another_form_are_counted() -> None:
    found = inferred({"a": 1}, "{", {"a": 2}, b"\xff")
    assert (found.messages, found.unparsable, types(found)) == (4, 2, {"a": "bigint not null"})


def test_messages_without_columns_have_no_schema() -> None:
    assert infer("a", sample({}, {})) is None
    assert infer("a", sample(b"\xff")) is None


@pytest.mark.parametrize("topic", ["a/+/speed", "+/#", "#", "null", "a: b/\u00e4"])
def test_the_entry_is_one_of_a_composition_and_fits_its_messages(topic: str) -> None:
    messages = sample(
        {"time": BEGIN, "no": 1, "on": "x", "\u00e4": None, "y": True},
        {"time": BEGIN, "no": 2, "on": None, "\u00e4": 1.5},
    )
    found = infer(topic, messages, ["A", "on"])
    assert found is not None
    text = "\n".join([*entry(found), "jobs: []", ""])
    (contract,) = tables_of(text.encode()).values()
    assert contract == found.contract
    check = Check(contract)
    assert all(check.take(*each) is not None for each in messages) and not check.unparsable


# --- messages against a schema

CONTRACT = Contract("a/+", "a", "json", (column_of("town", "string not null"), column_of("speed", "double")))


def checked(*messages: object) -> Check:
    check = Check(CONTRACT)
    for topic, content in sample(*messages):
        check.take(topic, content)
    return check


def test_messages_that_do_not_fit_are_counted_by_column_and_value() -> None:
    fast = {"town": "Ulm", "speed": "fast"}
    found = checked({"town": "Ulm"}, fast, "{", {"speed": 1}, fast).to_dict()
    assert (found["messages"], found["unparsable"], found["other_reasons"]) == (5, 4, 0)
    assert [(each["column"], each["reason"], each["messages"]) for each in found["reasons"]] == [
        ("speed", "column 'speed' is 'fast' (expected double)", 2),
        (None, "it is not JSON", 1),
        ("town", "column 'town' is missing or null (expected string not null)", 1),
    ]


def test_reasons_beyond_a_number_are_counted_together() -> None:
    found = checked(*({"town": "Ulm", "speed": f"v{each}"} for each in range(MOST_REASONS + 7)))
    assert (found.unparsable, len(found.reasons), found.others) == (MOST_REASONS + 7, MOST_REASONS, 7)


def test_a_short_line_of_csv_names_the_column_that_it_lacks() -> None:
    check = Check(Contract("a", "a", "csv", CONTRACT.columns))
    assert check.take("a", b"Ulm,1.5") == ["Ulm", 1.5]
    assert check.take("a", b"Ulm") is None
    assert list(check.reasons) == [("speed", "column 'speed' is missing (the line has 1 fields)")]
