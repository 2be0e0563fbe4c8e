"""The packages that the Python functions of a query import at the server, read from their pickles."""

from __future__ import annotations

import contextlib
import dis
import io
import pickle
import types
from collections.abc import Iterable, Iterator
from typing import Any

_UDF = "PythonUDF"  # the message of Spark Connect with a function, pickled in its field `command`


def shipped_imports(plan: Any) -> frozenset[str]:
    """The top-level packages that the functions in a plan (a message of Spark Connect) import.

    A function travels with the code that it uses of the job's own file; of other modules, by their names.
    The functions were pickled by this process.
    """
    found = set[str]()
    for command in _commands(plan):
        reader = _Reader(io.BytesIO(command))
        # Anything may happen while objects of the job are made; the server reports it if it does there.
        with contextlib.suppress(Exception):
            reader.load()
        found |= reader.modules
        for code in reader.codes:
            found.update(_imports(code))
    return frozenset(name.partition(".")[0] for name in found)


def _commands(message: Any) -> Iterator[bytes]:
    if message.DESCRIPTOR.name == _UDF:
        yield message.command
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name["value"]
            each: Iterable[Any] = value.values() if entry.message_type is not None else ()
        else:
            each = [value] if hasattr(value, "DESCRIPTOR") else value
        for inner in each:
            yield from _commands(inner)


class _Reader(pickle.Unpickler):
    """Loads a function, and records the modules that it names and the code objects that it has."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules = set[str]()
        self.codes: list[types.CodeType] = []

    def find_class(self, module: str, name: str) -> Any:
        """As the base class; cloudpickle's makers of code objects and modules are observed."""
        if name == "_builtin_type":
            return self._builtin_type
        if name == "subimport":
            return self._module
        self.modules.add(module)
        return super().find_class(module, name)

    def _builtin_type(self, name: str) -> Any:
        return self._code if name == "CodeType" else getattr(types, name)

    def _code(self, *arguments: Any) -> types.CodeType:
        self.codes.append(types.CodeType(*arguments))
        return self.codes[-1]

    def _module(self, name: str) -> Any:
        self.modules.add(name)
        return super().find_class("pyspark.cloudpickle.cloudpickle", "subimport")(name)


def _imports(code: types.CodeType) -> Iterator[str]:
    """The modules that a code object imports when it runs."""
    before: list[object] = []
    for instruction in dis.get_instructions(code):
        # The level of the import and the names to take are constants before it.
        if instruction.opname == "IMPORT_NAME" and before[-2:-1] == [0]:
            yield str(instruction.argval)
        before = [*before[-1:], instruction.argval]
