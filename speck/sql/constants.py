"""Constants in expressions: numbers, texts, timestamps, and the names of types."""

from __future__ import annotations

from sqlglot import exp

from speck.sql import times
from speck.sql.functions import Bound
from speck.sql.operators import HIGHEST, LOWEST, double_of_text
from speck.sql.scope import Faulty
from speck.sql.types import NAMES, Type


def text_constant(text: str) -> Bound:
    """A text."""
    return Bound(("lit", "string", text), Type.STRING, False)


def number_constant(text: str, node: exp.Expression) -> Bound:
    """The value of a number as it is written.  Raises :class:`~speck.sql.scope.Faulty`."""
    if text.lstrip("-").isdecimal():
        if LOWEST <= (number := int(text)) <= HIGHEST:
            return Bound(("lit", "bigint", number), Type.BIGINT, False)
    elif (double := double_of_text(text)) is not None:
        return Bound(("lit", "double", double), Type.DOUBLE, False)
    raise Faulty(f"{text[:40]} is not a 64-bit number", node)


def timed(values: list[Bound], node: exp.Expression) -> list[Bound]:
    """The values, constant texts among them as timestamps if another one is a timestamp.

    Raises :class:`~speck.sql.scope.Faulty`.
    """
    if not any(each.type is Type.TIMESTAMP for each in values):
        return values
    return [_time(each, node) if _is_text(each) else each for each in values]


def _is_text(bound: Bound) -> bool:
    return bound.type is Type.STRING and bound.expression[0] == "lit"


def _time(bound: Bound, node: exp.Expression) -> Bound:
    if (time := times.time_of(str(bound.expression[2]))) is None:
        right = "expected a text such as '2026-01-31T12:00:00Z'"
        raise Faulty(f"{bound.expression[2]!r} is not a timestamp ({right})", node)
    return Bound(("lit", "timestamp", time), Type.TIMESTAMP, False)


def time_constant(node: exp.Expression, to: Type) -> Bound | None:
    """A constant timestamp, as ``TIMESTAMP '2026-01-31'``."""
    literal = node.this
    if to is not Type.TIMESTAMP or not isinstance(literal, exp.Literal) or not literal.args["is_string"]:
        return None
    return _time(text_constant(literal.name), node)


def cast_type(node: exp.Expression) -> Type:
    """The type that a cast names.  Raises :class:`~speck.sql.scope.Faulty`."""
    name = node.args["to"].this.value.lower()
    if (found := NAMES.get(name)) is None:
        raise Faulty(f"the type {name.upper()} is not supported (expected {', '.join(Type)})", node)
    return found
