"""Lengths of time in SQL: ``INTERVAL '10' SECOND``, ``INTERVAL '1.5 hours'``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

_UNITS: Mapping[str, int] = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 7 * 86_400_000,
}
INTERVAL_UNITS = ", ".join(_UNITS)
_TEXT = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*\Z", re.ASCII)


def milliseconds(node: exp.Interval) -> int | None:
    """The length of an interval in milliseconds; ``None`` for one that is not a whole number of them."""
    if not isinstance(node.this, exp.Literal) or (found := _TEXT.match(node.this.name)) is None:
        return None
    unit = node.args.get("unit")
    name = (found[2] or (unit.name if unit is not None else "")).upper().removesuffix("S")
    if name not in _UNITS or (found[2] and unit is not None and unit.name.upper().removesuffix("S") != name):
        return None
    length = Fraction(found[1]) * _UNITS[name]
    return int(length) if length.denominator == 1 else None
