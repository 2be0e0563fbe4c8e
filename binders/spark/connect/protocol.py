"""The messages of Spark Connect's protocol (``pb2``), without the rest of PySpark.

``import pyspark.sql.connect.proto`` imports its parent packages first, and with them pandas, Arrow and numpy:
some 90 MB that no request needs.  So the package of the messages is loaded by its place alone, and leaves no
name behind: a program that imports PySpark later loads all of it.  The messages of both are the same classes,
since protobuf has one for each description.  Its module of calls is left out, which would import grpc.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyspark.sql.connect.proto as pb2

_NAME = "pyspark.sql.connect.proto"
_CALLS = f"{_NAME}.base_pb2_grpc"


def _messages() -> ModuleType:
    """The package of the messages; PySpark's own if that is loaded."""
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    if "pyspark.sql.connect" in sys.modules:
        return importlib.import_module(_NAME)
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    folder = Path(found.submodule_search_locations[0]) / "sql" / "connect" / "proto"
    spec = spec_from_file_location(_NAME, folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {_NAME!r}", name=_NAME)
    module = module_from_spec(spec)
    sys.modules[_NAME] = module  # its modules import one another by this name
    sys.modules[_CALLS] = ModuleType(_CALLS)
    vars(module)["__getattr__"] = _module_of  # otherwise, they would import the topmost package too
    try:
        spec.loader.exec_module(module)
    finally:
        del vars(module)["__getattr__"]
        for name in [each for each in sys.modules if each == _NAME or each.startswith(f"{_NAME}.")]:
            del sys.modules[name]
    return module


def _module_of(name: str) -> ModuleType:
    if not name.endswith("_pb2"):
        raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
    return importlib.import_module(f"{_NAME}.{name}")


if not TYPE_CHECKING:
    pb2 = _messages()

__all__ = ["pb2"]
