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


def text_fault(value: object, expected: str = "text") -> str | None:
    """A fault of a value that is not text, and not as ``expected``."""
    if isinstance(value, str):
        return None
    if isinstance(value, bool):
        return "is true or false, not text (YAML reads yes, no, on and off as booleans: put it in quotes)"
    if isinstance(value, datetime.date):
        return "is a date, not text (put it in quotes)"
    if isinstance(value, int | float):
        return "is a number, not text (put it in quotes)"
    return f"is {kind_of_value(value)} (expected {expected})"


def with_quotes(fault: str | None, text: str | None) -> str | None:
    """A fault of a plain scalar, with the text as it is to be written in quotes."""
    if fault is None or text is None:
        return fault
    if "put it in quotes)" in fault:
        return fault.replace("put it in quotes)", f"put it in quotes: {in_quotes(text)})")
    return f"{fault}; as text: {in_quotes(text)}"


def number_fault(value: object) -> str | None:
    """The kind of a value that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return kind_of_value(value)
    if isinstance(value, int):  # of JSON, which may have more digits than a float
        return None if abs(value) <= sys.float_info.max else "too large"
    return None if math.isfinite(value) else "not finite"


def scalar_fault(value: object) -> str | None:
    """A fault of a value that is not text, a finite number, true or false."""
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number (expected text, a number, true or false)"
    if isinstance(value, str):
        return character_fault(value, "\n\r\t")
    if isinstance(value, bool | int | float):
        return None
    if isinstance(value, datetime.date):
        return "is a date (put it in quotes)"
    return f"is {kind_of_value(value)} (expected text, a number, true or false)"
