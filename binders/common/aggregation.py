"""The faults of an aggregation, the class of a split by keys, read from its source without running it.

An aggregation has no base class: it is recognised by the names and the arities of its methods.  Methods with
a decorator, names that are assigned, and those that a base class may have, are not checked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from binders.common.python_source import parsed

# The arguments of each method without ``self``.
REQUIRED: dict[str, tuple[str, ...]] = {
    "rows": ("messages",),
    "add": ("columns",),
    "merge": ("one", "other"),
    "finish": ("state",),
}
OPTIONAL: dict[str, tuple[str, ...]] = {
    "encode": ("state",),
    "decode": ("data",),
    "add_all": ("columns", "starts"),
}
_PAIRS = {"encode": "decode", "decode": "encode"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def aggregation_faults(source: bytes, name: str) -> tuple[str, ...]:
    """A sentence for each fault of the class ``name`` as an aggregation, in a source that defines it."""
    found = [node for node in parsed(source, name).body if getattr(node, "name", None) == name]
    if len(found) != 1:
        return ()  # imported, assigned, or defined by a condition: seen when it runs
    if isinstance(found[0], _Function):
        return (f"entry_class {name!r} is a function (expected a class with {_methods()})",)
    return tuple(_class_faults(found[0])) if isinstance(found[0], ast.ClassDef) else ()


def _methods() -> str:
    *first, last = [_signature(name) for name in REQUIRED]
    return f"the methods {', '.join(first)} and {last}"


def _signature(name: str) -> str:
    return f"{name}({', '.join((REQUIRED | OPTIONAL)[name])})"


def _class_faults(found: ast.ClassDef) -> Iterator[str]:
    functions = {each.name: each for each in found.body if isinstance(each, _Function)}
    assigned = {
        target.id
        for each in found.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    names = functions.keys() | assigned
    inherits = bool(found.bases or found.keywords or found.decorator_list)
    for name in REQUIRED:
        if name not in names and not inherits:
            yield f"class {found.name!r} has no method {name!r} (expected {_signature(name)})"
    for name, other in _PAIRS.items():
        if name in names and other not in names and not inherits:
            right = f"expected {_signature(other)} as well: it is the inverse"
            yield f"class {found.name!r} has {name!r} without {other!r} ({right})"
    for name, function in functions.items():
        if name in REQUIRED or name in OPTIONAL:
            yield from _method_faults(found.name, function)


def _method_faults(owner: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    bound = [_decorator(each) for each in function.decorator_list]
    if any(each not in ("staticmethod", "classmethod") for each in bound):
        return
    right = f"expected {_signature(function.name)}"
    if isinstance(function, ast.AsyncFunctionDef):
        yield f"method {function.name!r} of class {owner!r} is a coroutine ({right})"
    taken, needed = _arity(function.args, bound=bound != ["staticmethod"])
    number = len((REQUIRED | OPTIONAL)[function.name])
    if not needed <= number <= taken or _needs_keywords(function.args):
        plural = "" if needed == 1 else "s"
        count = "keywords" if _needs_keywords(function.args) else f"{needed} argument{plural}"
        yield f"method {function.name!r} of class {owner!r} takes {count} ({right})"


def _arity(arguments: ast.arguments, *, bound: bool) -> tuple[float, int]:
    """The most and the least positional arguments, without the first one of a bound method."""
    named = len(arguments.posonlyargs) + len(arguments.args)
    first = int(bound and named > 0)
    taken = float("inf") if arguments.vararg is not None else named - first
    return taken, max(0, named - first - len(arguments.defaults))


def _needs_keywords(arguments: ast.arguments) -> bool:
    return any(default is None for default in arguments.kw_defaults)


def _decorator(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
