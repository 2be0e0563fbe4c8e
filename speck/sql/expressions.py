"""Binds expressions: columns to their places, functions to operators, each with its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from speck.sql import times
from speck.sql.constants import cast_type, number_constant, text_constant, time_constant, timed
from speck.sql.functions import (
    AGGREGATES,
    CASTS,
    FUNCTIONS,
    INSTEAD,
    OWN_FUNCTION,
    SAME_TYPE,
    TRY_CASTS,
    Bound,
    applied,
    common_type,
    signatures_of,
    unified,
    widened,
)
from speck.sql.intervals import INTERVAL_UNITS, milliseconds
from speck.sql.operators import MOST_DIGITS
from speck.sql.program import Expression
from speck.sql.scope import Aggregates, Faulty, Scope, Visible, aggregated, filtered, has_aggregates
from speck.sql.types import Type

_COMPARED = {"EQ": "eq", "NEQ": "ne", "LT": "lt", "LTE": "le", "GT": "gt", "GTE": "ge"}
_SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "Pow": "power", "DPipe": "||"}
# The functions that sqlglot has classes for, with the order of their arguments.
_CALLS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Neg": ("negative", ("this",)),
    **{name.capitalize(): (name, ("this",)) for name in ("abs", "floor", "ceil", "sqrt", "ln", "exp")},
    **{name.capitalize(): (name, ("this",)) for name in ("sin", "cos", "upper", "lower", "trim", "length")},
    "Round": ("round", ("this", "decimals")),
    "Substring": ("substring", ("this", "start", "length")),
    "SplitPart": ("split_part", ("this", "delimiter", "part_index")),
    "Replace": ("replace", ("this", "expression", "replacement")),
    "StrPosition": ("position", ("this", "substr")),
}
_SAME = {"Coalesce": "coalesce", "Nullif": "nullif", "Greatest": "greatest", "Least": "least"}
RANKS = {"Rank": "RANK", "RowNumber": "ROW_NUMBER"}  # by the classes of sqlglot
_MERGES = {"Count": "count", "Sum": "sum", "Min": "min", "Max": "max", "Avg": "avg"}


@dataclass
class Expressions:
    """Binds the expressions of one SELECT.  Each method raises :class:`Faulty`.

    ``arguments`` are the values of ``:name``, of which the ``used`` ones are recorded.  With ``aggregates``
    expressions are over the rows behind a GROUP BY.
    """

    scope: Scope
    arguments: Mapping[str, Any]
    used: set[str]
    aggregates: Aggregates | None = None
    inner: Expressions | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.aggregates is not None:
            self.inner = Expressions(self.scope, self.arguments, self.used)

    def bind(self, node: exp.Expression) -> Bound:
        """An expression, over the columns of the scope or behind the aggregation."""
        name = type(node).__name__
        if name in _MERGES or name == "Filter":
            return self._merged(node)
        if (key := self._key(node)) is not None:
            return key
        if name in _COMPARED:
            return self._compared(_COMPARED[name], node, node.this, node.expression)
        if name in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[name], node)
        if name in _CALLS:
            function, parts = _CALLS[name]
            given = [node.args[each] for each in parts if node.args.get(each) is not None]
            return self._call(function, node, given)
        if name in _SAME:
            return self._same(_SAME[name], node)
        if name in ("And", "Or"):
            return self._joined(node)
        if (form := self._others.get(name)) is None:
            raise Faulty(_MISPLACED.get(name, "this does not fit in an expression"), node)
        return form(self, node)

    def _key(self, node: exp.Expression) -> Bound | None:
        """The key of the aggregation that an expression is, if it is one."""
        if self.aggregates is None or self.inner is None or has_aggregates(node):
            return None
        try:
            return self.aggregates.key(self.inner.key(node))
        except Faulty:
            return None

    def key(self, node: exp.Expression) -> Bound:
        """An expression of GROUP BY, which may be a bound of the windows."""
        if isinstance(node, exp.Column) and (found := self._visible(node)).bound.expression[0] == "window":
            return found.bound
        return self.bind(node)

    def operands(self, node: exp.Expression) -> list[Bound]:
        """The operands of an equality, as of one type."""
        return self._comparable(self.bind(node.this), self.bind(node.expression), "=", node)

    # --- names and values

    def _column(self, node: exp.Expression) -> Bound:
        found = self._visible(node)
        if self.aggregates is not None:
            right = "expected it in GROUP BY, or in COUNT, SUM, MIN, MAX or AVG"
            raise Faulty(f"column {node.name!r} has several values in a group ({right})", node)
        if found.bound.expression[0] == "window":
            right = "expected it in GROUP BY, SELECT or HAVING"
            raise Faulty(f"{node.name!r} is known only after the aggregation ({right})", node)
        return found.bound

    def _visible(self, node: exp.Expression) -> Visible:
        qualifier = table_of(node, self.scope)
        if isinstance(node.this, exp.Star):
            raise Faulty("* does not fit here (expected an expression)", node)
        found = self.scope.named(node.name, qualifier)
        if not found:
            columns = [each for each in self.scope.columns if qualifier in (None, each.qualifier)]
            names = list(dict.fromkeys(each.name for each in columns))
            near = get_close_matches(node.name, names, n=1)
            right = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise Faulty(f"column {node.name!r} is not known ({right})", node)
        if len(found) > 1:
            right = " or ".join(f"{each.qualifier}.{each.name}" for each in found)
            raise Faulty(f"column {node.name!r} is in both tables (expected {right})", node)
        return found[0]

    def _literal(self, node: exp.Expression) -> Bound:
        text = node.name
        if node.args["is_string"]:
            return text_constant(text)
        return number_constant(text, node)

    def _boolean(self, node: exp.Expression) -> Bound:
        return Bound(("lit", "boolean", bool(node.this)), Type.BOOLEAN, False)

    def _null(self, node: exp.Expression) -> Bound:
        return Bound(("lit", "string", None), None)

    def _placeholder(self, node: exp.Expression) -> Bound:
        name = str(node.this or "")
        self.used.add(name)
        if name not in self.arguments:
            known = ", ".join(self.arguments) or "none"
            raise Faulty(f":{name} has no value (expected arguments: {{{name}: ...}}; given: {known})", node)
        value = self.arguments[name]
        if isinstance(value, bool):
            return Bound(("lit", "boolean", value), Type.BOOLEAN, False)
        if isinstance(value, int):
            return number_constant(str(value), node)
        if isinstance(value, float):
            return Bound(("lit", "double", value + 0.0), Type.DOUBLE, False)
        return text_constant(str(value))

    def _paren(self, node: exp.Expression) -> Bound:
        return self.bind(node.this)

    def _interval(self, node: exp.Expression) -> Bound:
        raise Faulty("an interval fits + and - of a timestamp, and the lengths of windows", node)

    # --- logic

    def _joined(self, node: exp.Expression) -> Bound:
        kind = type(node)
        operands = [self._condition(each) for each in _flat(node, kind)]
        expression = (kind.__name__.lower(), *(each.expression for each in operands))
        return Bound(expression, Type.BOOLEAN, any(each.nullable for each in operands))

    def _condition(self, node: exp.Expression) -> Bound:
        bound = self.bind(node)
        if bound.type not in (Type.BOOLEAN, None):
            raise Faulty(f"the condition is of type {bound.type} (expected boolean)", node)
        return bound

    def _not(self, node: exp.Expression) -> Bound:
        bound = self._condition(node.this)
        return Bound(("not", bound.expression), Type.BOOLEAN, bound.nullable)

    def _is(self, node: exp.Expression) -> Bound:
        bound = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            found: Expression = ("is_null", bound.expression)
        elif isinstance(node.expression, exp.Boolean) and bound.type in (Type.BOOLEAN, None):
            sought = ("lit", "boolean", bool(node.expression.this))
            found = ("coalesce", ("eq", bound.expression, sought), ("lit", "boolean", False))
        else:
            raise Faulty("IS is for NULL, and for TRUE and FALSE of a boolean", node)
        return Bound(("not", found) if node.args.get("negate") else found, Type.BOOLEAN, False)

    def _compared(
        self, operator: str, node: exp.Expression, one: exp.Expression, other: exp.Expression
    ) -> Bound:
        left, right = self._comparable(self.bind(one), self.bind(other), _SIGNS[operator], node)
        return Bound(
            (operator, left.expression, right.expression), Type.BOOLEAN, left.nullable or right.nullable
        )

    def _comparable(self, one: Bound, other: Bound, sign: str, node: exp.Expression) -> list[Bound]:
        found = unified(timed([one, other], node))
        if found is None:
            shown = f"{one.shown_type} {sign} {other.shown_type}"
            raise Faulty(f"the operands of {sign} do not fit: {shown} (expected one type)", node)
        return found

    def _between(self, node: exp.Expression) -> Bound:
        low = self._compared("ge", node, node.this, node.args["low"])
        high = self._compared("le", node, node.this, node.args["high"])
        return Bound(("and", low.expression, high.expression), Type.BOOLEAN, low.nullable or high.nullable)

    def _in(self, node: exp.Expression) -> Bound:
        operands = [self.bind(node.this), *map(self.bind, node.expressions)]
        found = unified(timed(operands, node))
        if found is None:
            types = ", ".join(dict.fromkeys(each.shown_type for each in operands))
            raise Faulty(f"the values of IN are of several types: {types} (expected one type)", node)
        nullable = any(each.nullable for each in found)
        return Bound(("in", *(each.expression for each in found)), Type.BOOLEAN, nullable)

    def _like(self, node: exp.Expression, escape: str = "\\") -> Bound:
        text = self._of_type(node.this, Type.STRING, "LIKE")
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.args["is_string"]):
            raise Faulty("the pattern of LIKE is not a constant (expected 'text' with % and _)", pattern)
        expression: Expression = (
            "like",
            text.expression,
            ("lit", "string", pattern.name),
            ("lit", "string", escape),
        )
        if node.args.get("negate"):
            expression = ("not", expression)
        return Bound(expression, Type.BOOLEAN, text.nullable)

    def _escape(self, node: exp.Expression) -> Bound:
        mark = node.expression.name
        if not isinstance(node.this, exp.Like) or len(mark) != 1:
            raise Faulty("ESCAPE does not fit (expected LIKE 'pattern' ESCAPE 'character')", node)
        return self._like(node.this, mark)

    def _case(self, node: exp.Expression) -> Bound:
        operand = node.args.get("this")
        conditions = [
            self._condition(each.this)
            if operand is None
            else self._compared("eq", each.this, operand, each.this)
            for each in node.args["ifs"]
        ]
        default = node.args.get("default")
        values = [self.bind(each.args["true"]) for each in node.args["ifs"]]
        values.append(self.bind(default) if default is not None else Bound(("lit", "string", None), None))
        found = self._unified("CASE", values, node)
        pairs = zip(conditions, found, strict=False)
        parts = [part.expression for pair in pairs for part in pair]
        nullable = any(each.nullable for each in found)
        return Bound(("case", *parts, found[-1].expression), common_type(values), nullable)

    # --- functions

    def _arithmetic(self, sign: str, node: exp.Expression) -> Bound:
        if isinstance(node.expression, exp.Interval) and sign in ("+", "-"):
            return self._shifted(sign, node)
        return self._call(sign, node, [node.this, node.expression])

    def _shifted(self, sign: str, node: exp.Expression) -> Bound:
        """A timestamp and an interval."""
        time = self._of_type(node.this, Type.TIMESTAMP, f"{sign} INTERVAL")
        if (length := milliseconds(node.expression)) is None:
            raise Faulty(
                f"the interval is not supported (expected INTERVAL 'n' {INTERVAL_UNITS})", node.expression
            )
        operator = "add_l" if sign == "+" else "sub_l"
        moved = (operator, time.expression, ("lit", "bigint", length))
        return Bound(("time_l", moved), Type.TIMESTAMP)

    def _call(self, name: str, node: exp.Expression, given: Sequence[exp.Expression]) -> Bound:
        arguments = [self.bind(each) for each in given]
        if name == "round" and len(given) == 2:
            self._check_digits(arguments[1], given[1])
        if name in ("floor", "ceil", "round") and len(given) == 1 and _is_whole(arguments[0]):
            return arguments[0]
        if (found := applied(name, arguments)) is not None:
            return found
        types = ", ".join(each.shown_type for each in arguments)
        shown = name.upper() if name.isidentifier() else name
        hint = _HINTS.get(name, "")
        forms = " or ".join(signatures_of(name))
        raise Faulty(f"{shown} does not take ({types}) (expected {forms}{hint})", node)

    def _check_digits(self, digits: Bound, node: exp.Expression) -> None:
        operator, *parts = digits.expression
        if operator != "lit" or not isinstance(parts[1], int) or not 0 <= parts[1] <= MOST_DIGITS:
            raise Faulty(f"the digits of ROUND are not a constant from 0 to {MOST_DIGITS}", node)

    def _same(self, name: str, node: exp.Expression) -> Bound:
        given = [node.this, *([node.expression] if name == "nullif" else node.expressions)]
        values = timed([self.bind(each) for each in given], node)
        found = self._unified(name.upper(), values, node)
        nullable = name == "nullif" or all(each.nullable for each in found)
        return Bound((name, *(each.expression for each in found)), common_type(values), nullable)

    def _unified(self, name: str, values: Sequence[Bound], node: exp.Expression) -> list[Bound]:
        if (found := unified(values)) is None:
            types = ", ".join(dict.fromkeys(each.shown_type for each in values))
            raise Faulty(f"the values of {name} are of several types: {types} (expected one type)", node)
        return found

    def _of_type(self, node: exp.Expression, type: Type, what: str) -> Bound:
        bound = self.bind(node)
        if (found := widened(bound, type)) is None:
            raise Faulty(f"{what} does not take {bound.shown_type} (expected {type})", node)
        return found

    def _named(self, node: exp.Expression) -> Bound:
        """The call of a function that sqlglot has no class for."""
        name = node.name.lower()
        if name in FUNCTIONS:
            return self._call(name, node, node.expressions)
        if name in INSTEAD:
            raise Faulty(f"{node.name} is not supported: {INSTEAD[name]}", node)
        if name in ("tumble", "hop"):
            raise Faulty(f"{node.name} stands in FROM (expected FROM {name.upper()}(table, ...))", node)
        near = get_close_matches(name, [*FUNCTIONS, *SAME_TYPE, *AGGREGATES], n=1)
        right = f"did you mean {near[0].upper()}?" if near else OWN_FUNCTION
        raise Faulty(f"the function {node.name} is not supported ({right})", node)

    def _over(self, node: exp.Expression) -> Bound:
        if isinstance(node, exp.Window):
            right = "expected it alone, with AS name; a SELECT around it can use that"
            raise Faulty(f"{RANKS[type(node.this).__name__]} does not fit in an expression ({right})", node)
        right = "expected OVER (PARTITION BY window_start, window_end ORDER BY ...)"
        raise Faulty(f"{RANKS[type(node).__name__]} has no OVER ({right})", node)

    def _extract(self, node: exp.Expression) -> Bound:
        part, time = node.this.name.lower(), self._of_type(node.expression, Type.TIMESTAMP, "EXTRACT")
        if part == "epoch":
            seconds = ("div_d", ("double", time.expression), ("lit", "double", 1000.0))
            return Bound(seconds, Type.DOUBLE, time.nullable)
        if part not in times.FIELDS:
            right = f"expected {', '.join(times.FIELDS)} or epoch"
            raise Faulty(f"EXTRACT does not take {node.this.name} ({right})", node)
        return Bound(("extract", ("lit", "string", part), time.expression), Type.BIGINT, time.nullable)

    def _trunc(self, node: exp.Expression) -> Bound:
        unit, time = node.args["unit"].name.lower(), self._of_type(node.this, Type.TIMESTAMP, "DATE_TRUNC")
        if unit not in times.UNITS:
            raise Faulty(f"DATE_TRUNC does not take {unit!r} (expected {', '.join(times.UNITS)})", node)
        zone = node.args.get("zone")
        if zone is not None and zone.name.upper() != "UTC":
            raise Faulty(
                f"DATE_TRUNC does not take the zone {zone.name!r} (expected none: times are in UTC)", zone
            )
        return Bound(("trunc", ("lit", "string", unit), time.expression), Type.TIMESTAMP)

    def _cast(self, node: exp.Expression) -> Bound:
        to, bound = cast_type(node), self.bind(node.this)
        if (constant := time_constant(node, to)) is not None:
            return constant
        if (found := widened(bound, to)) is not None:
            return found
        source = Type.BIGINT if bound.type in (Type.INT, None) else bound.type
        target = Type.BIGINT if to is Type.INT else to
        if source is Type.BIGINT and to is Type.INT:
            right = "expected bigint: whole numbers are calculated in 64 bits"
            raise Faulty(f"a cast from {bound.type} to {to} can fail ({right})", node)
        if (operator := CASTS.get((source, target))) is not None:
            return Bound((operator, bound.expression), target, bound.nullable)
        if (operator := TRY_CASTS.get((source, target))) is not None:
            if not isinstance(node, exp.TryCast):
                right = f"expected TRY_CAST(x AS {to}), which gives NULL then"
                raise Faulty(f"a cast from {bound.type} to {to} can fail ({right})", node)
            return Bound((operator, bound.expression), target)
        hint = {Type.TIMESTAMP: ": use FROM_EPOCH_MS", Type.BIGINT: ": use EPOCH_MS"}.get(to, "")
        raise Faulty(f"{bound.type} cannot be cast to {to}{hint}", node)

    # --- aggregates

    def _merged(self, node: exp.Expression) -> Bound:
        if self.aggregates is None or self.inner is None:
            raise Faulty("an aggregate function does not fit here (expected it in SELECT or HAVING)", node)
        call, condition = node, None
        if isinstance(node, exp.Filter):
            call, condition = node.this, self.inner._condition(node.expression.this)
        if (kind := _MERGES.get(type(call).__name__)) is None:
            raise Faulty("FILTER is for COUNT, SUM, MIN, MAX and AVG", node)
        if call.this is None:
            raise Faulty("COUNT has no argument (expected COUNT(*), or a column)", call)
        if isinstance(call.this, exp.Star):
            if kind != "count":
                raise Faulty(f"{kind.upper()}(*) is not supported (expected COUNT(*), or a column)", node)
            argument = Bound(("lit", "bigint", 1), Type.BIGINT, False)
        else:
            argument = self.inner.bind(call.this)
        return aggregated(self.aggregates, kind, filtered(argument, condition), call)

    _others: Mapping[str, Callable[[Expressions, exp.Expression], Bound]] = field(init=False, repr=False)


Expressions._others = {
    "Column": Expressions._column,
    "Literal": Expressions._literal,
    "Boolean": Expressions._boolean,
    "Null": Expressions._null,
    "Placeholder": Expressions._placeholder,
    "Paren": Expressions._paren,
    "Interval": Expressions._interval,
    "Not": Expressions._not,
    "Is": Expressions._is,
    "Between": Expressions._between,
    "In": Expressions._in,
    "Like": Expressions._like,
    "Escape": Expressions._escape,
    "Case": Expressions._case,
    "Cast": Expressions._cast,
    "TryCast": Expressions._cast,
    "Anonymous": Expressions._named,
    "Window": Expressions._over,
    **dict.fromkeys(RANKS, Expressions._over),
    "Extract": Expressions._extract,
    "TimestampTrunc": Expressions._trunc,
}

_MISPLACED = {
    "Star": "* does not fit here (expected an expression)",
    "Subquery": "subqueries are supported in FROM only (expected a second job, whose topic this one reads)",
}
_HINTS = {
    "+": "; a timestamp takes INTERVAL 'n' SECOND",
    "-": "; a timestamp takes INTERVAL 'n' SECOND, and EPOCH_MS(a) - EPOCH_MS(b) is the time between two",
    "||": "; CAST(x AS string) gives the text of x",
}


def table_of(node: exp.Expression, scope: Scope) -> str | None:
    """The table that a name has before its point; ``None`` without one.  Raises :class:`Faulty`."""
    given = node.args.get("table")
    if given is None:
        return None
    name, known = str(given.name).lower(), scope.qualifiers
    if name not in known:
        right = " or ".join(map(repr, known)) or "the column alone"
        raise Faulty(f"{given.name!r} is not a table here (expected {right})", node)
    return name


def _flat(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a chain of ANDs or of ORs."""
    found, rest = [], node
    while isinstance(rest, kind):
        found.append(rest.expression)
        rest = rest.this
    return [rest, *reversed(found)]


def _is_whole(bound: Bound) -> bool:
    return bound.type is not None and bound.type.whole
