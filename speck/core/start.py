"""The place in a topic where a job begins to read: its end, its beginning, or a time.

A place other than the end needs a broker that keeps messages which were read.
"""

from __future__ import annotations

from datetime import UTC, datetime

LATEST, EARLIEST = "latest", "earliest"

_RIGHT = "expected latest, earliest, or a time with its zone such as 2026-11-01T06:30:00Z"


def parse_start(text: str) -> str:
    """The start in its stored form: a word, or a time in UTC.  Raises ``ValueError`` with a predicate."""
    if text in (LATEST, EARLIEST):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"is not a place in a topic ({_RIGHT})") from None
    if time.tzinfo is None:
        raise ValueError(f"has no time zone ({_RIGHT})")
    try:
        utc = time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"is out of range ({_RIGHT})") from None
    if not utc.timestamp() >= 0:
        raise ValueError(f"is before 1970 ({_RIGHT})")
    milliseconds = "milliseconds" if utc.microsecond else "seconds"
    return utc.isoformat(timespec=milliseconds).replace("+00:00", "Z")


def start_fault(text: str) -> str | None:
    """The fault of a start, as a predicate; ``None`` if it is valid."""
    try:
        parse_start(text)
    except ValueError as error:
        return str(error)
    return None


def start_millis(start: str) -> int:
    """The milliseconds since 1970 of a start in its stored form.  Raises ``ValueError`` for a word."""
    return round(datetime.fromisoformat(start).timestamp() * 1000)


def start_text(start: str) -> str:
    """A start in its stored form, in words."""
    return {LATEST: "its end", EARLIEST: "its beginning"}.get(start, start)
