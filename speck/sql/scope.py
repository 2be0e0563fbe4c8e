"""The columns that the expressions of a SELECT may name, and the aggregation behind which they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from speck.sql.functions import Bound, widened
from speck.sql.program import Expression, Merge
from speck.sql.types import WINDOW_COLUMNS, Type


class Faulty(Exception):
    """The fault of an expression, at a node."""

    def __init__(self, message: str, node: exp.Expression) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True)
class Visible:
    """A column that expressions may name; a ``hidden`` one is no part of ``*``.

    ``qualifier`` is the name before the point in ``name.column``.
    """

    name: str
    bound: Bound
    hidden: bool = False
    qualifier: str = ""


@dataclass(frozen=True)
class Scope:
    """The columns of a FROM."""

    columns: tuple[Visible, ...]

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The names before the point in ``name.column``."""
        return tuple(dict.fromkeys(each.qualifier for each in self.columns if each.qualifier))

    def find(self, name: str) -> Visible | None:
        """The first column of a name, without regard to case."""
        return next(iter(self.named(name)), None)

    def named(self, name: str, qualifier: str | None = None) -> list[Visible]:
        """The columns of a name, without regard to case; with a qualifier those of one table."""
        return [
            each
            for each in self.columns
            if each.name.lower() == name.lower() and qualifier in (None, each.qualifier)
        ]


@dataclass(frozen=True)
class Merged:
    """An aggregate function and its argument."""

    merge: Merge
    argument: Expression


class Aggregates:
    """The keys and the aggregate functions of a GROUP BY; rows behind it are bounds, keys, merged values."""

    def __init__(self, keys: Sequence[Bound], scope: Scope) -> None:
        own = [each for each in keys if each.expression[0] != "window"]
        self.scope = scope
        self.keys = [each.expression for each in own]
        self.key_types = [each.type or Type.STRING for each in own]
        self.merges: list[Merged] = []
        bounds = {("window", name): index for index, name in enumerate(WINDOW_COLUMNS)}
        self._places = bounds | {each: index + len(bounds) for index, each in enumerate(self.keys)}

    def key(self, bound: Bound) -> Bound | None:
        """A key behind the aggregation; ``None`` for another expression."""
        place = self._places.get(bound.expression)
        return None if place is None else Bound(("col", place), bound.type, bound.nullable)

    def merged(self, kind: str, argument: Expression, type: Type) -> Expression:
        """The column with the result of an aggregate function."""
        merged = Merged(Merge(kind, type), argument)
        if merged not in self.merges:
            self.merges.append(merged)
        return ("col", len(WINDOW_COLUMNS) + len(self.keys) + self.merges.index(merged))


def has_aggregates(node: exp.Expression) -> bool:
    """True if an expression contains an aggregate function."""
    return any(node.find_all(exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg))


def aggregated(aggregates: Aggregates, kind: str, argument: Bound, node: exp.Expression) -> Bound:
    """The result of an aggregate function, over the merges that there are: COUNT, SUM, MIN and MAX.

    Raises :class:`Faulty`.
    """
    if kind == "count":
        return Bound(_counted(aggregates, argument), Type.BIGINT, False)
    if argument.type is None or (kind in ("sum", "avg") and not argument.type.numeric):
        raise Faulty(f"{kind.upper()} does not take {argument.shown_type} (expected a number)", node)
    if kind == "avg":
        total = widened(argument, Type.DOUBLE) or argument
        summed = aggregates.merged("sum", total.expression, Type.DOUBLE)
        return Bound(("div_d", summed, ("double", _counted(aggregates, argument))), Type.DOUBLE)
    type = Type.BIGINT if argument.type is Type.INT and kind == "sum" else argument.type
    nullable = argument.nullable or type is Type.DOUBLE
    return Bound(aggregates.merged(kind, argument.expression, type), type, nullable)


def _counted(aggregates: Aggregates, argument: Bound) -> Expression:
    """The count of the values that are not NULL."""
    if not argument.nullable:
        return aggregates.merged("count", ("lit", "bigint", 1), Type.BIGINT)
    return aggregates.merged("count", argument.expression, argument.type or Type.STRING)


def filtered(argument: Bound, condition: Bound | None) -> Bound:
    """The argument of an aggregate function with FILTER: NULL where the condition does not hold."""
    if condition is None:
        return argument
    null = ("lit", str(argument.type or Type.STRING), None)
    return Bound(("case", condition.expression, argument.expression, null), argument.type)
