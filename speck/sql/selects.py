"""Binds a SELECT over one table: columns found, types determined, all faults reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from speck.sql.expressions import RANKS, Expressions, table_of
from speck.sql.faults import SqlError, SqlFault
from speck.sql.functions import WINDOW_FUNCTIONS, Bound
from speck.sql.intervals import milliseconds
from speck.sql.parse import Text
from speck.sql.program import (
    TOPIC_POSITION,
    Expression,
    Input,
    Program,
    Rank,
    Windows,
    columns_in,
    renumbered,
)
from speck.sql.scope import Aggregates, Faulty, Scope, Visible
from speck.sql.types import TOPIC, WINDOW_COLUMNS, Column, Contract, Type

MOST_COLUMNS = 256
MOST_SLIDES = 1000
MOST_WINDOW_MS = 366 * 86_400_000
SESSION_STEP_MS = 1000  # in which the progress of inputs is sent, where windows are sessions
RANK_COLUMN = ("rank",)  # until the number of the columns before it is known


@dataclass(frozen=True)
class Query:
    """A bound query: its program, and the tables that it reads."""

    program: Program
    tables: tuple[Contract, ...]

    @property
    def table(self) -> Contract:
        """The first table."""
        return self.tables[0]


@dataclass(frozen=True)
class Rows:
    """The result of a FROM: conditions on the rows, the visible columns, and the windows if there are any.

    ``timed`` are windows that are not aggregated yet.  ``windows`` are aggregated ones,
    whose ``inner`` are the expressions before them, and ``inner_where`` the conditions; ``keep`` are the
    conditions behind a ``rank``.
    """

    table: Contract
    scope: Scope
    where: tuple[Expression, ...] = ()
    timed: Windows | None = None
    windows: Windows | None = None
    inner: tuple[Expression, ...] = ()
    inner_where: tuple[Expression, ...] = ()
    rank: Rank | None = None
    keep: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class _Named:
    """A column of a SELECT."""

    name: str
    bound: Bound
    node: exp.Expression


@dataclass
class Binder:
    """Binds one query; ``faults`` are those found so far."""

    source: Text
    tables: Mapping[str, Contract]
    arguments: Mapping[str, Any]
    format: str
    faults: list[SqlFault] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    ranks: list[Rank] = field(default_factory=list)

    def query(self, tree: exp.Select) -> Query:
        rows, columns = self._select(tree)
        self._check_unused()
        output = self._output(columns)
        self._check_rank(tree, rows)
        if self.faults:
            raise SqlError(self.faults)
        return Query(_program(rows, columns, output, self.format), (rows.table,))

    def _check_unused(self) -> None:
        for name in self.arguments.keys() - self.used if not self.faults else ():
            self.faults.append(SqlFault(f"argument {name!r} is not used (expected :{name} in the query)"))

    def _check_rank(self, tree: exp.Select, rows: Rows) -> None:
        """Report a rank without windows, and a row number whose order does not decide between two rows."""
        if self.ranks and rows.windows is None:
            right = "expected it behind an aggregation in TUMBLE or HOP"
            self._fault(
                f"{self.ranks[0].kind.upper()} is not of the rows of a window ({right})",
                tree.find(exp.Window),
            )
        if rows.rank is not None and rows.windows is not None and rows.windows.session:
            right = "expected TUMBLE or HOP: keys have sessions of their own"
            kind = rows.rank.kind.upper()
            self._fault(f"{kind} is of the rows of a session ({right})", tree.find(exp.Window))
        if rows.rank is None or rows.rank.kind != "row_number" or rows.windows is None:
            return
        keys = {("col", len(WINDOW_COLUMNS) + at) for at in range(len(rows.windows.keys))}
        if not keys <= {*rows.rank.partition, *(by for by, _, _ in rows.rank.order)}:
            right = "expected all keys of GROUP BY in its ORDER BY, or RANK"
            self._fault(
                f"the order of ROW_NUMBER leaves rows without a place of their own ({right})",
                tree.find(exp.Window),
            )

    def _fault(self, message: str, node: exp.Expression | None) -> None:
        self.faults.append(self.source.fault(message, node))

    # --- SELECT

    def _select(self, tree: exp.Select) -> tuple[Rows, list[_Named]]:
        if (origin := tree.args.get("from_")) is None:
            raise SqlError([self.source.fault("FROM is missing (expected a table of 'topics:')", tree)])
        if joins := tree.args.get("joins"):
            right = "expected it in the outermost SELECT, or a second job, which reads the topic of the join"
            raise SqlError([self.source.fault(f"a join is inside of FROM (SELECT ...) ({right})", joins[0])])
        rows = self._from(origin.this)
        where = tree.args.get("where")
        if where is not None:
            conditions = tuple(self._conditions(where.this, rows.scope))
            if rows.rank is None:
                rows = replace(rows, where=(*rows.where, *conditions))
            else:
                rows = replace(rows, keep=(*rows.keep, *conditions))
        grouped = tree.args.get("group") or tree.args.get("distinct") or any(_aggregates(tree))
        if grouped or tree.args.get("having") is not None:
            return self._grouped(tree, rows)
        if rows.timed is not None:
            self._fault(
                "rows in windows are not aggregated (expected GROUP BY window_start, window_end, or FROM "
                "with the table alone)",
                origin,
            )
        columns = list(self._columns(tree, rows.scope, None))
        return self._with_rank(rows), columns

    def _with_rank(self, rows: Rows) -> Rows:
        """The rows with the rank that their SELECT has, if it has one."""
        return rows if not self.ranks or rows.windows is None else replace(rows, rank=self.ranks[0])

    def _conditions(
        self, node: exp.Expression, scope: Scope, aggregates: Aggregates | None = None
    ) -> Iterator[Expression]:
        """The conditions that AND joins, each bound separately so that all their faults are found."""
        if isinstance(node, exp.And):
            yield from self._conditions(node.this, scope, aggregates)
            yield from self._conditions(node.expression, scope, aggregates)
        elif (bound := self._bound(node, scope, aggregates)) is not None:
            if bound.type not in (Type.BOOLEAN, None):
                self._fault(f"the condition is of type {bound.type} (expected boolean)", node)
            yield bound.expression

    def _bound(
        self, node: exp.Expression, scope: Scope, aggregates: Aggregates | None = None
    ) -> Bound | None:
        """A bound expression; ``None`` for one with a fault, which is recorded."""
        try:
            return self._expressions(scope, aggregates).bind(node)
        except Faulty as error:
            self._fault(str(error), error.node)
            return None

    def _expressions(self, scope: Scope, aggregates: Aggregates | None) -> Expressions:
        return Expressions(scope, self.arguments, self.used, aggregates)

    def _columns(self, tree: exp.Select, scope: Scope, aggregates: Aggregates | None) -> Iterator[_Named]:
        for node in tree.expressions:
            star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
            if isinstance(star, exp.Star):
                yield from self._all_columns(node, scope, aggregates)
                continue
            name = node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else ""
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Window) and type(inner.this).__name__ in RANKS:
                bound = self._rank(inner, scope, aggregates)
            else:
                bound = self._bound(inner, scope, aggregates)
            if bound is not None:
                yield _Named(name, bound, node)

    def _rank(self, node: exp.Window, scope: Scope, aggregates: Aggregates | None) -> Bound | None:
        """The column of a rank; ``None`` with a fault, which is recorded."""
        if self.ranks:
            self._fault("a second rank in a query (expected a second job, which reads the first)", node)
            return None
        order = node.args.get("order")
        ordered = list(order.expressions) if order is not None else []
        partition = [self._bound(each, scope, aggregates) for each in node.args.get("partition_by") or ()]
        by = [self._bound(each.this, scope, aggregates) for each in ordered]
        if None in partition or None in by:
            return None
        places = [each.expression for each in partition if each is not None]
        rank = Rank(
            RANKS[type(node.this).__name__].lower(),
            tuple(places),
            tuple(
                (each.expression, bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
                for each, one in zip(by, ordered, strict=True)
                if each is not None
            ),
        )
        self.ranks.append(rank)
        if not rank.order:
            self._fault(f"{rank.kind.upper()} has no ORDER BY (expected one in OVER)", node)
        if not {("col", 0), ("col", 1)} <= set(places):
            right = "expected PARTITION BY window_start, window_end, behind GROUP BY"
            self._fault(f"{rank.kind.upper()} is not of the rows of a window ({right})", node)
        return Bound(RANK_COLUMN, Type.BIGINT, False)

    def _all_columns(
        self, node: exp.Expression, scope: Scope, aggregates: Aggregates | None
    ) -> Iterator[_Named]:
        if aggregates is not None:
            self._fault("* does not fit an aggregation (expected its columns by name)", node)
            return
        try:
            qualifier = table_of(node, scope)
        except Faulty as error:
            self._fault(str(error), error.node)
            return
        for each in scope.columns:
            if not each.hidden and qualifier in (None, each.qualifier):
                yield _Named(each.name, each.bound, node)

    # --- FROM

    def _from(self, node: exp.Expression) -> Rows:
        alias = node.alias.lower()
        if isinstance(node, exp.Subquery):
            rows, columns = self._select(node.this)
            self._check_names(columns)
            visible = tuple(Visible(each.name, each.bound, qualifier=alias) for each in columns)
            return replace(rows, scope=Scope(visible))
        if isinstance(node.this, exp.Anonymous):
            return self._windowed(node.this, alias)
        table = self._table(node.this, node.name)
        return Rows(table, _scope_of(table, alias or table.name))

    def _table(self, node: exp.Expression, name: str) -> Contract:
        if (found := self.tables.get(name.lower())) is not None:
            return found
        near = get_close_matches(name.lower(), self.tables, n=1)
        known = (
            f"the tables are {', '.join(sorted(self.tables))}"
            if self.tables
            else "expected one with a schema under 'topics:'"
        )
        right = f"did you mean {near[0]!r}?" if near else known
        raise SqlError([*self.faults, self.source.fault(f"table {name!r} is not known ({right})", node)])

    def _windowed(self, node: exp.Anonymous, alias: str) -> Rows:
        name = node.name.lower()
        if name not in WINDOW_FUNCTIONS:
            right = "expected a table, or TUMBLE, HOP or SESSION of a table"
            raise SqlError([self.source.fault(f"the function {node.name} gives no rows ({right})", node)])
        form = f"expected {_FORMS[name]}"
        given = list(node.expressions)
        if len(given) != (4 if name == "hop" else 3) or not all(
            isinstance(each, exp.Column) and not each.table for each in given[:2]
        ):
            raise SqlError([self.source.fault(f"{name.upper()} does not have this form ({form})", node)])
        table = self._table(given[0], given[0].name)
        self._check_time(table, given[1])
        sizes = [self._length(each, form) for each in given[2:]]
        slide, size = sizes[0], sizes[-1]
        windows = Windows(size, slide, (), ())
        if name == "session":
            windows = replace(windows, slide_ms=min(size, SESSION_STEP_MS), session=True)
        elif slide and size:
            self._check_slides(slide, size, node)
        qualifier = alias or table.name
        bounds = tuple(
            Visible(each, Bound(("window", each), Type.TIMESTAMP, False), qualifier=qualifier)
            for each in WINDOW_COLUMNS
        )
        scope = _scope_of(table, qualifier)
        return Rows(table, Scope((*bounds, *scope.columns)), timed=windows)

    def _check_time(self, table: Contract, node: exp.Expression) -> None:
        column = table.column(node.name)
        if self._check_timed(table, node) and (column is None or column.name != table.event_time):
            right = f"expected {table.event_time!r}, the event_time of table {table.name!r}"
            self._fault(f"windows are over the column {node.name!r} ({right})", node)

    def _check_timed(self, table: Contract, node: exp.Expression) -> bool:
        """True if a table has an event time and a watermark; another one is reported."""
        if table.event_time is not None and table.watermark_ms is not None:
            return True
        missing = "event_time" if table.event_time is None else "watermark"
        self._fault(f"table {table.name!r} has no {missing} (expected it under 'topics:')", node)
        return False

    def _length(self, node: exp.Expression, form: str) -> int:
        length = milliseconds(node) if isinstance(node, exp.Interval) else None
        if length is None or not 0 < length <= MOST_WINDOW_MS:
            self._fault(f"a window has no such length ({form}, up to 366 days)", node)
            return 0
        return length

    def _check_slides(self, slide: int, size: int, node: exp.Expression) -> None:
        if size % slide:
            self._fault("the size of the windows is not a multiple of their slide", node)
        elif size // slide > MOST_SLIDES:
            self._fault(f"a window has {size // slide:,} slides (expected at most {MOST_SLIDES:,})", node)

    # --- GROUP BY

    def _grouped(self, tree: exp.Select, rows: Rows) -> tuple[Rows, list[_Named]]:
        node = tree.args.get("group") or tree
        if rows.windows is not None:
            right = "expected a second job, which reads the topic of the first"
            raise SqlError(
                [*self.faults, self.source.fault(f"a second aggregation in a query ({right})", node)]
            )
        if rows.timed is None:
            right = "expected FROM TUMBLE(table, time, size), HOP(table, time, slide, size) or SESSION(...)"
            message = f"an aggregation without windows would never end ({right})"
            raise SqlError([*self.faults, self.source.fault(message, node)])
        aggregates = Aggregates(self._keys(tree, rows), rows.scope)
        columns = list(self._columns(tree, rows.scope, aggregates))
        self._check_distinct_groups(tree, rows.timed, aggregates, columns)
        having = tree.args.get("having")
        conditions = () if having is None else tuple(self._conditions(having.this, rows.scope, aggregates))
        time = rows.scope.find(str(rows.table.event_time))
        inner = (
            time.bound.expression if time is not None else ("col", 0),
            *aggregates.keys,
            *(each.argument for each in aggregates.merges),
        )
        if rows.timed.session and not aggregates.keys:
            right = "expected another column in GROUP BY: sessions are those of a key"
            self._fault(f"the sessions have no key ({right})", node)
        windows = replace(
            rows.timed,
            keys=tuple(aggregates.key_types),
            merges=tuple(each.merge for each in aggregates.merges),
        )
        found = Rows(rows.table, rows.scope, conditions, None, windows, inner, rows.where)
        return self._with_rank(found), columns

    def _check_distinct_groups(
        self, tree: exp.Select, windows: Windows, aggregates: Aggregates, columns: Sequence[_Named]
    ) -> None:
        """Report DISTINCT beside GROUP BY, unless a window and the keys are among the columns."""
        if tree.args.get("group") is None or tree.args.get("distinct") is None:
            return
        found = {each.bound.expression for each in columns}
        bounds = [("col", at) in found for at in range(len(WINDOW_COLUMNS))]
        keys = {("col", len(bounds) + at) for at in range(len(aggregates.keys))}
        if not keys <= found or not (all(bounds) if windows.session else any(bounds)):
            right = "expected GROUP BY without it, or all of its columns in SELECT"
            self._fault(f"DISTINCT of groups is not supported ({right})", tree)

    def _keys(self, tree: exp.Select, rows: Rows) -> list[Bound]:
        group = tree.args.get("group")
        distinct = group is None and tree.args.get("distinct") is not None
        nodes = tree.expressions if distinct else group.expressions if group is not None else []
        aliases = {each.alias.lower(): each.this for each in tree.expressions if isinstance(each, exp.Alias)}
        keys = [
            bound
            for each in nodes
            if (bound := self._key(_meant(each, rows.scope, aliases), rows)) is not None
        ]
        bounds = {each.expression[1] for each in keys if each.expression[0] == "window"}
        if missing := [each for each in WINDOW_COLUMNS if each not in bounds]:
            where = "SELECT DISTINCT" if distinct else "GROUP BY"
            self._fault(f"{where} has no {' and no '.join(missing)} (expected both)", group or tree)
        return list({each.expression: each for each in keys}.values())

    def _key(self, node: exp.Expression, rows: Rows) -> Bound | None:
        try:
            return self._expressions(rows.scope, None).key(node)
        except Faulty as error:
            self._fault(str(error), error.node)
            return None

    # --- the output

    def _output(self, columns: Sequence[_Named]) -> tuple[Column, ...]:
        self._check_names(columns)
        if len(columns) > MOST_COLUMNS:
            self.faults.append(SqlFault(f"the query has {len(columns)} columns (at most {MOST_COLUMNS})"))
        return tuple(
            Column(each.name, each.bound.type or Type.STRING, each.bound.nullable) for each in columns
        )

    def _check_names(self, columns: Sequence[_Named]) -> None:
        seen = set[str]()
        for each in columns:
            if not each.name:
                self._fault("a column has no name (expected AS name)", each.node)
            elif each.name.lower() in seen:
                self._fault(f"column {each.name!r} is given twice (expected AS with another name)", each.node)
            elif each.bound.type is None:
                self._fault(f"column {each.name!r} is always NULL, of no type (expected a CAST)", each.node)
            seen.add(each.name.lower())


_FORMS = {
    "tumble": "TUMBLE(table, time, INTERVAL '10' SECOND)",
    "hop": "HOP(table, time, INTERVAL '2' SECOND, INTERVAL '10' SECOND): slide, then size",
    "session": "SESSION(table, time, INTERVAL '10' SECOND): the gap that ends a session",
}


def _aggregates(tree: exp.Select) -> Iterator[exp.Expression]:
    """The aggregate functions of a SELECT, without those of a SELECT in its FROM."""
    for each in (*tree.expressions, tree.args.get("having")):
        if each is not None:
            yield from each.find_all(exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)


def _meant(node: exp.Expression, scope: Scope, aliases: Mapping[str, exp.Expression]) -> exp.Expression:
    """The expression of a GROUP BY entry: the name of an output column stands for its expression."""
    if isinstance(node, exp.Alias):
        return node.this  # type: ignore[no-any-return]
    if isinstance(node, exp.Column) and not node.table and scope.find(node.name) is None:
        return aliases.get(node.name.lower(), node)
    return node


def _scope_of(table: Contract, qualifier: str) -> Scope:
    name = qualifier.lower()
    columns = [
        Visible(each.name, Bound(("col", index), each.type, each.nullable), qualifier=name)
        for index, each in enumerate(table.columns)
    ]
    topic = Visible(TOPIC, Bound(("col", len(columns)), Type.STRING, False), hidden=True, qualifier=name)
    own = [] if table.column(TOPIC) is not None else [topic]
    return Scope((*columns, *own))


def _program(rows: Rows, columns: Sequence[_Named], output: tuple[Column, ...], format: str) -> Program:
    """The program, whose input has the columns that are used, in their order in the table."""
    width = len(WINDOW_COLUMNS) + len(rows.windows.keys) + len(rows.windows.merges) if rows.windows else 0
    select = tuple(_with_place(each.bound.expression, width) for each in columns)
    first, where = (rows.inner, rows.inner_where) if rows.windows else (select, rows.where)
    condition = conjunction(where)
    used = sorted(set().union(*map(columns_in, (*first, condition))))
    numbers = {index: number for number, index in enumerate(used)}
    return Program(
        input=input_of_table(rows.table, used, timed=rows.windows is not None),
        where=renumbered(condition, numbers),
        columns=tuple(renumbered(each, numbers) for each in first),
        windows=rows.windows,
        having=conjunction(rows.where) if rows.windows else None,
        select=select if rows.windows else (),
        format=format,
        output=output,
        rank=rows.rank,
        keep=conjunction([_with_place(each, width) for each in rows.keep]),
    )


def input_of_table(table: Contract, used: Sequence[int], *, timed: bool) -> Input:
    """The columns of these indexes of a table, whose last one is the topic; ``timed``: with the watermark."""
    columns = (*table.columns, Column(TOPIC, Type.STRING, nullable=False))
    topic, csv = len(table.columns), table.format == "csv"
    positions = tuple(TOPIC_POSITION if each == topic else each if csv else 0 for each in used)
    read = tuple(columns[each] for each in used)
    return Input(table.format, read, positions, table.watermark_ms if timed else None)


def _with_place(expression: Any, width: int) -> Any:
    """An expression with the rank as the column behind the others."""
    if expression == RANK_COLUMN:
        return ("col", width)
    if not isinstance(expression, tuple) or expression[0] in ("lit", "col"):
        return expression
    return (expression[0], *(_with_place(each, width) for each in expression[1:]))


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """The conditions as one, in an order that does not depend on the text."""
    ordered = sorted(dict.fromkeys(conditions), key=repr)
    return None if not ordered else ordered[0] if len(ordered) == 1 else ("and", *ordered)
