"""Loads and calls the code of a job, and locates errors in it."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import inspect
import linecache
import re
import sys
import traceback
import zipfile
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from binders.spark.query.code_check import ARCHIVES, split_entry
from binders.spark.query.spec import QuerySpec
from binders.spark.query.text import first_line

JobFunction = Callable[..., Any]


class JobFault(Exception):
    """The job's code cannot be started; the message has the reason and its place in the code."""


def load(spec: QuerySpec) -> JobFunction:
    """The job's function or class.  Raises :class:`JobFault`, and any error that the file raises when run."""
    path = Path(spec.path)
    if path.suffix in ARCHIVES:
        module_name, name = split_entry(spec.entry)
        module = _module_of_archive(path, module_name)
    else:
        name = spec.entry
        module = _module_of_file(path)
        _pickle_by_value(module)
    try:
        return _callable(getattr(module, name), spec)
    except AttributeError as error:
        raise JobFault(f"{path.name} defines no {name!r}") from error


def call(entry: JobFunction, messages: Any, spec: QuerySpec) -> Any:
    """The job's result for the messages, of its function or of an object of its class."""
    if inspect.isclass(entry):
        instance: Any = entry(**spec.arguments)
        return instance(messages)
    return entry(messages, **spec.arguments)


def output_mode(entry: JobFunction) -> str | None:
    """The output mode that the job requests by an attribute of its function or class, if any."""
    mode = getattr(entry, "output_mode", None)
    if mode is None or mode in ("append", "update", "complete"):
        return mode
    raise JobFault(f"its output_mode is {mode!r} (expected append, update or complete)")


def value_type(entry: JobFunction) -> str:
    """The type of the column ``value`` that the job requests, ``text`` (the default) or ``binary``."""
    kind = getattr(entry, "value_type", "text")
    if kind in ("text", "binary"):
        return str(kind)
    raise JobFault(f"its value_type is {kind!r} (expected text or binary)")


def message_metadata(entry: JobFunction) -> bool:
    """True if the job requests the columns ``key`` and ``offset``."""
    requested = getattr(entry, "message_metadata", False)
    if not isinstance(requested, bool):
        raise JobFault(f"its message_metadata is {requested!r} (expected True or False)")
    return requested


def explain(error: BaseException, path: str) -> str:
    """An error in one line, with the innermost place of the job's own code in its traceback."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"SyntaxError: {error.msg} ({_place(Path(path).name, str(error.lineno), error.offset)})"
    # Spark's place of a column is closer than the call in which the analysis failed.
    where = _called_from(error, path) or _innermost(error, path)
    reason = first_line(str(error))
    text = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return f"{text} ({where})" if where else text


def _innermost(error: BaseException, path: str) -> str | None:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path or frame.filename.startswith(path + "/")
    ]
    if not frames:
        return None
    last = frames[-1]
    inside = last.filename.removeprefix(str(Path(path).parent) + "/")
    column = None if last.colno is None else last.colno + 1
    return _place(inside, str(last.lineno), column)


def _called_from(error: BaseException, path: str) -> str | None:
    from pyspark.errors import PySparkException, QueryContextType  # 15 MB, where code is run alone

    # Spark analyzes a DataFrame after the job has returned, and records the origin of each column.
    for context in error.getQueryContext() if isinstance(error, PySparkException) else ():
        if context.contextType() is QueryContextType.DataFrame:
            file, _, line = context.callSite().rpartition(":")
            if file == path:
                return _place(Path(path).name, line, _column_in(path, int(line), str(error)))
    return None


def _place(file: str, line: str, column: int | None) -> str:
    return f"{file}, line {line}" + (f", column {column}" if column is not None else "")


def _column_in(path: str, line: int, message: str) -> int | None:
    """The column (from 1) at which a line of code has the first name that Spark's message quotes.

    Spark records lines only.
    """
    quoted = re.search(r"`([^`]+)`", message)
    source = linecache.getline(path, line)
    found = re.search(rf"\b{re.escape(quoted[1])}\b", source) if quoted is not None else None
    return None if found is None else found.start() + 1


class _SourceLoader(SourceFileLoader):
    """Compiles the file itself.  Python takes bytecode for that of a source of the same size and second."""

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Raise :class:`OSError`, so that no bytecode is read, or written beside the user's file."""
        raise OSError(errno.ENOTSUP, "no bytecode is cached", path)


def _module_of_file(path: Path) -> ModuleType:
    # Under a name of its own: the file may have the name of a module that is already imported.
    name = f"speck_job_{path.stem}"
    loader = _SourceLoader(name, str(path))
    specification = importlib.util.spec_from_loader(name, loader)
    if specification is None:
        raise JobFault(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _module_of_archive(path: Path, module_name: str) -> ModuleType:
    sys.path.insert(0, str(path))
    module = importlib.import_module(module_name)
    with zipfile.ZipFile(path) as archive:
        tops = {member.split("/")[0].removesuffix(".py") for member in archive.namelist()}
    for top in tops & sys.modules.keys():
        _pickle_by_value(sys.modules[top])
    return module


def _pickle_by_value(module: ModuleType) -> None:
    from pyspark import cloudpickle

    # The server's Python workers run the functions of the job and have no copy of its file.  Spark's
    # addArtifacts reaches the workers of a batch query, but not those of a streaming query (seen with 4.3.0).
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _callable(entry: Any, spec: QuerySpec) -> JobFunction:
    if not callable(entry):
        raise JobFault(f"{spec.entry} is a {type(entry).__name__} (expected a function or a class)")
    return cast(JobFunction, entry)
