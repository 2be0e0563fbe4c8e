"""Checks the words of the Python sources: retired identifiers, and docstrings that begin with a clause.

Identifiers are the names that a source binds: modules, functions, classes, parameters, variables, attributes.
The words are those of docs/contributing.md; a name that is stored, sent, or used by binders of other
packages keeps its spelling, and is listed in ``ALLOWED`` with its reason.

    python -m scripts.prose [DIRECTORY]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("speck", "speck_learned", "binders", "jars_and_apps", "benchmarks", "scripts", "testbed", "tests")
MOST_CLAUSES = 20  # docstrings that begin with a clause

# A retired word, or several in a row, as parts of an identifier; and the term for it.
RETIRED = {
    "settle settles settled settling settler": "await_running, reap, finish",
    "turn turns": "gated plan, revision, order",
    "told tell tells telling": "answer, report, read",
    "stray strays": "orphan",
    "lookout": "startup probe",
    "ledger": "operation context",
    "leaver leave_behind": "abandoner",
    "leftover leftovers": "reaper",
    "belongings": "jar garbage collector",
    "parcel parcels": "transfer plan, submission",
    "orders": "spec",
    "carriage carrier": "state transfer",
    "errand errands": "task",
    "attend attends": "reconcile",
    "look looks": "observation",
    "sighting sightings": "found orphans",
    "gave give gives giving": "submit",
    "dismiss dismisses dismissed": "discard",
    "held": "suspended",
    "kept": "retained",
    "wanted": "desired",
    "taken_up take_up takes_up": "adopt, resume",
    "bring_out brings_out": "confirm_or_resubmit",
    "put_back puts_back": "roll_back",
    "work_off works_off worked_off": "drain",
    "given_up give_up gives_up": "dropped, abandoned",
}
# The term is abandoned; ``time_left`` and the left of two sides are other words.
LEFT = re.compile(r"_*left(_.*)?\Z")

# Names of users, stored records and binders of other packages: the sources that bind them, and the reason.
ALLOWED = {
    "wanted": ("speck/server/api/", "field of the REST interface"),
    "left_behind": ("", "field of the REST interface and of stored operations"),
    "leave_behind": ("", "parameter of the REST interface and option of the command line"),
    "give_up": ("", "parameter of the REST interface and option of the command line"),
    "left_state": ("", "method of a protocol that binders of other packages implement"),
    "kept_nothing": ("", "method of a protocol that binders of other packages implement"),
    "KEPT": ("speck/core/", "state of an action and outcome of a step, stored and in the REST interface"),
    "left": ("speck/cli/draw/", "the side of a drawing"),
    "settled": ("", "of a composition: each job has a site, each topic a home; none of the terms above"),
    "_settled": ("speck/core/draft.py", "the same of one job"),
    "LeftoverSchema": ("speck/server/api/", "component of the OpenAPI document"),
}

CLAUSE = re.compile(
    r"(?:what|whatever|whether|who|whoever|whom|whose|which|how|why|where|when)(?![\w'-])", re.IGNORECASE
)


@dataclass(frozen=True, order=True)
class Finding:
    """One place in a source, and the fault there."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


# --- identifiers


def words_of(identifier: str) -> list[str]:
    """The words of an identifier in lower case: ``_take_up`` and ``TakeUp`` have two."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)]


def _terms() -> dict[tuple[str, ...], str]:
    return {tuple(phrase.split("_")): term for phrases, term in RETIRED.items() for phrase in phrases.split()}


_TERMS = _terms()
_LONGEST = max(map(len, _TERMS))


def is_allowed(identifier: str, path: str) -> bool:
    """True if the identifier keeps its spelling in this source."""
    return identifier in ALLOWED and path.startswith(ALLOWED[identifier][0])


def retired_word(identifier: str) -> tuple[str, str] | None:
    """The retired word in an identifier with the term for it; ``None`` if there is none."""
    if LEFT.match(identifier):
        return "left", "abandoned, remaining"
    words = words_of(identifier)
    for length in range(1, _LONGEST + 1):
        for start in range(len(words) - length + 1):
            phrase = tuple(words[start : start + length])
            if phrase in _TERMS:
                return " ".join(phrase), _TERMS[phrase]
    return None


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a source binds, with their lines; a test is named by a sentence, and left out."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("test_"):
                    yield name, line
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name, line
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, line
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, line
            case (
                ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name))
            ):
                yield name, line


def retired_identifiers(tree: ast.AST, path: str) -> Iterator[Finding]:
    """Each retired word among the identifiers of a source, its module's name included."""
    module = Path(path).stem
    named = [] if module.startswith("test_") else [(module, 1)]
    for name, line in [*named, *identifiers(tree)]:
        found = None if is_allowed(name, path) else retired_word(name)
        if found is not None:
            word, term = found
            yield Finding(path, line, f"{name}: {word!r} is retired (rather: {term})")


# --- docstrings


def clause_docstrings(tree: ast.AST, path: str) -> Iterator[Finding]:
    """Each docstring of a source that begins with a clause instead of a noun or a verb."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if CLAUSE.match(text):
                yield Finding(path, node.body[0].lineno, f"begins with a clause: {text.splitlines()[0]}")


# --- the tree


def sources(root: Path) -> Iterator[Path]:
    """The Python sources of the packages below a directory."""
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def examine(root: Path) -> tuple[list[Finding], list[Finding]]:
    """The retired identifiers and the docstrings that begin with a clause."""
    retired: list[Finding] = []
    clauses: list[Finding] = []
    for source in sources(root):
        path = source.relative_to(root).as_posix()
        tree = ast.parse(source.read_bytes(), path)
        clauses += clause_docstrings(tree, path)
        retired += retired_identifiers(tree, path)
    return sorted(set(retired)), sorted(clauses)


def report(retired: Iterable[Finding], clauses: list[Finding]) -> list[str]:
    """The lines to print; none if the sources pass."""
    lines = [str(each) for each in retired]
    if len(clauses) > MOST_CLAUSES:
        lines += [str(each) for each in clauses]
        lines.append(f"{len(clauses)} docstrings begin with a clause (at most {MOST_CLAUSES})")
    return lines


def main() -> int:
    """Print the faults to standard error; 1 if there are any."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.prose", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("directory", type=Path, nargs="?", default=ROOT, help="the tree [default: this one]")
    lines = report(*examine(parser.parse_args().directory))
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
