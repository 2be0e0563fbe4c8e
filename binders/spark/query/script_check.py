"""Recognises a PySpark script in the code that a job reaches, by what SpecK does for a job.

A script makes its session, reads its command line, and starts and awaits its queries.  A job is a function of
its messages that returns a DataFrame.  The source is read without running it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path

from binders.common.python_reach import reached_statements
from binders.common.python_source import UNREADABLE, parsed, read_source
from binders.spark.query.code_check import check_code, source_of, split_entry
from speck.core.siblings import packed, sibling_import

_Function = ast.FunctionDef | ast.AsyncFunctionDef

_SESSION = "makes a session (expected messages.sparkSession: SpecK makes the session)"
_STOP = "ends the session (SpecK ends it)"
_COMMAND_LINE = "reads a command line, which a job does not have (expected parameters of the function, and "
_COMMAND_LINE += "`arguments:` of the job)"
_QUERY = "starts a query (expected the DataFrame to be returned: SpecK starts its query, and no other)"
_AWAIT = "waits for the end of a query (expected a return: SpecK supervises the query)"
_BATCHES = (
    "takes the batches of a query (expected the DataFrame to be returned; a standalone program may read "
)
_BATCHES += "the sink topic)"

_CONTEXTS = frozenset(("SparkContext", "StreamingContext", "SparkConf"))
_ATTRIBUTES = {
    "writeStream": _QUERY,
    "awaitTermination": _AWAIT,
    "awaitAnyTermination": _AWAIT,
    "foreachBatch": _BATCHES,
}
_PARSERS = frozenset(("parse_args", "parse_known_args"))

# The faults by name, function and digest of a source ("": none). Each plan checks all jobs again, and to find
# what a function reaches takes half of the time of a check.
_faults: dict[tuple[str, str, bytes], str] = {}
_MOST_FAULTS = 4096


def check_job(path: Path, entry_class: str) -> str | None:
    """The fault of a file that a user gives for a job: that of :func:`check_code`, or of a script.

    A script is no fault of a job that was accepted before: its engine starts it again as it is.
    """
    missing = check_code(path, entry_class)
    name = split_entry(entry_class)[1]
    try:
        if missing is not None:
            script = script_fault(path.name, read_source(path), name) if path.suffix == ".py" else None
            return missing if script is None else f"{missing}; {script}"
        source = source_of(path, entry_class)
        return _sibling_fault(path, source, name) or script_fault(path.name, source, name)
    except UNREADABLE:  # BadSource is one of them
        return missing


def _sibling_fault(path: Path, source: bytes, entry: str) -> str | None:
    found = sibling_import(parsed(source, path.name), path) if path.suffix == ".py" else None
    return None if found is None else found.text(path.name, packed(path.name, found, entry))


def script_fault(where: str, source: bytes, entry: str) -> str | None:
    """The places at which a job's code does what a script does, as a sentence; ``None`` if there are none.

    Raises :class:`~binders.common.python_source.BadSource`.
    """
    key = where, entry, sha256(source).digest()
    fault = _faults.get(key)
    if fault is None:
        fault = _script_fault(where, source, entry) or ""
        if len(_faults) >= _MOST_FAULTS:
            _faults.clear()
        _faults[key] = fault
    return fault or None


def _script_fault(where: str, source: bytes, entry: str) -> str | None:
    statements = reached_statements(source, entry, where)
    functions = [each for each in statements if isinstance(each, _Function) and each.name == entry]
    found = dict[str, tuple[int, str]]()
    for line, name, fault in sorted(
        chain(_found(statements), map(_no_messages, filter(_is_bare, functions)))
    ):
        found.setdefault(fault, (line, name))
    if not found:
        return None
    places = "; ".join(f"line {line}: {name} {fault}" for fault, (line, name) in found.items())
    return f"{where}, {places}. Write a job as a function: def {entry}(messages): return messages.select(...)"


def _is_bare(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True for a function that takes no argument at all."""
    given = node.args
    return not (node.decorator_list or given.posonlyargs or given.args or given.vararg)


def _no_messages(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, str, str]:
    return node.lineno, f"{node.name}()", "takes no messages (expected one parameter for them)"


def _found(statements: Iterable[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """The line, the name and the fault of each place."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    sessions = {name for node in nodes for name in _sessions(node)}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if node.attr in _ATTRIBUTES:
                yield node.lineno, node.attr, _ATTRIBUTES[node.attr]
            elif node.attr == "argv" and isinstance(node.value, ast.Name) and node.value.id == "sys":
                yield node.lineno, "sys.argv", _COMMAND_LINE
        elif isinstance(node, ast.Call):
            yield from _of_call(node, sessions)


def _of_call(node: ast.Call, sessions: set[str]) -> Iterator[tuple[int, str, str]]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in _CONTEXTS:
        yield node.lineno, f"{called.id}(...)", _SESSION
    elif not isinstance(called, ast.Attribute):
        return
    elif called.attr in ("master", "remote") and "builder" in _chain(called.value):
        yield called.end_lineno or node.lineno, f"SparkSession.builder.{called.attr}(...)", _SESSION
    elif called.attr in _PARSERS and not node.args and not node.keywords:
        yield node.lineno, f"{called.attr}()", _COMMAND_LINE
    elif called.attr == "stop" and isinstance(called.value, ast.Name) and called.value.id in sessions:
        yield node.lineno, f"{called.value.id}.stop()", _STOP


def _sessions(node: ast.AST) -> Iterator[str]:
    """The names that are bound to a session by a statement."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        called = node.value.func
        if isinstance(called, ast.Attribute) and called.attr == "getOrCreate":
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))


def _chain(node: ast.expr) -> set[str]:
    """The names along a chain of attributes and calls."""
    names = set[str]()
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return names | ({node.id} if isinstance(node, ast.Name) else set())
