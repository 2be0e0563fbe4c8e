"""The operators of expressions, evaluated in Python: the reference of the connectors' own in Java.

Values are ``None`` (NULL), ``bool``, ``int`` (whole numbers, and timestamps in ms), ``float`` and ``str``.
Whole numbers wrap at 64 bits.  A result that is no finite number is NULL, as is a timestamp outside of the
years 1 to 9999: there are no NaN, no infinity and no negative zero.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from speck.sql import times
from speck.sql.program import Expression

Value = Any
Row = Sequence[Value]
Compiled = Callable[[Row], Value]

_WHOLE = re.compile(r" *([+-]?\d{1,30}) *\Z", re.ASCII)
_NUMBER = re.compile(r" *([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?) *\Z", re.ASCII)
LOWEST, HIGHEST = -(2**63), 2**63 - 1
MOST_DIGITS = 15  # of ROUND
_ROUNDING = Context(prec=2 * MOST_DIGITS + 2, rounding=ROUND_HALF_UP)  # digits before the point, and behind


def wrapped(number: int) -> int:
    """A whole number in 64 bits of two's complement."""
    return (number + 2**63) % 2**64 - 2**63


def finite(number: float) -> float | None:
    """The number, without a negative zero; ``None`` if it is not finite."""
    return number + 0.0 if math.isfinite(number) else None


def _divided(one: int, other: int) -> int | None:
    if other == 0:
        return None
    quotient = abs(one) // abs(other)
    return wrapped(quotient if (one < 0) == (other < 0) else -quotient)


def _remainder(one: int, other: int) -> int | None:
    if other == 0:
        return None
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _guarded(function: Callable[..., float]) -> Callable[..., float | None]:
    """A function of numbers whose errors are NULL."""

    def call(*numbers: float) -> float | None:
        try:
            found = function(*numbers)
        except (ArithmeticError, ValueError):
            return None
        return finite(found) if isinstance(found, float) else None

    return call


def _rounded(number: float, digits: int = 0) -> float | None:
    if abs(number) >= 1e15:  # no digits behind the point that matter
        return number
    return finite(float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-digits), context=_ROUNDING)))


def _substring(text: str, start: int, length: int | None = None) -> str | None:
    if length is not None and length < 0:
        return None
    end = len(text) if length is None else max(0, min(len(text), start - 1 + length))
    return text[max(0, start - 1) : end] if start <= len(text) else ""


def _split_part(text: str, delimiter: str, number: int) -> str:
    parts = text.split(delimiter) if delimiter else [text]
    return parts[number - 1] if 0 < number <= len(parts) else ""


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """True if a text has the form of a pattern: ``%`` is any text, ``_`` one character.

    Takes at most length times length steps, whatever the pattern.
    """
    tokens = _like_tokens(pattern, escape)
    at, place, star, mark = 0, 0, -1, 0
    while at < len(text):
        token = tokens[place] if place < len(tokens) else None
        if token == _ANY_TEXT:
            star, mark = place, at
            place += 1
        elif token is not None and (token == _ONE or token == (text[at],)):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = mark, star + 1
        else:
            return False
    return all(each == _ANY_TEXT for each in tokens[place:])


_ANY_TEXT, _ONE = ("%", True), ("_", True)


def _like_tokens(pattern: str, escape: str) -> list[tuple[Any, ...]]:
    tokens: list[tuple[Any, ...]] = []
    characters = iter(pattern)
    for each in characters:
        if each == escape:
            tokens.append((next(characters, each),))
        else:
            tokens.append({"%": _ANY_TEXT, "_": _ONE}.get(each, (each,)))
    return tokens


def _long_of_text(text: str) -> int | None:
    found = _WHOLE.match(text)
    number = int(found[1]) if found else None
    return number if number is not None and LOWEST <= number <= HIGHEST else None


def double_of_text(text: str) -> float | None:
    """The finite number that a text is; ``None`` for another text."""
    found = _NUMBER.match(text)
    return finite(float(found[1])) if found else None


def _boolean_of_text(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip(" ").lower())


def _long_of_double(number: float) -> int | None:
    return int(number) if -(2.0**63) <= number < 2.0**63 else None


# Operators whose result is NULL if an argument is.
STRICT: Mapping[str, Callable[..., Value]] = {
    "add_l": lambda a, b: wrapped(a + b),
    "sub_l": lambda a, b: wrapped(a - b),
    "mul_l": lambda a, b: wrapped(a * b),
    "div_l": _divided,
    "mod_l": _remainder,
    "neg_l": lambda a: wrapped(-a),
    "abs_l": lambda a: wrapped(abs(a)),
    "add_d": _guarded(operator.add),
    "sub_d": _guarded(operator.sub),
    "mul_d": _guarded(operator.mul),
    "div_d": _guarded(operator.truediv),
    "mod_d": _guarded(math.fmod),
    "neg_d": _guarded(operator.neg),
    "abs_d": abs,
    "floor": lambda a: finite(float(math.floor(a))),
    "ceil": lambda a: finite(float(math.ceil(a))),
    "round": _rounded,
    "power": _guarded(math.pow),
    "sqrt": _guarded(math.sqrt),
    "ln": _guarded(math.log),
    "exp": _guarded(math.exp),
    "sin": _guarded(math.sin),
    "cos": _guarded(math.cos),
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "like": like,
    "concat": operator.add,
    "upper": str.upper,
    "lower": str.lower,
    "trim": lambda a: a.strip(" "),
    "substring": _substring,
    "split_part": _split_part,
    "replace": lambda a, old, new: a.replace(old, new) if old else a,
    "position": lambda a, part: a.find(part) + 1,
    "length": len,
    "double": float,
    "text_b": lambda a: "true" if a else "false",
    "text_l": str,
    "text_d": repr,
    "text_t": times.text_of,
    "long_s": _long_of_text,
    "long_d": _long_of_double,
    "long_b": int,
    "double_s": double_of_text,
    "boolean_s": _boolean_of_text,
    "time_s": times.time_of,
    "time_l": lambda a: a if times.LOWEST <= a <= times.HIGHEST else None,
    "long_t": lambda a: a,
    "extract": lambda field, a: times.field_of(field, a),
    "trunc": lambda unit, a: times.truncated(unit, a),
}


def compiled(expression: Expression) -> Compiled:
    """A function of a row that evaluates an expression."""
    name, *arguments = expression
    if name == "col":
        return operator.itemgetter(arguments[0])
    if name == "lit":
        value = arguments[1]
        return lambda row: value
    inner = [compiled(each) for each in arguments]
    if name in STRICT:
        return _strict(STRICT[name], inner)
    return _FORMS[name](inner)


def _strict(function: Callable[..., Value], inner: Sequence[Compiled]) -> Compiled:
    def evaluate(row: Row) -> Value:
        values = [each(row) for each in inner]
        return None if None in values else function(*values)

    return evaluate


def _and(inner: Sequence[Compiled]) -> Compiled:
    def evaluate(row: Row) -> Value:
        found: bool | None = True
        for each in inner:
            value = each(row)
            if value is False:
                return False
            found = None if value is None else found
        return found

    return evaluate


def _or(inner: Sequence[Compiled]) -> Compiled:
    def evaluate(row: Row) -> Value:
        found: bool | None = False
        for each in inner:
            value = each(row)
            if value is True:
                return True
            found = None if value is None else found
        return found

    return evaluate


def _not(inner: Sequence[Compiled]) -> Compiled:
    (one,) = inner
    return lambda row: None if (value := one(row)) is None else not value


def _case(inner: Sequence[Compiled]) -> Compiled:
    *pairs, default = inner

    def evaluate(row: Row) -> Value:
        for index in range(0, len(pairs), 2):
            if pairs[index](row) is True:
                return pairs[index + 1](row)
        return default(row)

    return evaluate


def _in(inner: Sequence[Compiled]) -> Compiled:
    one, *others = inner

    def evaluate(row: Row) -> Value:
        value = one(row)
        if value is None:
            return None
        found = [each(row) for each in others]
        return (
            True
            if value in [each for each in found if each is not None]
            else None
            if None in found
            else False
        )

    return evaluate


def _coalesce(inner: Sequence[Compiled]) -> Compiled:
    return lambda row: next((value for each in inner if (value := each(row)) is not None), None)


def _nullif(inner: Sequence[Compiled]) -> Compiled:
    one, other = inner

    def evaluate(row: Row) -> Value:
        value = one(row)
        return None if value is not None and value == other(row) else value

    return evaluate


def _extreme(choose: Callable[..., Value]) -> Callable[[Sequence[Compiled]], Compiled]:
    def form(inner: Sequence[Compiled]) -> Compiled:
        def evaluate(row: Row) -> Value:
            values = [value for each in inner if (value := each(row)) is not None]
            return choose(values) if values else None

        return evaluate

    return form


_FORMS: Mapping[str, Callable[[Sequence[Compiled]], Compiled]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "is_null": lambda inner: lambda row: inner[0](row) is None,
    "case": _case,
    "in": _in,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "greatest": _extreme(max),
    "least": _extreme(min),
}
