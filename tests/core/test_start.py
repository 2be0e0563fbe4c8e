"""The place in a topic where a job begins to read."""

from __future__ import annotations

import pytest

from speck.core.start import parse_start, start_millis


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("latest", "latest"),
        ("earliest", "earliest"),
        ("2026-11-01T06:30:00Z", "2026-11-01T06:30:00Z"),
        ("2026-11-01T08:30+02:00", "2026-11-01T06:30:00Z"),
        ("2026-11-01 06:30:00.5Z", "2026-11-01T06:30:00.500Z"),
        ("1970-01-01T00:00Z", "1970-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_stored_in_utc(text: str, stored: str) -> None:
    assert parse_start(text) == stored
    assert parse_start(stored) == stored


def test_a_time_has_its_milliseconds() -> None:
    assert start_millis("1970-01-02T00:00:00.500Z") == 86_400_500


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is not a place in a topic"),
        ("Earliest", "is not a place in a topic"),
        ("yesterday", "is not a place in a topic"),
        ("2026-13-01T00:00Z", "is not a place in a topic"),
        ("2026-11-01T06:30:00", "has no time zone"),
        ("2026-11-01", "has no time zone"),
        ("1969-12-31T23:59:59Z", "is before 1970"),
        ("0001-01-01T00:00+05:00", "is out of range"),
    ],
)
def test_others_are_refused_with_the_right_form(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"{fault} .expected latest, earliest, or a time with its zone"):
        parse_start(text)
