"""The statements of a Python file that one of its functions reaches, read from the source without running it.

A function reaches the statements that bind the names it uses, and what those use, and so on: functions with
their decorators and defaults, classes with their bodies, imports, assignments.  A name in a literal string is
used too, as in an annotation.  Beside these count all statements that are not proven to be inert
(:mod:`binders.common.python_inert`), and what they reach: a subclass, a decorated function, a call, an import
of a module that may register something.  Names are compared without regard to scopes, so that a function may
be said to reach too much, and not too little.

Code that looks names up at run time may reach anything: then the whole file counts, and the reason is given.
Comments and formatting do not count, unless the code reads them; nor do docstrings of functions and classes
that are only called.
"""

from __future__ import annotations

import ast
import re
from ast import copy_location
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from binders.common.python_inert import PLAIN_DECORATORS, Function, Import, Scope, is_package, modules_of
from binders.common.python_source import BadSource, parsed
from speck.core.code import CodePart, ReachedCode

_Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign
_Definition = Function | ast.ClassDef
_Binding = _Definition | _Assignment | Import

# Functions that look names up, or read the module, at run time; and names under which modules are found.
_DYNAMIC = frozenset(
    (
        *("globals", "locals", "vars", "dir", "exec", "eval", "compile", "__import__", "import_module"),
        *("modules", "builtins", "__builtins__", "__main__", "runpy", "resolve_name", "gc", "_getframe"),
        *("__annotations__", "get_type_hints", "spec_from_file_location", "run_path", "currentframe"),
    )
)
_DYNAMIC_ATTRIBUTES = frozenset(
    (
        *("__globals__", "__builtins__", "f_globals", "f_locals", "tb_frame", "import_module", "modules"),
        *("globals", "locals", "exec", "__import__", "_getframe", "resolve_name", "get_type_hints"),
        *("__annotations__", "spec_from_file_location", "run_path", "run_module", "__subclasses__"),
    )
)
# Readers of the file's own text, to which a comment matters.
_READS_TEXT = frozenset(
    (
        *("__doc__", "__file__", "inspect", "linecache", "pydoc", "doctest", "traceback", "getdoc"),
        *("f_lineno", "tb_lineno", "co_firstlineno", "co_lines", "__loader__", "__spec__", "findCaller"),
    )
)
_SCRIPT_TESTS = frozenset(("__name__ == '__main__'", "'__main__' == __name__"))
_NAME_LENGTH = 40  # characters of a statement that has no name
_LINE_END = re.compile(r"\r\n|\r|\n")  # those of Python; ``splitlines`` knows more
_WORDS = re.compile(r"\w+")


def reached_code(source: bytes, entry: str | None, where: str) -> ReachedCode:
    """The code that the function or class ``entry`` of a source reaches; ``None`` runs it as a script.

    Raises :class:`~binders.common.python_source.BadSource`.
    """
    try:
        module = _Module(parsed(source, where), source.decode("utf-8-sig", "backslashreplace"), where)
        return _reached(module, entry)
    except RecursionError as error:
        raise BadSource(f"{where!r} is nested too deeply for Python to read") from error


def reached_statements(source: bytes, entry: str, where: str) -> list[ast.stmt]:
    """The statements that the function or class ``entry`` reaches; all of the file if it has no such name.

    Raises :class:`~binders.common.python_source.BadSource`.
    """
    try:
        module = _Module(parsed(source, where), "", where)
        known = entry in module.bindings
        return [each.node for each in (module.reach(entry) if known else module.statements)]
    except RecursionError as error:
        raise BadSource(f"{where!r} is nested too deeply for Python to read") from error


def _reached(module: _Module, entry: str | None) -> ReachedCode:
    if entry is None:
        return module.code(module.statements, "it runs as a script")
    if module.star:
        return module.code(module.statements, f"it imports * from {module.star}")
    if entry not in module.bindings:
        return module.code(module.statements, f"{entry!r} is bound by a condition or at run time")
    reached = module.reach(entry)
    for statement in reached:
        if (dynamic := statement.dynamic - module.defined) or (dynamic := statement.reads):
            name = min(dynamic)
            return module.code(module.statements, f"`{statement.name}` uses {name}", name)
    return module.code(reached)


@dataclass(eq=False)
class _Statement:
    """A statement at the top level: the names that it ``binds``, and those that it ``uses``.

    Its parts too have ``written`` and ``deleted`` names.
    """

    node: ast.stmt
    binds: tuple[str, ...]
    uses: frozenset[str]
    written: frozenset[str]
    deleted: frozenset[str]
    name: str
    dynamic: frozenset[str]
    reads: frozenset[str]
    packages: frozenset[str]


class _Module:
    def __init__(self, tree: ast.Module, text: str, where: str) -> None:
        self._text = text
        self._lines = _LINE_END.split(text)
        nodes = (each for node in tree.body if not _is_idle(node) for each in _one_by_one(node))
        self.statements = [_statement(each, where) for each in nodes]
        self.bindings: dict[str, list[_Statement]] = {}
        for statement in self.statements:
            for name in statement.binds:
                self.bindings.setdefault(name, []).append(statement)
        self.star = next(filter(None, map(_star_of, tree.body)), "")
        self._always = _not_inert(self.statements, self.bindings)
        # A function of the file may have the name of one that looks names up.
        self.defined = {
            name
            for name, bound in self.bindings.items()
            if all(isinstance(each.node, _Definition) for each in bound)
        }

    def reach(self, entry: str) -> list[_Statement]:
        """The statements that a name reaches, and those that always count, in the order of the file."""
        found = set(self.bindings[entry]) | self._always
        waiting = list(found)
        while waiting:
            statement = waiting.pop()
            for each in self._next(statement):
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return [each for each in self.statements if each in found]

    def _next(self, statement: _Statement) -> Iterator[_Statement]:
        for name in statement.uses:
            yield from self.bindings.get(name, ())
        for package in statement.packages:  # ``import xml`` has what ``import xml.dom`` loads
            yield from (each for each in self.statements if package in each.packages)

    def code(self, statements: Iterable[_Statement], whole: str = "", read: str = "") -> ReachedCode:
        """The code of these statements; ``read`` names what reads the text, or other dynamic code."""
        if read and read not in _DYNAMIC | _DYNAMIC_ATTRIBUTES:
            return ReachedCode((CodePart("the text", self._text, self._text),), whole)
        counted = list(statements)
        values = _values(counted)
        return ReachedCode(tuple(self._part(each, values) for each in counted), whole)

    def _part(self, statement: _Statement, values: Collection[str]) -> CodePart:
        node = statement.node
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        text = "\n".join(self._lines[first - 1 : node.end_lineno])
        _strip_docstrings(node, values)
        return CodePart(statement.name, ast.dump(node, annotate_fields=False), text)


def _not_inert(
    statements: Sequence[_Statement], bindings: dict[str, list[_Statement]]
) -> frozenset[_Statement]:
    """The statements that may do more than to bind their names."""
    written = {name for each in statements for name in each.written}
    deleted = {name for each in statements for name in each.deleted}
    lazy = any(
        isinstance(each.node, ast.ImportFrom) and each.binds == ("annotations",) for each in statements
    )
    bound, plain, found = set[str](), set[str](), set[_Statement]()
    for statement in statements:
        node = statement.node
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and Scope(bound - deleted, written, plain, lazy).is_inert(node):
            if isinstance(node, _Definition) and _defined_once(bindings[node.name]):
                plain.add(node.name)
        elif future or "__name__" in written or not _is_script(node):
            found.add(statement)
        if not (isinstance(node, ast.AnnAssign) and node.value is None) and isinstance(node, _Binding):
            bound.update(statement.binds)
    return frozenset(found)


def _defined_once(bound: Sequence[_Statement]) -> bool:
    """True if all statements that bind a name but one set its attributes."""
    return sum(1 for each in bound if not _root_only(each.node)) == 1


def _written(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for each in nodes:
        if isinstance(each, _Definition):
            yield each.name
        elif isinstance(each, Import):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in each.names)
        elif isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id


def _deleted(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for each in nodes:
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Del):
            yield each.id
        elif isinstance(each, ast.ExceptHandler) and each.name:
            yield each.name


def _statement(node: ast.stmt, where: str) -> _Statement:
    names, attributes, imported = set[str](), set[str](), set[str]()
    words, given, reads, packages = set[str](), set[str](), set[str](), set[str]()
    nodes = list(ast.walk(node))  # once: it takes most of the time
    idle = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for each in nodes:
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Global):
            names.update(each.names)
        elif isinstance(each, ast.Attribute):
            attributes.add(each.attr)
        elif isinstance(each, Import):
            modules = modules_of(each)
            imported |= {alias.name for alias in each.names} | set(modules)
            packages |= set(filter(is_package, (module.partition(".")[0] for module in modules)))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in idle:
            words.update(found := _WORDS.findall(each.value))
            # ``getattr(function, "__globals__")``; other words of a longer text are words of a language.
            given |= {word for word in found if word == each.value or word.startswith("__")}
            reads |= {where} if where in each.value else set()
    binds = tuple(_bound(node))
    itself = {PurePath(where).stem, f"speck_job_{PurePath(where).stem}"}
    dotted = {part for each in imported for part in each.split(".")}
    used = names | dotted | given
    return _Statement(
        node=node,
        binds=binds,
        uses=frozenset(names | words),
        written=frozenset(_written(nodes)),
        deleted=frozenset(_deleted(nodes)),
        name=", ".join(binds) if isinstance(node, _Binding) and binds else _shortened(node),
        dynamic=frozenset(used & _DYNAMIC | (attributes | given) & _DYNAMIC_ATTRIBUTES | dotted & itself),
        reads=frozenset((used | attributes) & _READS_TEXT | reads),
        packages=frozenset(packages),
    )


def _one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as one import for each: a job may use one of them."""
    if not isinstance(node, Import) or len(node.names) == 1:
        return [node]
    return [copy_location(_with_names(node, [alias]), node) for alias in node.names]


def _with_names(node: Import, names: list[ast.alias]) -> Import:
    if isinstance(node, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(node.module, names, node.level)


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, _Assignment):
        yield from dict.fromkeys(filter(None, map(_root, _targets(node))))
        yield from (each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr))


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    given = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        given = [node.target]
    waiting = list(given)
    while waiting:
        target = waiting.pop(0)
        if isinstance(target, ast.Tuple | ast.List):
            waiting = [*target.elts, *waiting]
        else:
            yield target.value if isinstance(target, ast.Starred) else target


def _root(node: ast.expr) -> str | None:
    """The name that an attribute or an item belongs to in the end."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _root_only(node: ast.stmt) -> bool:
    """True if a statement binds no name but changes a part of one."""
    targets = list(_targets(node))
    return bool(targets) and not any(isinstance(each, ast.Name) for each in targets)


def _is_idle(node: ast.stmt) -> bool:
    """True if a statement does nothing."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_script(node: ast.stmt) -> bool:
    """True if a statement runs only where the file is run as a script, which is said by its test."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) in _SCRIPT_TESTS


def _star_of(node: ast.stmt) -> str:
    found = isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names)
    return (node.module or ".") if found and isinstance(node, ast.ImportFrom) else ""


def _values(statements: Iterable[_Statement]) -> frozenset[str]:
    """The names that statements use as values, and do not only call: others may read their docstrings."""
    found = set[str]()
    for statement in statements:
        called = {id(each.func) for each in ast.walk(statement.node) if isinstance(each, ast.Call)}
        for each in ast.walk(statement.node):
            if isinstance(each, ast.Name | ast.Attribute) and id(each) not in called:
                found.add(each.id if isinstance(each, ast.Name) else each.attr)
    return frozenset(found)


def _strip_docstrings(node: ast.AST, values: Collection[str]) -> None:
    """Remove the docstrings that nothing reads: of functions and plain classes that are only called."""
    if isinstance(node, _Definition):
        plain = all(
            isinstance(each, ast.Name) and each.id in PLAIN_DECORATORS for each in node.decorator_list
        )
        derived = isinstance(node, ast.ClassDef) and (node.bases or node.keywords)
        if not plain or derived or node.name in values:
            return
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
    for each in ast.iter_child_nodes(node):
        _strip_docstrings(each, values)


def _shortened(node: ast.stmt) -> str:
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
