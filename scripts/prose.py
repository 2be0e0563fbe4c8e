"""Checks what users read, and how docstrings begin.

Three things are faults: a phrase of ``BANNED`` in a string of the product, in the help of a command, on the
dashboard, in the documentation or on a page of the benchmarks; a line of ``docs/`` that is longer than
``WIDTH``; and a docstring that begins with a clause ("What …", "Whether …") instead of a noun or a verb.
Names in code are not checked: a stored word, a field or an option keeps its spelling.

    python -m scripts.prose [DIRECTORY]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "speck",
    "speck_baselines",
    "binders",
    "jars_and_apps",
    "benchmarks",
    "scripts",
    "testbed",
    "tests",
)
PRODUCT = ("speck", "binders")  # their strings reach users: errors, events, help, descriptions of fields
ASSETS = ("speck/server/dashboard/assets", "jars_and_apps/geofencing/page/assets")
PAGES = ("README.md", "SECURITY.md", "docs/*.md", "benchmarks/README.md", "benchmarks/*/README.md")
WRAPPED = "docs/"  # pages whose lines are of bounded width
WIDTH = 110  # characters of a line of documentation; tables, code, headings and links may be longer

# A phrase that is not idiomatic in technical English, and better ones.  Where such a phrase has an ordinary
# sense, too, the expression excludes that sense.
BANNED = {
    r"so many\b": "that many, this long, N",
    r"(?:of its own accord|by (?:itself|themselves))\b": "automatically, on its own, separately",
    r"(?:go|goes|went|going) on\b(?! the)": "continue",
    r"no more\b(?! than)": "no longer",
    r"for good\b": "permanently",
    r"told\b": "reported, notified, distinguished",
    r"ha(?:s|ve) (?:it|them)\b(?! (?:been|already))": "contains it, lists it, provides it",
    r"in place of\b": "instead of, replaces",
    r"at work\b": "in progress, running",
    r"all the same\b": "nevertheless, anyway",
    r"as ever\b": "as before",
    r"wanted\b": "desired",
    r"in words\b": "as text",
    r"comes? into question\b": "is a candidate",
    r"work(?:s|ed|ing)? off\b": "process, drain",
    r"had better\b": "should",
    r"(?:take|takes|taken|took|taking) back\b": "revert",
    r"(?:give|gives|given|gave|giving) up\b": "discard, abandon",
    r"(?:out of|in|within) reach\b": "unreachable, reachable",
    r"(?:some|no)body\b": "someone, no one, a user",
    r"but for\b": "except",
    r"(?:stand|stands|stood|standing) still\b": "is down, is stopped",
    r"left behind\b": "abandoned",
    r"once more\b": "again",
    r"anew\b": "again",
    r"(?:pays?|paid) back\b": "breaks even",
    r"mend(?:s|ed|ing)?\b": "fix, repair",
    r"comes? to run\b": "starts to run",
    r"brings? (?:it|them) back\b": "restores",
}
# Whole strings that are stored or sent, and keep their spelling.
STORED = {"given up": "the kind of an event"}
_BANNED = re.compile(r"(?<![\w-])(?:" + "|".join(f"({phrase})" for phrase in BANNED) + ")", re.IGNORECASE)
_TERMS = tuple(BANNED.values())

CLAUSE = re.compile(
    r"(?:what|whatever|whether|who|whoever|whom|whose|which|how|why|where|when)(?![\w'-])", re.IGNORECASE
)


@dataclass(frozen=True, order=True)
class Finding:
    """One place in a file, and the fault there."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def banned(text: str) -> Iterator[tuple[int, str]]:
    """Each banned phrase in a text: its place, and the message."""
    for found in _BANNED.finditer(text):
        term = _TERMS[(found.lastindex or 1) - 1]
        yield found.start(), f"{' '.join(found[0].split())!r} is not idiomatic (rather: {term})"


# --- Python sources


def strings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The texts of a source that may reach a user: strings but docstrings, and the help of commands."""
    skipped = {id(node.value) for node in _bare_texts(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in skipped and _is_prose(text):
                yield text, node.lineno
            case ast.FunctionDef() if _is_command(node):
                yield ast.get_docstring(node) or "", node.body[0].lineno


def _is_prose(text: str) -> bool:
    """False for a single word, which is a key, a field or an option, and for what is stored."""
    return " " in text.strip() and text not in STORED


def _bare_texts(tree: ast.AST) -> Iterator[ast.Expr]:
    """The docstrings: of modules, classes and functions, and those behind a constant or a field."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node


def _is_command(function: ast.FunctionDef) -> bool:
    """True if a function is a command of click, whose docstring is its help."""
    names = (ast.unparse(each) for each in function.decorator_list)
    return any(re.match(r"[\w.]+\.(?:command|group)\(", name) for name in names)


def clause_docstrings(tree: ast.AST, path: str) -> Iterator[Finding]:
    """Each docstring of a source that begins with a clause instead of a noun or a verb."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if CLAUSE.match(text):
                yield Finding(path, node.body[0].lineno, f"begins with a clause: {text.splitlines()[0]}")


# --- the dashboard and the documentation

# Texts in a script: in quotes, and between the tags of a template.
_SHOWN = re.compile(r'"([^"\n]*)"|>([^<>{}$\n]*)(?=[<$])')
_CODE = re.compile(r"(?s)```.*?```|`[^`\n]+`|<!--.*?-->|(?<=\]\()[^)]*")


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """A text with what the pattern matches as blanks, so that lines keep their numbers."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def page_findings(text: str, path: str) -> Iterator[Finding]:
    """The banned phrases of a page beside its code, and its lines that are too long."""
    prose = _blanked(_CODE, text)
    for place, message in banned(prose):
        yield Finding(path, prose.count("\n", 0, place) + 1, message)
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and path.startswith(WRAPPED) and len(line) > WIDTH and _is_wrappable(line):
            yield Finding(path, number, f"{len(line)} characters in a line (at most {WIDTH})")


def _is_wrappable(line: str) -> bool:
    """True for prose: no table, heading or fence, and no long link or piece of code in the line."""
    if line.lstrip().startswith(("|", "#", "```", "<", "[", "![")):
        return False
    whole = re.sub(r"`[^`]*`", lambda span: span[0].replace(" ", "_"), line)
    return max(map(len, whole.split())) < WIDTH // 2


def script_findings(text: str, path: str) -> Iterator[Finding]:
    """The banned phrases in what a script of the dashboard shows."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _SHOWN.finditer(line.partition("// ")[0]):
            shown = found[1] or found[2] or ""
            if _is_prose(shown):
                yield from (Finding(path, number, message) for _, message in banned(shown))


# --- the tree


def sources(root: Path) -> Iterator[Path]:
    """The Python sources of the packages below a directory."""
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def examine(root: Path) -> list[Finding]:
    """The faults of texts that users read, and of docstrings, by path and line."""
    faults: list[Finding] = []
    for source in sources(root):
        path = source.relative_to(root).as_posix()
        tree = ast.parse(source.read_bytes(), path)
        faults += clause_docstrings(tree, path)
        if path.startswith(tuple(f"{each}/" for each in PRODUCT)):
            found = ((text, line) for text, line in strings(tree))
            faults += [Finding(path, line, message) for text, line in found for _, message in banned(text)]
    for script in sorted(script for folder in ASSETS for script in (root / folder).rglob("*.js")):
        if "vendor" not in script.parts:
            faults += script_findings(script.read_text("utf-8"), script.relative_to(root).as_posix())
    for pattern in PAGES:
        for page in sorted(root.glob(pattern)):
            faults += page_findings(page.read_text("utf-8"), page.relative_to(root).as_posix())
    return sorted(set(faults))


def main() -> int:
    """Print the faults to standard error; 1 if there are any."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.prose", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("directory", type=Path, nargs="?", default=ROOT, help="the tree [default: this one]")
    faults = examine(parser.parse_args().directory)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
