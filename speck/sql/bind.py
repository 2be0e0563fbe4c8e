"""From a query's text to its program: tables and columns found, types determined, all faults reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from speck.sql.faults import SqlError, SqlFault
from speck.sql.joins import JoinBinder
from speck.sql.parse import Text, parsed
from speck.sql.selects import Binder, Query
from speck.sql.types import Contract

__all__ = ["Query", "bind", "tables_of"]


def bind(
    text: str,
    tables: Mapping[str, Contract],
    arguments: Mapping[str, Any] | None = None,
    format: str = "json",
) -> Query:
    """The program of a query over these tables, by their names in small letters.

    ``arguments`` are the values of ``:name`` in it, ``format`` is that of the output.  Raises
    :class:`SqlError` with all faults.
    """
    tree = parsed(text)
    binder = JoinBinder if tree.args.get("joins") else Binder
    try:
        return binder(Text(text), tables, arguments or {}, format).query(tree)
    except RecursionError as error:
        raise SqlError([SqlFault("the query is nested too deeply", 1, 1)]) from error


def tables_of(text: str) -> tuple[str, ...]:
    """The names of the tables of a query, in small letters.  Raises :class:`SqlError`."""
    found = []
    for node in parsed(text).find_all(exp.Table):
        inner = node.this
        if isinstance(inner, exp.Anonymous) and inner.expressions:
            inner = inner.expressions[0]
        found.append(inner.name.lower())
    return tuple(dict.fromkeys(found))
