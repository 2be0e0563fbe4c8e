"""The statements of a Python file that one of its functions reaches, read from the source without running it.

A function reaches the statements that bind the names it uses, and what those use, and so on: functions with
their decorators and defaults, classes with their bodies, imports, assignments.  Beside these count all that
runs when the file is imported and may change more than the names it binds: any statement that is neither a
definition, an assignment nor an import; an ``import`` whose name nobody uses; and a definition or assignment
that changes a name of the module (as a decorator that registers its function does).  Names are compared
without regard to scopes, so that a function may be said to reach too much, and not too little.

Code that looks names up at run time may reach anything: then the whole file counts, and the reason is given.
Comments, formatting and docstrings do not count, unless the code reads them.
"""

from __future__ import annotations

import ast
from ast import copy_location
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binders.common.python_source import BadSource, parsed
from speck.core.code import CodePart, ReachedCode

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign
_Import = ast.Import | ast.ImportFrom
_Binding = _Function | ast.ClassDef | _Assignment | _Import

# Functions that look names up, or read the module, at run time.
_DYNAMIC = frozenset(
    ("globals", "locals", "vars", "dir", "exec", "eval", "compile", "__import__", "import_module")
)
_DYNAMIC_ATTRIBUTES = frozenset(("__globals__", "f_globals", "import_module", "sys.modules"))
# Readers of the file's own text, to which a comment matters.
_READS_TEXT = frozenset(("__doc__", "__file__", "inspect", "linecache"))
_SCRIPT_TESTS = frozenset(("__name__ == '__main__'", "'__main__' == __name__"))
_NAME_LENGTH = 40  # characters of a statement that has no name


def reached_code(source: bytes, entry: str | None, where: str) -> ReachedCode:
    """The code that the function or class ``entry`` of a source reaches; ``None`` runs it as a script.

    Raises :class:`~binders.common.python_source.BadSource`.
    """
    try:
        module = _Module(parsed(source, where), source.decode("utf-8-sig", "replace").splitlines())
        return _reached(module, entry)
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
        if (dynamic := statement.dynamic - module.bindings.keys()) or (dynamic := statement.reads):
            name = min(dynamic)
            return module.code(module.statements, f"`{statement.name}` uses {name}", name)
    return module.code(reached)


@dataclass(eq=False)
class _Statement:
    """A statement at the top level: the names that it ``binds``, and those that it ``uses``."""

    node: ast.stmt
    binds: tuple[str, ...]
    uses: frozenset[str]
    name: str
    dynamic: frozenset[str]
    reads: frozenset[str]


class _Module:
    def __init__(self, tree: ast.Module, lines: list[str]) -> None:
        self._lines = lines
        nodes = (each for node in tree.body if not _is_idle(node) for each in _one_by_one(node))
        self.statements = list(map(_statement, nodes))
        self.bindings: dict[str, list[_Statement]] = {}
        for statement in self.statements:
            for name in statement.binds:
                self.bindings.setdefault(name, []).append(statement)
        self.star = next(filter(None, map(_star_of, tree.body)), "")
        self._used = frozenset(name for each in self.statements for name in each.uses)

    def reach(self, entry: str) -> list[_Statement]:
        """The statements that a name reaches, and those that always count, in the order of the file."""
        found = set(self.bindings[entry]) | {each for each in self.statements if self._always(each)}
        waiting = list(found)
        while waiting:
            for name in waiting.pop().uses:
                for statement in self.bindings.get(name, ()):
                    if statement not in found:
                        found.add(statement)
                        waiting.append(statement)
        return [each for each in self.statements if each in found]

    def _always(self, statement: _Statement) -> bool:
        """True if the statement may do more than to bind its names."""
        node = statement.node
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return True
        if isinstance(node, _Import):
            return isinstance(node, ast.Import) and not self._used.intersection(statement.binds)
        if not isinstance(node, _Binding):
            return not _is_script(node)
        if any(self._is_foreign(each) for each in _targets(node) if not isinstance(each, ast.Name)):
            return True
        return self._changes_module(node)

    def _is_foreign(self, target: ast.expr) -> bool:
        """True if the root of a target, as of ``os.environ["A"] = "b"``, is not assigned in this file."""
        bound = self.bindings.get(_root(target) or "", ())
        return all(isinstance(each.node, _Import) or _root_only(each.node) for each in bound)

    def _changes_module(self, node: ast.stmt) -> bool:
        """True if the import of a statement runs code that may change another name of the module."""
        waiting, called = _run_at_import(node), set[str]()
        while waiting:
            each = waiting.pop()
            if self._is_change(each):
                return True
            for name in self._called_by(each) - called:
                called.add(name)
                waiting += [one for bound in self.bindings[name] for one in ast.walk(bound.node)]
        return False

    def _called_by(self, node: ast.AST) -> set[str]:
        """The names of this file that a call, or the decorators of a definition, may call."""
        if isinstance(node, ast.Call) and self._is_own(_root(node.func)):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            return set(filter(self._is_own, names))
        own = filter(self._is_own, map(_root, getattr(node, "decorator_list", ())))
        return {name for name in own if name is not None}

    def _is_own(self, name: str | None) -> bool:
        """True if a statement of this file makes what a name is bound to."""
        return any(not isinstance(each.node, _Import) for each in self.bindings.get(name or "", ()))

    def _is_change(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Global):
            return True
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return self._is_own(_root(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            bound = self.bindings.get(_root(node.func) or "", ())
            return any(isinstance(each.node, _Assignment) for each in bound)
        return False

    def code(self, statements: Iterable[_Statement], whole: str = "", read: str = "") -> ReachedCode:
        """The code of these statements; ``read`` names what reads the text, or other dynamic code."""
        if read in _READS_TEXT:
            text = "\n".join(self._lines)
            return ReachedCode((CodePart("the text", text, text),), whole)
        return ReachedCode(tuple(map(self._part, statements)), whole)

    def _part(self, statement: _Statement) -> CodePart:
        node = statement.node
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        text = "\n".join(self._lines[first - 1 : node.end_lineno])
        for each in ast.walk(node):
            _strip_docstring(each)
        return CodePart(statement.name, ast.dump(node, annotate_fields=False), text)


def _statement(node: ast.stmt) -> _Statement:
    names, attributes, imported = set[str](), set[str](), set[str]()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Global):
            names.update(each.names)
        elif isinstance(each, ast.Attribute):
            attributes.add(each.attr)
            if each.attr == "modules" and _root(each) == "sys":
                attributes.add("sys.modules")
        elif isinstance(each, _Import):
            imported |= {alias.name for alias in each.names} | {str(getattr(each, "module", ""))}
    binds = tuple(_bound(node))
    return _Statement(
        node,
        binds,
        frozenset(names),
        ", ".join(binds) if isinstance(node, _Binding) and binds else _shortened(node),
        frozenset((names | imported) & _DYNAMIC | attributes & _DYNAMIC_ATTRIBUTES),
        frozenset((names | imported | attributes) & _READS_TEXT),
    )


def _one_by_one(node: ast.stmt) -> list[ast.stmt]:
    """An import of several names as one import for each: a job may use one of them."""
    if not isinstance(node, _Import) or len(node.names) == 1:
        return [node]
    return [copy_location(_with_names(node, [alias]), node) for alias in node.names]


def _with_names(node: _Import, names: list[ast.alias]) -> _Import:
    if isinstance(node, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(node.module, names, node.level)


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, _Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, _Import):
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


def _run_at_import(node: ast.stmt) -> list[ast.AST]:
    """The nodes of a definition or an assignment that run when the file is imported."""
    if isinstance(node, _Import):
        return []
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [node]
    if isinstance(node, _Assignment):
        waiting = [node.value] if node.value is not None else []
    while waiting:
        each = waiting.pop()
        found.append(each)
        children = ast.iter_child_nodes(each)
        if isinstance(each, _Function | ast.Lambda):  # its body does not run yet
            ran = [each.args, *getattr(each, "decorator_list", ())]
            waiting += ran
        else:
            waiting += children
    return found


def _is_idle(node: ast.stmt) -> bool:
    """True if a statement does nothing."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_script(node: ast.stmt) -> bool:
    """True if a statement runs only where the file is run as a script, which is said by its test."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) in _SCRIPT_TESTS


def _star_of(node: ast.stmt) -> str:
    found = isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names)
    return (node.module or ".") if found and isinstance(node, ast.ImportFrom) else ""


def _strip_docstring(node: ast.AST) -> None:
    if not isinstance(node, _Function | ast.ClassDef) or not node.body:
        return
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        node.body = node.body[1:] or [ast.Pass()]


def _shortened(node: ast.stmt) -> str:
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"
