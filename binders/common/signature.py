"""The arguments that a job's Python function takes, read from its source without running it.

Only explicit signatures are read: a function with a decorator, a class with bases, and a name that is
imported may take anything.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import chain, repeat

from binders.common.python_source import parsed
from speck.binder import Parameter

_Function = ast.FunctionDef | ast.AsyncFunctionDef

_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}


def parameters_of(source: bytes, name: str) -> tuple[Parameter, ...] | None:
    """The arguments of a function or class other than the messages; ``None`` if it may take anything."""
    function = _callable(parsed(source, name), name)
    if function is None or function.decorator_list or function.args.kwarg is not None:
        return None
    return tuple(_parameters(function.args))


def _callable(tree: ast.Module, name: str) -> _Function | None:
    """The function that receives the arguments: of a class, its ``__init__``."""
    found = [node for node in tree.body if isinstance(node, _Function | ast.ClassDef) and node.name == name]
    if len(found) != 1 or isinstance(found[0], _Function):
        return found[0] if len(found) == 1 and isinstance(found[0], _Function) else None
    if found[0].bases or found[0].keywords or found[0].decorator_list:
        return None
    inits = [each for each in found[0].body if isinstance(each, _Function) and each.name == "__init__"]
    return inits[0] if len(inits) == 1 else None


def _parameters(arguments: ast.arguments) -> list[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = chain(repeat(None, len(positional) - len(arguments.defaults)), arguments.defaults)
    named = list(zip(positional, defaults, strict=True))[max(1, len(arguments.posonlyargs)) :]
    only_by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [
        Parameter(each.arg, needed=default is None, types=_types(each.annotation))
        for each, default in chain(named, only_by_name)
    ]


def _types(annotation: ast.expr | None) -> tuple[type, ...]:
    return _TYPES.get(annotation.id, ()) if isinstance(annotation, ast.Name) else ()
