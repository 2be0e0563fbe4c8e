"""Modules beside a job's Python file that the file imports when it is loaded; pure, except for finding them.

A job's file travels alone, so that such an import fails at the engine.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_SCRIPT_TESTS = frozenset(("__name__ == '__main__'", "'__main__' == __name__", "TYPE_CHECKING"))


@dataclass(frozen=True, slots=True)
class SiblingImport:
    """An import of a module that is ``beside`` the file, in this line (from 1)."""

    line: int
    module: str
    beside: str

    def text(self, name: str, right: str) -> str:
        """The fault of the file of this name, as a sentence; ``right`` is what is expected."""
        return (
            f"{name}, line {self.line}: imports {self.module!r}, which is {self.beside} beside it and does "
            f"not come along with {name} (expected {right})"
        )


def packed(name: str, found: SiblingImport, entry: str) -> str:
    """The advice to pack a file and the modules beside it."""
    return (
        f"both in an archive: zip -r jobs.zip {name} {found.beside}, job_path: jobs.zip, "
        f"entry_class: {Path(name).stem}.{entry}"
    )


def sibling_import(tree: ast.Module, path: Path) -> SiblingImport | None:
    """The first import of a module beside the file at ``path``, of those that run when it is loaded."""
    for line, level, module in _imports(tree.body):
        top = module.partition(".")[0]
        beside = _beside(path, top)
        if beside is not None and (level or not _is_installed(top)):
            return SiblingImport(line, module, beside)
    return None


def _imports(statements: list[ast.stmt]) -> Iterator[tuple[int, int, str]]:
    """The line, the level and the module of each import that runs when the file is loaded.

    An import in a ``try`` may fail, and one in a function may not run.
    """
    for node in statements:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, 0, each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [each.name for each in node.names]
            yield from ((node.lineno, node.level, each) for each in names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) not in _SCRIPT_TESTS:
            yield from _imports([*node.body, *node.orelse])


def _beside(path: Path, top: str) -> str | None:
    """The file or folder of a module beside another one; ``None`` if there is none."""
    if top == path.stem or not top.isidentifier():
        return None
    if (path.parent / f"{top}.py").is_file():
        return f"{top}.py"
    folder = path.parent / top
    return top if folder.is_dir() and any(folder.glob("*.py")) else None


def _is_installed(top: str) -> bool:
    """True for a module of the standard library, or one that this Python has."""
    try:
        return top in sys.stdlib_module_names or find_spec(top) is not None
    except (ImportError, ValueError):
        return False
