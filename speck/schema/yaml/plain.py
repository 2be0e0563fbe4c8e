"""Plain scalars that YAML reads otherwise than they look: ``02142`` is 1122, ``NO`` false, ``1.10`` 1.1.

The rules are those of YAML 1.1 as PyYAML applies them; of YAML 1.2, in which ``1e3`` is a number, only what
differs.
"""

from __future__ import annotations

import datetime
import json
import re

_OWN_TEXT = {True: ("true", "True", "TRUE"), False: ("false", "False", "FALSE")}
_NULL = ("", "null", "Null", "NULL")
# Numbers of YAML 1.2 which 1.1 reads as text: an exponent without a point or a sign, octal digits with "0o".
_NUMBER_OF_1_2 = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)[eE][-+]?\d+|0o[0-7]+")
_BEGIN_OF_NUMBER = frozenset("-+.0123456789")
_LONGEST_NUMBER = 100  # characters


def reads_otherwise(text: str, value: object) -> bool:
    """True if a plain scalar's value does not determine its text, or other programs read it as a number."""
    if isinstance(value, str):
        if text[:1] not in _BEGIN_OF_NUMBER:  # as most texts
            return False
        return len(text) <= _LONGEST_NUMBER and _NUMBER_OF_1_2.fullmatch(text) is not None
    if value is None:
        return text not in _NULL
    if isinstance(value, bool):
        return text not in _OWN_TEXT[value]
    return isinstance(value, datetime.date) or text != canonical(value)


def canonical(value: object) -> str:
    """The text of a number, true or false that YAML and other programs read as this value."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, datetime.date) else repr(value)


def number(text: str) -> int | float:
    """The number that a text of YAML 1.2 stands for (see :func:`reads_otherwise`)."""
    return int(text, 8) if text.startswith("0o") else float(text)


def in_quotes(text: str) -> str:
    """Text as it is written in quotes."""
    return json.dumps(text, ensure_ascii=False)


def is_same(text: str, value: object) -> bool:
    """True if a text that was read as a number, true or false is that in all common notations.

    ``1.10``, ``0x1F`` and ``1_000`` are; ``02142`` (octal digits) and ``22:30`` (base 60) are numbers to
    YAML 1.1 alone.
    """
    try:
        if isinstance(value, bool):
            return True
        if isinstance(value, int):
            return int(text, 0) == value
        return isinstance(value, float) and float(text) == value
    except ValueError:
        return False
