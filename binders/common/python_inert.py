"""Proof that a statement of a Python file does nothing but bind its names, read from the source alone.

A statement that is proven inert can be edited without any effect on code that does not use its names.  The
proof knows few forms: an undecorated function, a plain class, literals, names that are bound already, and
imports of modules that define names and register nothing.  Every other statement may have an effect: a
subclass is known to its base, a decorator may register its function, an import may run code.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom

# Modules of the standard library with an effect of their import, or that run other code.
_WITH_EFFECT = frozenset(("antigravity", "idlelib", "lib2to3", "site", "test", "this", "turtledemo"))
_STANDARD = frozenset(sys.stdlib_module_names) - _WITH_EFFECT
# Packages of the engines that only define names.  ``pyspark.pandas`` is none: its import changes classes.
_OF_ENGINES = ("pyspark.sql", "pyflink.common", "pyflink.datastream", "pyflink.table", "speck_flink")
_BUILTINS = frozenset(vars(builtins))
# Decorators whose only effect is the attribute of the class.
PLAIN_DECORATORS = frozenset(("classmethod", "property", "staticmethod"))
_GENERIC = frozenset(("dict", "frozenset", "list", "set", "tuple", "type"))
_TYPES = _GENERIC | frozenset(("bool", "bytes", "complex", "float", "int", "object", "str"))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)


@dataclass(frozen=True)
class Scope:
    """The names at a statement: those ``bound`` by now, and those ``written`` anywhere in the file.

    ``plain`` are those that are bound by inert definitions alone.  ``lazy``: annotations are not evaluated.
    """

    bound: Set[str]
    written: Set[str]
    plain: Set[str]
    lazy: bool

    def is_inert(self, node: ast.stmt) -> bool:
        """True if a statement at the top level is proven to do nothing but bind its names."""
        if any(map(_is_special, _names_of(node))):
            return False  # such as ``__name__`` and ``__getattr__``, which Python itself reads
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return not node.decorator_list and self._signature(node)
            case ast.ClassDef():
                return self._plain_class(node)
            case ast.Assign():
                return all(map(self._target, node.targets)) and self._value(node.value)
            case ast.AnnAssign():
                given = node.value is None or self._value(node.value)
                return given and self._target(node.target) and self._annotation(node.annotation)
            case ast.Import() | ast.ImportFrom():
                return all(map(_only_defines, modules_of(node)))
            case _:
                return False

    def _target(self, target: ast.expr) -> bool:
        """True for a name, or an attribute of a function or a class that this file defines once."""
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            name = target.value.id
            return name in self.plain and name in self.bound and not _is_special(target.attr)
        return isinstance(target, ast.Name)

    def _signature(self, node: Function | ast.Lambda) -> bool:
        """True if the defaults and annotations of a function do nothing when it is defined."""
        given = node.args
        defaults = [*given.defaults, *filter(None, given.kw_defaults)]
        optional = filter(None, (given.vararg, given.kwarg))
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, *optional]
        annotations = [each.annotation for each in parameters] + [getattr(node, "returns", None)]
        return all(map(self._value, defaults)) and all(map(self._annotation, annotations))

    def _plain_class(self, node: ast.ClassDef) -> bool:
        """True if a class has no base, metaclass or decorator, and a body that calls nothing."""
        bases = all(
            isinstance(each, ast.Name) and self._is_builtin(each.id, {"object"}) for each in node.bases
        )
        return bases and not node.keywords and not node.decorator_list and all(map(self._member, node.body))

    def _member(self, node: ast.stmt) -> bool:
        # Python calls ``__set_name__`` of the values in a class: literals alone are known to have none.
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._signature(node) and all(map(self._plain_decorator, node.decorator_list))
            case ast.Assign(targets=targets, value=value):
                return is_literal(value) and all(map(_is_plain_name, targets))
            case ast.AnnAssign(target=target, value=value):
                literal = value is None or is_literal(value)
                return literal and _is_plain_name(target) and self._annotation(node.annotation)
            case _:
                return False

    def _plain_decorator(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self._is_builtin(node.id, PLAIN_DECORATORS)

    def _annotation(self, node: ast.expr | None) -> bool:
        return node is None or self.lazy or self._type(node) or self._value(node)

    def _type(self, node: ast.expr) -> bool:
        """True for a type of builtin ones, such as ``dict[str, int] | None``."""
        match node:
            case ast.Name():
                return self._is_builtin(node.id, _TYPES)
            case ast.Constant(value=None):
                return True
            case ast.BinOp(left=one, op=ast.BitOr(), right=other):
                both_none = isinstance(one, ast.Constant) and isinstance(other, ast.Constant)
                return not both_none and self._type(one) and self._type(other)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=inner)):
                return self._is_builtin(name, _GENERIC) and all(map(self._type, inner))
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                return self._is_builtin(name, _GENERIC) and self._type(inner)
            case _:
                return False

    def _value(self, node: ast.expr) -> bool:
        """True for an expression that calls nothing and cannot fail."""
        match node:
            case ast.Name():
                return node.id in self.bound or self._is_builtin(node.id, _BUILTINS)
            case ast.Lambda():
                return self._signature(node)
            case ast.Tuple(elts=inner) | ast.List(elts=inner):
                return all(map(self._value, inner))
            case ast.Dict(keys=keys, values=values):
                return all(map(_is_key, keys)) and all(map(self._value, values))
            case _:
                return is_literal(node)

    def _is_builtin(self, name: str, among: Iterable[str]) -> bool:
        return name in among and name not in self.written


def is_literal(node: ast.expr) -> bool:
    """True for a literal, a display of literals, and arithmetic with numbers."""
    match node:
        case ast.Constant():
            return True
        case ast.Tuple(elts=inner) | ast.List(elts=inner):
            return all(map(is_literal, inner))
        case ast.Set(elts=inner):
            return all(map(_is_key, inner))
        case ast.Dict(keys=keys, values=values):
            return all(map(_is_key, keys)) and all(map(is_literal, values))
        case _:
            return _is_number(node)


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=one, op=operator, right=other):
            return isinstance(operator, _ARITHMETIC) and _is_number(one) and _is_number(other)
        case _:
            return False


def _is_key(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant)  # any other may not be hashable, or may have a ``__hash__``


def _names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name for alias in node.names]
        case _:
            return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _is_store(each)]


def _is_store(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_plain_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and not _is_special(node.id)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


# --- imports


def modules_of(node: Import) -> list[str]:
    """The modules that an import may run, as far as its text says; relative ones begin with a dot."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


def _only_defines(module: str) -> bool:
    of_engine = any(f"{module}.".startswith(f"{each}.") for each in _OF_ENGINES)
    return of_engine or module.partition(".")[0] in _STANDARD


@cache
def is_package(top: str) -> bool:
    """True for a package of the standard library: an import of one of its modules shows in the package."""
    found = find_spec(top) if top in _STANDARD else None  # of a top-level name: nothing is imported
    return found is not None and found.submodule_search_locations is not None
