"""Which arguments a job's function in Python takes, told without running it.

Only what the source says plainly is told: a function with a decorator, a class with bases, and a name
that comes from elsewhere may take anything.
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
    """The arguments of a function or class beside the messages; ``None`` when it may take anything."""
    function = _called(parsed(source, name), name)
    if function is None or function.decorator_list or function.args.kwarg is not None:
        return None
    return tuple(_parameters(function.args))


def _called(tree: ast.Module, name: str) -> _Function | None:
    """The function that is given the arguments: of a class, the one that makes its objects."""
    found = [node for node in tree.body if isinstance(node, _Function | ast.ClassDef) and node.name == name]
    if len(found) != 1 or isinstance(found[0], _Function):
        return found[0] if len(found) == 1 and isinstance(found[0], _Function) else None
    if found[0].bases or found[0].keywords or found[0].decorator_list:
        return None
    made = [each for each in found[0].body if isinstance(each, _Function) and each.name == "__init__"]
    return made[0] if len(made) == 1 else None


def _parameters(taken: ast.arguments) -> list[Parameter]:
    positional = [*taken.posonlyargs, *taken.args]
    defaults = chain(repeat(None, len(positional) - len(taken.defaults)), taken.defaults)
    named = list(zip(positional, defaults, strict=True))[max(1, len(taken.posonlyargs)) :]
    only_by_name = zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    return [
        Parameter(each.arg, needed=default is None, types=_types(each.annotation))
        for each, default in chain(named, only_by_name)
    ]


def _types(annotation: ast.expr | None) -> tuple[type, ...]:
    return _TYPES.get(annotation.id, ()) if isinstance(annotation, ast.Name) else ()
