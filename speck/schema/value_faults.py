"""Faults of single values of a document, as predicates: ``None`` if there is none."""

from __future__ import annotations

import datetime
import math
import re
import sys

from speck.schema.fault_report import kind_of_value
from speck.schema.yaml.plain import in_quotes

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def character_fault(text: str, allowed: str = "") -> str | None:
    """A fault of text that cannot be stored and shown as UTF-8: control characters, lone surrogates."""
    if all(found in allowed for found in _UNREADABLE.findall(text)):
        return None
    return "contains a control character or invalid Unicode"


def text_fault(value: object, expected: str = "text", written: str | None = None) -> str | None:
    """A fault of a value that is not text, and not as ``expected``.

    ``written`` is the text of a plain scalar, which the fault contains as it is to be written in quotes.
    """
    if isinstance(value, str):
        return None
    if isinstance(value, bool):
        why = "YAML reads yes, no, on and off as booleans: "
        return f"is true or false, not text ({why}{_put_in_quotes(written)})"
    if isinstance(value, datetime.date):
        return f"is a date, not text ({_put_in_quotes(written)})"
    if isinstance(value, int | float):
        return f"is a number, not text ({_put_in_quotes(written)})"
    return f"is {kind_of_value(value)} (expected {expected}){_as_text(written)}"


def _put_in_quotes(written: str | None) -> str:
    return "put it in quotes" if written is None else f"put it in quotes: {in_quotes(written)}"


def _as_text(written: str | None) -> str:
    return "" if written is None else f"; as text: {in_quotes(written)}"


def number_fault(value: object) -> str | None:
    """The kind of a value that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return kind_of_value(value)
    if isinstance(value, int):  # of JSON, which may have more digits than a float
        return None if abs(value) <= sys.float_info.max else "too large"
    return None if math.isfinite(value) else "not finite"


def scalar_fault(value: object, written: str | None = None) -> str | None:
    """A fault of a value that is not text, a finite number, true or false; ``written`` as of a text."""
    right = "expected text, a number, true or false"
    if isinstance(value, float) and not math.isfinite(value):
        return f"is not a finite number ({right}){_as_text(written)}"
    if isinstance(value, str):
        return character_fault(value, "\n\r\t")
    if isinstance(value, bool | int | float):
        return None
    if isinstance(value, datetime.date):
        return f"is a date ({_put_in_quotes(written)})"
    return f"is {kind_of_value(value)} ({right}){_as_text(written)}"
