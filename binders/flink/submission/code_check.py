"""Checks a Flink job's file without running it."""

from __future__ import annotations

import ast
import difflib
import zipfile
from pathlib import Path

from binders.common.python_reach import reached_code
from binders.common.python_source import UNREADABLE, BadSource, parsed, read_source, unreadable_reason
from binders.common.signature import parameters_of
from binders.flink.submission.package import PYTHON
from speck.binder import Parameter
from speck.core.code import ReachedCode
from speck.core.siblings import sibling_import

JAR = ".jar"
SCRIPT = "__main__"  # the entry class of a Python file that is run as a script


def check_code(path: Path, entry_class: str) -> str | None:
    """The reason why a file has no such class or function, as a sentence; ``None`` if it has.

    In a jar ``entry_class`` is a class as Java names it: dots between packages, ``$`` before a nested class;
    in a Python file the name of a function, or ``__main__`` to run the file as a script.
    """
    if path.suffix.lower() == JAR:
        return _check_jar(path, entry_class)
    if path.suffix.lower() == PYTHON:
        return _check_python(path, entry_class)
    return f"job_path {path.name!r} is not a Flink job (expected a .jar or a .py file)"


def parameters(path: Path, entry_class: str) -> tuple[Parameter, ...] | None:
    """The arguments that a Python function takes; ``None`` (unknown) for a script or a jar."""
    if path.suffix.lower() != PYTHON or entry_class == SCRIPT:
        return None
    return parameters_of(read_source(path), entry_class)


def reached(path: Path, entry_class: str) -> ReachedCode | None:
    """The statements of a Python file that a job reaches; ``None`` of a jar."""
    if path.suffix.lower() != PYTHON:
        return None
    return reached_code(read_source(path), None if entry_class == SCRIPT else entry_class, path.name)


def _check_python(path: Path, entry_class: str) -> str | None:
    try:
        tree = parsed(read_source(path), path.name)
    except BadSource as error:
        return str(error)
    except OSError as error:
        return f"job_path {str(path)!r} cannot be read: {error}"
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if entry_class == SCRIPT or entry_class in functions:
        found = sibling_import(tree, path)
        return None if found is None else found.text(path.name, f"its functions in {path.name}")
    near = difflib.get_close_matches(entry_class, sorted(functions), n=3) or sorted(functions)[:5]
    known = f"it has {', '.join(near)}" if near else "it has none"
    advice = f"({known}; or {SCRIPT} to run the file as a script)"
    return f"{path.name!r} defines no function {entry_class!r} {advice}"


def _check_jar(path: Path, entry_class: str) -> str | None:
    if not all(part.isidentifier() for part in entry_class.replace("$", ".").split(".")):
        return f"entry_class {entry_class!r} is not a class name (expected for example streets.Clean)"
    try:
        with zipfile.ZipFile(path) as jar:
            names = {_class_of(member) for member in jar.namelist() if member.endswith(".class")}
    except UNREADABLE as error:
        return f"job_path {str(path)!r} cannot be read as a jar: {unreadable_reason(error)}"
    if entry_class in names:
        return None
    return f"{path.name!r} has no class {entry_class!r}{_near(entry_class, names)}"


def _class_of(member: str) -> str:
    return member.removesuffix(".class").replace("/", ".")


def _near(entry_class: str, names: set[str]) -> str:
    nested = [name for name in names if name.replace("$", ".") == entry_class]
    if nested:
        return f" (expected {nested[0]!r}: a nested class is written with $)"
    same = sorted(name for name in names if name.rpartition(".")[2] == entry_class.rpartition(".")[2])
    candidates = sorted(name for name in names if "$" not in name)
    near = same[:3] or difflib.get_close_matches(entry_class, candidates, n=3) or candidates[:5]
    return f" (it has {', '.join(near)})" if near else " (it has no classes)"
