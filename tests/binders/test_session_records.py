"""The records beside a session at a broker: what counts of content that any client may have written."""

from __future__ import annotations

from typing import Any

import pytest

from binders.common.session_records import (
    attempt_of,
    json_object,
    named_owner,
    owned_by,
    owner_of,
    topics_of,
)
from binders.kafka.control_log import ControlLog
from binders.kafka.records import KafkaSessionRecords
from speck.errors import SessionOfAnother


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, {}),
        (b"", {}),
        (b'{"attempt": 3}', {"attempt": 3}),
        (bytearray(b"{}"), {}),
        ("[1]", {}),
        (b"\xff", {}),
        (b"[" * 100_000, {}),
    ],
)
def test_other_content_than_an_object_counts_as_none(
    payload: str | bytes | bytearray | None, expected: dict[str, Any]
) -> None:
    assert json_object(payload) == expected


@pytest.mark.parametrize(
    ("record", "topics", "attempt", "owner"),
    [
        ({}, [], -1, ""),
        ({"topics": ["a", 1, "b"], "attempt": 2, "owner": "abc-1"}, ["a", "b"], 2, "abc-1"),
        ({"topics": "a", "attempt": "2", "owner": "two words"}, [], -1, ""),
        ({"topics": None, "attempt": None, "owner": "a" * 65}, [], -1, ""),
        ({"owner": ["a"]}, [], -1, ""),
    ],
)
def test_fields_of_another_form_count_as_none(
    record: dict[str, Any], topics: list[str], attempt: int, owner: str
) -> None:
    assert (topics_of(record), attempt_of(record), named_owner(record)) == (topics, attempt, owner)


@pytest.mark.parametrize(
    ("note", "fence", "expected"),
    [
        ("a", "b", "a"),  # the note decides
        ("", "b", "b"),
        ("a", "", "a"),
    ],
)
def test_the_owner_is_that_of_the_note(note: str, fence: str, expected: str) -> None:
    assert owner_of({"topics": []} | owned_by(note), {"attempt": 1} | owned_by(fence)) == expected


def test_a_deleted_session_has_no_owner_unless_it_has_a_note_again() -> None:
    tombstone = {"attempt": 2, "deleted": True, "owner": "a"}
    assert owner_of({}, tombstone) == ""
    assert owner_of({"topics": []}, tombstone) == "a"


def test_the_records_of_another_owner_are_rejected() -> None:
    log = ControlLog("kafka://b:9092")
    log._records = {
        "note/s": b'{"topics": ["t"], "ids": {"t": "1"}, "owner": "a"}',
        "fence/s": b'{"attempt": 4}',
    }
    records = KafkaSessionRecords.read(log, "s")
    assert (records.topics, records.topic_ids, records.fenced, records.deleted) == (
        ["t"],
        {"t": "1"},
        4,
        False,
    )
    for owner in ("", "a"):  # no owner: not checked
        records.reject_foreign(owner, "kafka://b:9092")
    with pytest.raises(
        SessionOfAnother, match=r"session 's' at broker kafka://b:9092 .* with store a .*store b"
    ):
        records.reject_foreign("b", "kafka://b:9092")
