"""Binds a SELECT over a join of two tables: in windows, or with bounds of the time between two rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from speck.sql.distances import Distance, distance
from speck.sql.faults import SqlError
from speck.sql.functions import Bound
from speck.sql.program import Expression, Input, Join, Program, Windows, columns_in, renumbered
from speck.sql.scope import Faulty, Scope, Visible, has_aggregates
from speck.sql.selects import MOST_WINDOW_MS, Binder, Query, Rows, conjunction, input_of_table
from speck.sql.types import STEP_MS, TOPIC, WINDOW_COLUMNS, Column, Contract, Type

_FORM = (
    "expected ON with an equality of columns, and of window_start and window_end of both tables, or bounds "
    "of the time between two rows: b.time BETWEEN a.time AND a.time + INTERVAL '1' HOUR"
)
_BOUNDS = len(WINDOW_COLUMNS)


@dataclass
class _Side:
    """One table of a join: ``base`` is the number of its first column, a bound of its windows."""

    rows: Rows
    base: int
    where: list[Expression] = field(default_factory=list)
    keys: list[Bound] = field(default_factory=list)

    @property
    def table(self) -> Contract:
        return self.rows.table

    @property
    def width(self) -> int:
        """The number of columns, with the bounds of the windows and the topic."""
        return _BOUNDS + len(self.table.columns) + 1

    @property
    def time(self) -> int | None:
        """The number of the event time; ``None`` for a table without one."""
        names = [each.name for each in self.table.columns]
        event_time = self.table.event_time
        return None if event_time is None else self.base + _BOUNDS + names.index(event_time)

    def has(self, columns: set[int]) -> bool:
        """True if these are columns of this table, and none of them a bound of its windows."""
        first = self.base + _BOUNDS
        return bool(columns) and all(first <= each < self.base + self.width for each in columns)

    def scope(self) -> Iterator[Visible]:
        """The columns by the numbers that they have in the join."""
        bounds = {name: self.base + at for at, name in enumerate(WINDOW_COLUMNS)}
        for each in self.rows.scope.columns:
            kind, place = each.bound.expression
            number = bounds[place] if kind == "window" else self.base + _BOUNDS + place
            yield replace(each, bound=replace(each.bound, expression=("col", number)))

    def program(self, values: Sequence[int], windows: Windows) -> Program:
        """The rows of this table for the join: time, keys, and the columns of these numbers."""
        first = self.base + _BOUNDS
        columns = [("col", self.time), *(each.expression for each in self.keys)]
        columns += [("col", each) for each in values]
        where = conjunction(self.where)
        used = sorted(set().union(*map(columns_in, (*columns, where))))
        numbers = {number: at for at, number in enumerate(used)}
        types = [each.type or Type.STRING for each in self.keys]
        all_columns = (*self.table.columns, Column(TOPIC, Type.STRING, nullable=False))
        types += [all_columns[each - first].type for each in values]
        return Program(
            input=input_of_table(self.table, [each - first for each in used], timed=True),
            where=renumbered(where, numbers),
            columns=tuple(renumbered(each, numbers) for each in columns),
            windows=replace(windows, keys=tuple(types)),
            having=None,
            select=(),
            format="json",
            output=(),
        )


class JoinBinder(Binder):
    """Binds a query over a join."""

    def query(self, tree: exp.Select) -> Query:
        """The query; the columns behind the join are renumbered, since the used ones alone are kept."""
        left, right = self._sides(tree)
        scope = Scope((*left.scope(), *right.scope()))
        self._check_form(tree)
        conditions = _Conditions(left, right)
        for node in self._condition_nodes(tree):
            self._add(node, scope, conditions)
        columns = list(self._columns(tree, scope, None))
        output = self._output(columns)
        self._check_unused()
        windows, bounds = self._windows(tree, conditions, left, right)
        self._check_distinct(tree, [each.bound.expression for each in columns], left, right)
        if self.faults:
            raise SqlError(self.faults)
        select = tuple(each.bound.expression for each in columns)
        residual = conjunction(conditions.others)
        used = set().union(*map(columns_in, (*select, residual)))
        values = [sorted(each for each in used if side.has({each})) for side in (left, right)]
        numbers = _numbers(left, right, values)
        join = Join(
            (left.table.name, right.table.name),
            (left.program(values[0], windows), right.program(values[1], windows)),
            len(left.keys),
            bounds,
            tree.args.get("distinct") is not None,
        )
        program = Program(
            input=Input("json", (), ()),
            where=None,
            columns=(),
            windows=None,
            having=renumbered(residual, numbers),
            select=tuple(renumbered(each, numbers) for each in select),
            format=self.format,
            output=output,
            join=join,
        )
        return Query(program, (left.table, right.table))

    # --- FROM

    def _sides(self, tree: exp.Select) -> tuple[_Side, _Side]:
        joins = tree.args["joins"]
        kind = str(joins[0].args.get("kind") or "INNER").upper()
        if kind != "INNER" or joins[0].args.get("on") is None:
            raise SqlError([self.source.fault(f"the join has no key ({_FORM})", joins[0])])
        if len(joins) > 1:
            right = "expected a second job, which reads the topic of the first"
            raise SqlError([self.source.fault(f"the query has a second join ({right})", joins[1])])
        nodes = [tree.args["from_"].this, joins[0].this]
        for node in nodes:
            if isinstance(node, exp.Subquery):
                right = "expected a table, TUMBLE or HOP; another job can do what is before the join"
                raise SqlError([self.source.fault(f"a SELECT is joined ({right})", node)])
        left, right_rows = (self._from(node) for node in nodes)
        if left.table.name == right_rows.table.name:
            raise SqlError(
                [self.source.fault("a table is joined with itself (expected two tables)", nodes[1])]
            )
        one = _Side(left, 0)
        return one, _Side(right_rows, one.width)

    def _condition_nodes(self, tree: exp.Select) -> Iterator[exp.Expression]:
        join = tree.args["joins"][0]
        if (on := join.args.get("on")) is not None:
            yield on
        if (where := tree.args.get("where")) is not None:
            yield where.this

    def _add(self, node: exp.Expression, scope: Scope, conditions: _Conditions) -> None:
        """Bind the conditions that AND joins, each separately so that all their faults are found."""
        if isinstance(node, exp.And):
            self._add(node.this, scope, conditions)
            self._add(node.expression, scope, conditions)
        elif isinstance(node, exp.Paren):
            self._add(node.this, scope, conditions)
        elif isinstance(node, exp.EQ):
            try:
                conditions.add_equality(*self._expressions(scope, None).operands(node))
            except Faulty as error:
                self._fault(str(error), error.node)
        else:
            for each in self._conditions(node, scope):
                conditions.add(each)

    # --- checks

    def _check_form(self, tree: exp.Select) -> None:
        """Report an aggregation: the rows of a join are not aggregated in the same query."""
        right = "expected a second job, which reads the topic of the join"
        having = tree.args.get("having")
        for node in (tree.args.get("group"), having, *tree.expressions):
            if node is not None and (isinstance(node, exp.Group | exp.Having) or has_aggregates(node)):
                raise SqlError([self.source.fault(f"the rows of a join are aggregated ({right})", node)])
        if (rank := tree.find(exp.Window)) is not None:
            raise SqlError([self.source.fault(f"the rows of a join are ranked ({right})", rank)])

    def _check_distinct(
        self, tree: exp.Select, select: Sequence[Expression], left: _Side, right: _Side
    ) -> None:
        """Report DISTINCT without both bounds of the windows."""
        if tree.args.get("distinct") is None:
            return
        for at, name in enumerate(WINDOW_COLUMNS):
            bounds = {("col", left.base + at), ("col", right.base + at)}
            if left.rows.timed is None or not bounds & set(map(_reversible, select)):
                self._fault(f"SELECT DISTINCT has no {name} (expected both bounds of the windows)", tree)

    def _windows(
        self, tree: exp.Select, conditions: _Conditions, left: _Side, right: _Side
    ) -> tuple[Windows, tuple[int, int] | None]:
        """The windows without their columns, and the bounds of the time between two rows, if it has those."""
        join = tree.args["joins"][0]
        if not left.keys and not self.faults:
            self._fault(f"the join has no key ({_FORM})", join)
        if left.rows.timed is not None and left.rows.timed == right.rows.timed:
            if missing := [name for name in WINDOW_COLUMNS if name not in conditions.bounds]:
                self._fault(f"the join has no equality of {' and of '.join(missing)} ({_FORM})", join)
            if left.rows.timed.session:
                self._fault("rows are joined in sessions (expected TUMBLE or HOP: keys have their own)", join)
            return left.rows.timed, None
        steps = Windows(STEP_MS, STEP_MS, (), ())
        if left.rows.timed is not None or right.rows.timed is not None:
            self._fault("the windows of both tables differ (expected the same TUMBLE or HOP of both)", join)
            return steps, None
        for side in (left, right):
            self._check_timed(side.table, join)
        low, high = conditions.times.low, conditions.times.high
        if low is None or high is None:
            if not self.faults:
                self._fault(f"the time between the rows of the join has no bounds ({_FORM})", join)
        elif low > high:
            self._fault("no two rows are joined: the bounds of the time exclude each other", join)
        elif max(-low, high) > MOST_WINDOW_MS:
            self._fault("the time between the rows of the join is longer than 366 days", join)
        return steps, (low or 0, high or 0)


@dataclass
class _Conditions:
    """The conditions of a join, by what they are: of one table, equal keys, bounds of the time, or others."""

    left: _Side
    right: _Side
    bounds: set[str] = field(default_factory=set)
    times: Distance = field(default_factory=Distance)
    others: list[Expression] = field(default_factory=list)

    def add(self, condition: Expression) -> None:
        """Take a condition that has to hold."""
        if condition[0] == "and":
            for each in condition[1:]:
                self.add(each)
        elif (side := self._side_of(condition)) is not None:
            side.where.append(condition)
        elif not self._add_time(condition):
            self.others.append(condition)

    def add_equality(self, one: Bound, other: Bound) -> None:
        """Take two operands that have to be equal: keys of the join, if they are of both tables."""
        condition = ("eq", one.expression, other.expression)
        if self._add_bound(condition) or self._add_time(condition):
            return
        if self._side_of(one.expression) is self.right:
            one, other = other, one
        if (
            self._side_of(one.expression) is not self.left
            or self._side_of(other.expression) is not self.right
        ):
            self.add(condition)
            return
        for side, bound in ((self.left, one), (self.right, other)):
            side.keys.append(bound)
            if bound.nullable:
                side.where.append(("not", ("is_null", bound.expression)))

    def _side_of(self, expression: Expression) -> _Side | None:
        """The table whose columns alone are in an expression."""
        return next((each for each in (self.left, self.right) if each.has(columns_in(expression))), None)

    def _add_bound(self, condition: Expression) -> bool:
        for at, name in enumerate(WINDOW_COLUMNS):
            if {("col", self.left.base + at), ("col", self.right.base + at)} == set(condition[1:]):
                self.bounds.add(name)
                return True
        return False

    def _add_time(self, condition: Expression) -> bool:
        """Take a bound of the time between two rows, of a join without windows."""
        if None in (self.left.time, self.right.time) or self.left.rows.timed is not None:
            return False
        found = distance(condition, int(self.left.time or 0), int(self.right.time or 0))
        self.times = self.times if found is None else self.times.within(found)
        return found is not None


def _reversible(expression: Expression) -> Expression:
    """The innermost expression that can be computed back from this one."""
    moved = expression[0] in ("add_l", "sub_l") and expression[2][0] == "lit" and expression[2][2] is not None
    return _reversible(expression[1]) if expression[0] == "long_t" or moved else expression


def _numbers(left: _Side, right: _Side, values: Sequence[Sequence[int]]) -> dict[int, int]:
    """The numbers of the columns behind the join: bounds of the windows, then the rows of both tables."""
    numbers = {side.base + at: at for side in (left, right) for at in range(_BOUNDS)}
    place = _BOUNDS
    for side, columns in zip((left, right), values, strict=True):
        place += 1 + len(side.keys)  # behind the time and the keys
        numbers |= {number: place + at for at, number in enumerate(columns)}
        place += len(columns)
    return numbers
