"""From text to a syntax tree: sqlglot's parser, and a whitelist of what its tree may contain.

Nothing of sqlglot but its tokenizer and parser is used, and the text never reaches an engine: a construct
that is not listed here is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from speck.sql.faults import SqlError, SqlFault, place_in

MOST_BYTES = 64 * 1024
MOST_DEPTH = 50  # of brackets, CASE and NOT: parser and binder are recursive
MOST_TOKENS = 5_000
_MOST_NODES = 200  # on a path of the tree, of which a long sum has one for each operand

# The classes of nodes, and the parts that each may have.
_ALLOWED: Mapping[str, frozenset[str]] = {
    name: frozenset(parts.split())
    for name, parts in {
        "Select": "expressions from_ joins where group having distinct",
        "Join": "this on kind",
        "From": "this",
        "Subquery": "this alias",
        "Table": "this alias",
        "TableAlias": "this",
        "Where": "this",
        "Group": "expressions",
        "Having": "this",
        "Distinct": "",
        "Alias": "this alias",
        "Column": "this table",
        "Identifier": "this quoted",
        "Star": "",
        "Literal": "this is_string",
        "Boolean": "this",
        "Null": "",
        "Placeholder": "this",
        "Paren": "this",
        "Interval": "this unit",
        "Var": "this",
        "And": "this expression",
        "Or": "this expression",
        "Not": "this",
        "Is": "this expression negate",
        "In": "this expressions",
        "Between": "this low high",
        "Like": "this expression negate",
        "Escape": "this expression",
        "Case": "this ifs default",
        "If": "this true",
        "Cast": "this to",
        "TryCast": "this to safe",
        "DataType": "this nested",
        "Count": "this big_int",
        "Sum": "this",
        "Min": "this",
        "Max": "this",
        "Avg": "this",
        "Filter": "this expression",
        "Window": "this partition_by order over",
        "Rank": "",
        "RowNumber": "",
        "Order": "expressions",
        "Ordered": "this desc nulls_first",
        "Anonymous": "this expressions",
        "Coalesce": "this expressions",
        "Nullif": "this expression",
        "Greatest": "this expressions ignore_nulls",
        "Least": "this expressions ignore_nulls",
        "Abs": "this",
        "Floor": "this",
        "Ceil": "this",
        "Round": "this decimals",
        "Sqrt": "this",
        "Ln": "this",
        "Exp": "this",
        "Sin": "this",
        "Cos": "this",
        "Upper": "this",
        "Lower": "this",
        "Trim": "this",
        "Length": "this",
        "Substring": "this start length",
        "SplitPart": "this delimiter part_index",
        "Replace": "this expression replacement",
        "StrPosition": "this substr",
        "Extract": "this expression",
        "TimestampTrunc": "this unit zone",
        "Neg": "this",
        **dict.fromkeys(("EQ", "NEQ", "LT", "LTE", "GT", "GTE"), "this expression"),
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Pow"), "this expression"),
        "DPipe": "this expression safe",
    }.items()
}
# Parts that say how sqlglot would write the tree in a dialect; they change nothing that is read here.
_IGNORED = frozenset(
    ("typed", "safe", "is_left", "ansi", "_type", "coalesce", "big_int", "nested", "fraction_in_string")
)

_ELEMENTS = (
    "a Python or Java job before this one can write a message for each element, connected by a typed topic"
)
_UNNEST = f"UNNEST is not supported, since no column is an array: {_ELEMENTS}"

# The way around what is refused, by the class of a node or the part of one.
_INSTEAD: Mapping[str, str] = {
    "side": "outer joins are not supported: JOIN gives the pairs of rows of both tables",
    "method": "NATURAL JOIN is not supported: write JOIN ... ON with an equality of columns",
    "using": "USING is not supported: write ON with an equality of columns",
    "laterals": "LATERAL is not supported: a query reads tables of 'topics:'",
    "Lateral": "LATERAL is not supported: a query reads tables of 'topics:'",
    "Unnest": _UNNEST,
    "Explode": _UNNEST,  # UNNEST in SELECT
    "Array": f"arrays are not supported: {_ELEMENTS}",
    "Bracket": f"elements of arrays are not supported: {_ELEMENTS}",
    "order": "ORDER BY is supported in OVER only: a stream has no end at which it could be sorted",
    "limit": "LIMIT is not supported: a stream has no end; filter by a condition",
    "offset": "OFFSET is not supported: a stream has no end; filter by a condition",
    "Union": "UNION is not supported: read several topics by a topic filter",
    "Except": "EXCEPT is not supported: filter by a condition",
    "Intersect": "INTERSECT is not supported: filter by a condition",
    "with_": "WITH is not supported: write the query in FROM (SELECT ...)",
    "Window": "OVER is supported for RANK and ROW_NUMBER: aggregate in TUMBLE or HOP",
    "DenseRank": "DENSE_RANK is not supported: use RANK or ROW_NUMBER",
    "spec": "frames of OVER are not supported: RANK and ROW_NUMBER have none",
    "windows": "WINDOW is not supported: aggregate in TUMBLE or HOP",
    "qualify": "QUALIFY is not supported: filter by WHERE around FROM (SELECT ...)",
    "Exists": "subqueries in conditions are not supported: a second job can filter by a typed topic",
    "Values": "VALUES is not supported: FROM names a table of 'topics:'",
    "ILike": "ILIKE is not supported: use LOWER(text) LIKE 'pattern'",
    "RegexpLike": "regular expressions are not supported: use LIKE, or SPLIT_PART",
    "SimilarTo": "SIMILAR TO is not supported: use LIKE",
    "Concat": "CONCAT is not supported: use ||, and COALESCE for NULLs",
    "Left": "LEFT is not supported: use SUBSTRING(text, 1, n)",
    "Right": "RIGHT is not supported: use SUBSTRING",
    "CurrentTimestamp": "queries have no clock: use the event time of the rows",
    "CurrentDate": "queries have no clock: use the event time of the rows",
    "CurrentTime": "queries have no clock: use the event time of the rows",
    "Rand": "RANDOM is not supported: a query gives the same rows when messages are read again",
    "NullSafeNEQ": "IS DISTINCT FROM is not supported: use <> and IS NULL",
    "NullSafeEQ": "IS NOT DISTINCT FROM is not supported: use = and IS NULL",
    "LogicalAnd": "BOOL_AND is not supported: use MIN(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "LogicalOr": "BOOL_OR is not supported: use MAX(CASE WHEN x THEN 1 ELSE 0 END) = 1",
    "ReadCSV": "FROM names a table of 'topics:': a query reads no files",
    "Parameter": "write :name for a value of 'arguments:'",
}
_FORM = "expected SELECT ... FROM ..."
_DEEPER = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE, TokenType.NOT)
_SHALLOWER = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)


class Text:
    """A query's text, with places in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fault(self, message: str, node: exp.Expr | None = None) -> SqlFault:
        """A fault at the first word of a node, or else of the nodes around it."""
        while node is not None:
            if (start := _start(node)) is not None:
                return SqlFault(message, *place_in(self.text, start))
            node = node.parent
        return SqlFault(message, 1, 1)

    def at(self, message: str, offset: int) -> SqlFault:
        """A fault at a character."""
        return SqlFault(message, *place_in(self.text, offset))


def _start(node: exp.Expr) -> int | None:
    starts = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    return min(starts) if starts else None


@lru_cache(maxsize=256)
def parsed(text: str) -> exp.Select:
    """The tree of a query.  Raises :class:`SqlError` for another text, or one with a part that is refused."""
    source = Text(text)
    if len(text.encode()) > MOST_BYTES:
        raise SqlError([SqlFault(f"the query has more than {MOST_BYTES:,} bytes")])
    _check_tokens(source)
    tree = _tree(source)
    if not isinstance(tree, exp.Select):
        raise SqlError([source.fault(_refusal(tree), tree)])
    if faults := list(_refused(tree, source)):
        raise SqlError(faults)
    return tree


def _check_tokens(source: Text) -> None:
    try:
        tokens = Postgres().tokenize(source.text)
    except TokenError as error:
        raise SqlError([_token_fault(source, str(error))]) from error
    if not tokens:
        raise SqlError([SqlFault(f"the query is empty ({_FORM})", 1, 1)])
    if tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH):
        message = f"the query begins with {tokens[0].text[:40]!r} ({_FORM})"
        raise SqlError([source.at(message, tokens[0].start)])
    if len(tokens) > MOST_TOKENS:
        raise SqlError([SqlFault(f"the query has {len(tokens):,} words (at most {MOST_TOKENS:,})", 1, 1)])
    if faults := list(_token_faults(source, tokens)):
        raise SqlError(faults[:1])


def _token_fault(source: Text, message: str) -> SqlFault:
    found = re.search(r"Missing (.) from (\d+):", message)
    if found is not None:
        return SqlFault(f"a quoted text or name is not closed (expected {found[1]})", int(found[2]), 1)
    return SqlFault("the text cannot be read as SQL", 1, 1)


def _token_faults(source: Text, tokens: list[Token]) -> Iterator[SqlFault]:
    depth, negations = 0, 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type
        negations = negations + 1 if kind is TokenType.NOT else 0
        if kind in _DEEPER and kind is not TokenType.NOT:
            depth += 1
        elif kind in _SHALLOWER:
            depth -= 1
        if depth > MOST_DEPTH or negations > MOST_DEPTH:
            yield source.at(f"the query is nested too deeply (at most {MOST_DEPTH} levels)", token.start)
            return
        if kind is TokenType.SEMICOLON and token is not tokens[-1]:
            yield source.at("a second statement begins here (expected one SELECT)", token.start)
        if before is not None and before.token_type is TokenType.COMMA and kind in _AFTER_LIST:
            yield source.at(f"an expression is missing before {token.text.upper()!r}", token.start)
        if before is not None and before.token_type is TokenType.SELECT and kind is TokenType.FROM:
            yield source.at("SELECT has no columns (expected expressions, or *)", token.start)
    if tokens[-1].token_type is TokenType.COMMA:
        yield source.at("an expression is missing at the end", tokens[-1].start)


_AFTER_LIST = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.R_PAREN)


def _tree(source: Text) -> exp.Expr:
    try:
        tokens = Postgres().tokenize(source.text)
        for token, after in pairwise(tokens):
            if token.token_type is TokenType.SESSION and after.token_type is TokenType.L_PAREN:
                token.token_type = TokenType.VAR  # a function, which sqlglot knows in other dialects alone
        found = [each for each in Postgres().parser().parse(tokens, source.text) if each is not None]
    except ParseError as error:
        raise SqlError([_parse_fault(source, each) for each in error.errors[:1]]) from error
    except RecursionError as error:  # by brackets of other kinds than those that are counted
        raise SqlError([SqlFault("the query is nested too deeply", 1, 1)]) from error
    if len(found) != 1:
        raise SqlError([SqlFault(f"there are {len(found)} statements (expected one SELECT)", 1, 1)])
    return found[0]


def _parse_fault(source: Text, error: Mapping[str, object]) -> SqlFault:
    """A fault in our words for an error of sqlglot, which names its own classes."""
    line, column = int(str(error["line"] or 1)), int(str(error["col"] or 1))
    word, said = str(error["highlight"] or ""), str(error["description"])
    column = max(1, column - len(word) + 1)
    if "Required keyword" in said:
        message = f"an expression is missing at {word!r}"
    elif found := re.match(r"Expected table name", said):
        message = "a table is missing"
    elif found := re.match(r"Expecting (\S+)", said):
        message = f"{found[1]!r} is missing at {word!r}"
    else:
        message = f"{word!r} does not fit here" if word else "the query ends too soon"
    return SqlFault(f"{message} ({_FORM} [WHERE ...] [GROUP BY ...])", line, column)


def _refused(tree: exp.Expr, source: Text) -> Iterator[SqlFault]:
    """The faults of nodes that are not listed; of what is inside of those none."""
    waiting: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _MOST_NODES:
            yield source.fault(f"the expression is too long (at most {_MOST_NODES} operands in one)", node)
            return
        name = type(node).__name__
        over = isinstance(node, exp.Window) and not isinstance(node.this, exp.Rank | exp.RowNumber)
        if over or (parts := _ALLOWED.get(name)) is None:
            known = over and type(node.this).__name__ in _INSTEAD
            yield source.fault(_refusal(node.this if known else node), node)
            continue
        given = {key: value for key, value in node.args.items() if value not in (None, False, [])}
        for key in given.keys() - parts - _IGNORED:
            inner = given[key][0] if isinstance(given[key], list) else given[key]
            yield source.fault(_refusal(node, key), inner if isinstance(inner, exp.Expr) else node)
        if given.keys() <= parts | _IGNORED:
            waiting += [(each, depth + 1) for each in reversed(list(node.iter_expressions()))]


def _refusal(node: exp.Expr, part: str = "") -> str:
    name = type(node).__name__
    if isinstance(node, exp.Distinct):
        return "DISTINCT in a function is not supported: SELECT DISTINCT in one job, then COUNT(*) in another"
    if isinstance(node, exp.In):
        return _INSTEAD["Exists"]
    if part:
        return _INSTEAD.get(part, f"{_shown(part)} of {_shown(name)} is not supported")
    if isinstance(node, exp.Subquery | exp.Select):
        return "subqueries are supported in FROM only: FROM (SELECT ...)"
    if name in _INSTEAD:
        return _INSTEAD[name]
    if isinstance(node, exp.Func):
        own = "a Python or Java job before or after this one can do it, connected by a typed topic"
        return f"the function {node.sql_name()} is not supported ({own})"
    return f"{_shown(name)} is not supported"


def _shown(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.strip("_")).upper()
