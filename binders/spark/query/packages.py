"""The packages that a job's code imports, read from its source without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from binders.common.python_reach import reached_statements
from binders.common.python_source import UNREADABLE
from binders.spark.query.code_check import source_of, split_entry

# Handlers of these make an import optional.
_CAUGHT = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))


def required_packages(path: Path, entry_class: str) -> dict[str, int]:
    """The top-level packages that a job's entry imports anywhere, with the line of the first import.

    Without Python's own modules and PySpark, and without imports under a condition and those whose failure
    the code handles: it may run without them.  Empty for a file that cannot be read.
    """
    name = split_entry(entry_class)[1]
    try:
        statements = reached_statements(source_of(path, entry_class), name, path.name)
    except (*UNREADABLE, KeyError):  # BadSource is one of them
        return {}
    found: dict[str, int] = {}
    for line, package in sorted(each for statement in statements for each in _imports(statement)):
        found.setdefault(package, line)
    return {each: line for each, line in found.items() if each not in sys.stdlib_module_names | {"pyspark"}}


def _imports(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield node.lineno, (node.module or "").partition(".")[0]
    for each in _unconditional(node):
        yield from _imports(each)


def _unconditional(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a node whose imports must succeed."""
    if isinstance(node, ast.If | ast.Match) or (isinstance(node, ast.With) and _suppresses(node)):
        return
    if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
        yield from node.finalbody
    else:
        yield from ast.iter_child_nodes(node)


def _catches(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or _names_import_errors(handler.type)


def _suppresses(node: ast.With) -> bool:
    return any(_names_import_errors(item.context_expr) for item in node.items)


def _names_import_errors(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id in _CAUGHT for each in ast.walk(node))
