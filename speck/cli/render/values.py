"""Single values as text: times, states, and fields that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from speck.sql.explain import by_operator

Data = Mapping[str, Any]

QUERY = "query"  # the field with the program of a SQL job, of which people read the operators
MAX_LENGTH = 60  # characters; a longer value is shortened
_CONTEXT = 12  # characters shown before the first difference

STATES = {
    "running": "green",
    "succeeded": "green",
    "done": "green",
    "failed": "red",
    "lost": "red",
    "skipped": "yellow",
    "unknown": "yellow",
    "waiting": "yellow",
}


def clock(at: float) -> str:
    """A Unix time (s) as a date and a time of day, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shown(value: Any) -> str:
    """A field's value in one line: a content hash by its beginning, a long value by its ends."""
    return shortened(_text(value))


def shown_pair(before: Any, after: Any) -> tuple[str, str]:
    """Two values of a field; of long ones the common beginning is omitted."""
    old, new = _text(before), _text(after)
    if len(old) > MAX_LENGTH and len(new) > MAX_LENGTH:
        cut = _in_common(old, new) - _CONTEXT
        if cut > 0:
            old, new = f"…{old[cut:]}", f"…{new[cut:]}"
    return shortened(old), shortened(new)


def _in_common(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))


def shortened(text: str) -> str:
    """A text of at most :data:`MAX_LENGTH` characters: the beginning and the end of a longer one."""
    if len(text) <= MAX_LENGTH:
        return text
    tail = MAX_LENGTH // 3
    return f"{text[: MAX_LENGTH - tail - 1]}…{text[-tail:]}"


def first_words(text: str) -> str:
    """The beginning of a text, in one line of at most :data:`MAX_LENGTH` characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_LENGTH else f"{line[: MAX_LENGTH - 1].rsplit(' ', 1)[0]} …"


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    text = str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    is_hash = len(text) == 64 and all(letter in "0123456789abcdef" for letter in text)
    return text[:12] if is_hash else "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def changed_values(change: Data) -> Iterator[tuple[str, Any, Any]]:
    """A changed field as name, before, after; a mapping as each key that differs."""
    field, before, after = change["field"], change["before"], change["after"]
    if not (isinstance(before, Mapping) or isinstance(after, Mapping)):
        yield field, before, after
        return
    old, new = (read_as(field, each or {}) for each in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if _differ(old.get(key), new.get(key)):
            yield f"{field}.{key}", old.get(key), new.get(key)


def read_as(field: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mapping as people read it: of a query its operators."""
    return by_operator(str(value.get("program"))) or value if field == QUERY else value


def _differ(before: Any, after: Any) -> bool:
    return type(before) is not type(after) or bool(before != after)
