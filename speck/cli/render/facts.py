"""All fields of an object as text: names without underscores, numbers rounded, with their units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from speck.cli.render.code import CODE
from speck.cli.render.placements import size, span
from speck.cli.render.values import Data, clock, read_as

_TIMES = ("observed_at", "counted_at", "at", "started", "ended", "drift_since", "next_try", "first", "last")
_FIRST = ("job_name", "composition", "wanted", "state", "message", "error", "drift", "drift_message")
_WORDS = {
    "job_name": "job",
    "wanted": "desired",
    "waiting": "backlog",
    "behind": "messages behind",
    "behind_seconds": "oldest message behind",
    "left_behind": "abandoned copies",
    "spe_address": "engine address",
    "up_to_date": "up to date",
}
_RATE, _SECONDS, _MILLISECONDS, _SIZE = "_rate", "_seconds", ("_ms", "Millis"), ("_bytes", "Bytes")


def facts(data: Data) -> Iterator[Text]:
    """All fields of an object, a line each, the most important first, nested ones indented."""
    yield from _facts({name: data[name] for name in _FIRST if name in data} | dict(data), "")


def _facts(data: Data, indent: str) -> Iterator[Text]:
    for key, value in data.items():
        if key == CODE:
            continue
        if isinstance(value, Mapping) and value:
            yield Text(f"{indent}{in_words(key)}:")
            yield from _facts(read_as(key, value), indent + "  ")
        else:
            yield Text(f"{indent}{in_words(key)}: {_fact(key, value)}")


def in_words(key: str) -> str:
    """The name of a field as text, without its unit, which is beside the value."""
    if key in _WORDS:
        return _WORDS[key]
    for ending in (_SECONDS, *_MILLISECONDS, *_SIZE):
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _fact(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _quantity(key, value)
    if isinstance(value, Mapping):
        return ", ".join(f"{in_words(name)} {_fact(name, inner)}" for name, inner in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_fact("", each) for each in value) or "-"
    return "-" if value in (None, "") else str(value)


def _quantity(key: str, value: float) -> str:
    if key in _TIMES and isinstance(value, float):
        return clock(value)
    if key.endswith(_RATE):
        return f"{_rounded(value)} messages/s"
    if key.endswith(_SECONDS):
        return span(value)
    if key.endswith(_MILLISECONDS):
        return span(value / 1000)
    return size(value) if key.endswith(_SIZE) else _rounded(value)


def _rounded(value: float) -> str:
    """Three digits of a fraction; whole numbers in full."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
