"""Checks a Spark job's file without running it.

A ``.py`` file is parsed; of a ``.zip`` or a wheel, only the module that the entry class names.
"""

from __future__ import annotations

import ast
import difflib
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from binders.common.python_source import (
    UNREADABLE,
    BadSource,
    parsed,
    read_member,
    read_source,
    unreadable_reason,
)

ARCHIVES = frozenset({".zip", ".whl"})

# The names of all functions that pass a Python function to Spark contain one of these.
_PYTHON_FUNCTIONS = re.compile(rb"udf|udtf|InPandas|InArrow|transformWithState")

# Those that combine a DataFrame with another, and the keywords of SQL.
_COMBINATIONS = re.compile(rb"union|join|intersect|except(?:All|\s+(?:all|select))|subtract", re.IGNORECASE)

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def check_code(path: Path, entry_class: str) -> str | None:
    """The reason why a file has no such function or class, as a sentence; ``None`` if it has.

    ``entry_class`` is a name at the top level of a ``.py`` file, or ``package.module.name`` in an archive.
    """
    if not all(part.isidentifier() for part in entry_class.split(".")):
        return (
            f"entry_class {entry_class!r} is not a name (expected for example clean or package.module.clean)"
        )
    try:
        if path.suffix == ".py":
            return _check_source(path.name, read_source(path), entry_class)
        if path.suffix in ARCHIVES:
            return _check_archive(path, entry_class)
    except BadSource as error:
        return str(error)
    except UNREADABLE as error:
        return f"job_path {str(path)!r} cannot be read: {unreadable_reason(error)}"
    return f"job_path {path.name!r} is not a Spark job (expected a .py file, a .zip or a .whl)"


def source_of(path: Path, entry_class: str) -> bytes:
    """The source of the module that contains the entry class, in a file that passed :func:`check_code`."""
    if path.suffix not in ARCHIVES:
        return read_source(path)
    with zipfile.ZipFile(path) as archive:
        return read_member(archive, _modules_in(archive)[split_entry(entry_class)[0]])


def mentions_python_functions(path: Path) -> bool:
    """True if a job's file may pass Python functions to Spark: a search for names, with false positives."""
    return _mentions(path, _PYTHON_FUNCTIONS)


def may_have_several_sources(path: Path) -> bool:
    """True if a job's file may combine its messages with themselves: a search, with false positives."""
    return _mentions(path, _COMBINATIONS)


def _mentions(path: Path, names: re.Pattern[bytes]) -> bool:
    try:
        if path.suffix not in ARCHIVES:
            return names.search(read_source(path)) is not None
        with zipfile.ZipFile(path) as archive:
            sources = [member for member in archive.namelist() if member.endswith(".py")]
            return any(names.search(read_member(archive, member)) for member in sources)
    except UNREADABLE:  # BadSource is one of them
        return True  # conservatively: the damaged or too large file need not be the module that is run


def split_entry(entry_class: str) -> tuple[str, str]:
    """The module and the name in it that an entry class of an archive stands for."""
    module, _, name = entry_class.rpartition(".")
    return module, name


def _check_archive(path: Path, entry_class: str) -> str | None:
    module, name = split_entry(entry_class)
    with zipfile.ZipFile(path) as archive:
        sources = _modules_in(archive)
        if not module:
            return (
                f"entry_class {entry_class!r} names no module of {path.name!r} "
                f"(expected module.{name}{_modules(sources)})"
            )
        if module not in sources:
            return f"{path.name!r} has no module {module!r}{_near(module, sources)}"
        source = read_member(archive, sources[module])
        return _check_source(f"{path.name}:{sources[module]}", source, name)


def _check_source(where: str, source: bytes, entry_class: str) -> str | None:
    tree = parsed(source, where)
    names = {node.name for node in _definitions(tree)}
    if entry_class in names | _assigned(tree):
        return None
    return f"{where!r} defines no function or class {entry_class!r}{_near(entry_class, names)}"


def _definitions(tree: ast.Module) -> list[_Definition]:
    return [node for node in tree.body if isinstance(node, _Definition)]


def _assigned(tree: ast.Module) -> set[str]:
    # ``clean_fast = partial(clean, ...)`` and ``from .cleaning import clean`` define names of the module too.
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return assigned | imported


def _modules_in(archive: zipfile.ZipFile) -> dict[str, str]:
    return {_module_of(member): member for member in archive.namelist() if member.endswith(".py")}


def _module_of(member: str) -> str:
    return member.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _near(name: str, known: Iterable[str]) -> str:
    candidates = sorted(known)
    near = difflib.get_close_matches(name, candidates, n=3) or candidates[:5]
    return f" (it has {', '.join(near)})" if near else " (it has none)"


def _modules(sources: Iterable[str]) -> str:
    found = sorted(sources)[:5]
    return f", its modules are {', '.join(found)}" if found else ""
