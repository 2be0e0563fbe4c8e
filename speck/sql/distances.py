"""Bounds of the time between two rows, as conditions on their event times give them."""

from __future__ import annotations

from dataclasses import dataclass

from speck.sql.program import Expression

_MIRRORED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq"}


@dataclass(frozen=True)
class Distance:
    """The least and the greatest time (ms) by which a second row may be later than a first one."""

    low: int | None = None
    high: int | None = None

    def within(self, other: Distance) -> Distance:
        """The bounds that both give."""
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Distance(max(lows, default=None), min(highs, default=None))


def distance(condition: Expression, first: int, second: int) -> Distance | None:
    """The bound that a condition gives for the times of two rows, the columns ``first`` and ``second``.

    ``None`` for a condition of another form: it has a time on both sides, each perhaps with an interval.
    """
    if (operator := condition[0]) not in _MIRRORED:
        return None
    one, other = (_moved(each) for each in condition[1:])
    if one is None or other is None or {one[0], other[0]} != {first, second}:
        return None
    if one[0] == first:
        one, other, operator = other, one, _MIRRORED[operator]
    # second + one[1] OPERATOR first + other[1]
    limit = other[1] - one[1]
    return {
        "ge": Distance(low=limit),
        "gt": Distance(low=limit + 1),
        "le": Distance(high=limit),
        "lt": Distance(high=limit - 1),
        "eq": Distance(limit, limit),
    }[operator]


def _moved(expression: Expression) -> tuple[int, int] | None:
    """A column and the constant (ms) that is added to it."""
    if expression[0] == "col":
        return expression[1], 0
    if expression[0] != "time_l" or expression[1][0] not in ("add_l", "sub_l"):
        return None
    operator, time, (_, _, length) = expression[1]
    inner = _moved(time)
    return None if inner is None else (inner[0], inner[1] + (length if operator == "add_l" else -length))
