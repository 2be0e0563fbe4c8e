"""The code that a job reaches in its file, and the difference between two such: pure values.

A file's statements that a job does not reach, comments and formatting are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, unified_diff
from enum import StrEnum
from typing import Any

_MOST_LINES = 400  # of the difference of one part; more are counted and not shown
_NAMED = 3  # parts in a summary
_REQUESTED = "as requested"


@dataclass(frozen=True, slots=True)
class CodePart:
    """A statement at the top level of a file: a function, a class, an import, an assignment.

    ``form`` is equal for two statements that differ by comments and formatting alone; ``text`` is as written.
    """

    name: str
    form: str
    text: str


@dataclass(frozen=True, slots=True)
class ReachedCode:
    """The statements that a job reaches, in the order of its file.

    ``whole`` is the reason why that is all of them, where they could not be separated (empty: they could).
    """

    parts: tuple[CodePart, ...]
    whole: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of all parts, equal for code that does the same."""
        return tuple(each.form for each in self.parts)


class PartChangeKind(StrEnum):
    """The kinds of changes of a part."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REORDERED = "reordered"


@dataclass(frozen=True, slots=True)
class PartChange:
    """A part that differs: the number of its changed ``lines``, and the first of its unified ``diff``."""

    name: str
    kind: PartChangeKind
    lines: int
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeChange:
    """The change of a job's code from one content of its file to another.

    ``same`` is true if the job reaches nothing that changed.  ``whole`` is the reason why the whole file
    counts (empty: only what the job reaches).  ``parts`` is empty where the file has no readable ones.
    """

    file: str
    parts: tuple[PartChange, ...] = ()
    whole: str = ""
    same: bool = False

    def as_a_whole(self) -> CodeChange:
        """The change as one that counts, also where the job reaches nothing that changed."""
        return replace(self, same=False, whole=_REQUESTED) if self.same else self

    def __str__(self) -> str:
        """The change in words: ``air.py: `dirty` changed (2 lines)``."""
        if self.same:
            return f"{self.file} changed, but nothing that the job uses"
        why = f" (the whole file counts: {self.whole})" if self.whole else ""
        if not self.parts:
            return f"{self.file} changed{why}"
        more = len(self.parts) - _NAMED
        named = ", ".join(_part_text(each) for each in self.parts[:_NAMED])
        return f"{self.file}: {named}{f' and {more} more' if more > 0 else ''}{why}"


def _part_text(part: PartChange) -> str:
    many = f"{part.lines} line{'' if part.lines == 1 else 's'}"
    return f"`{part.name}` {part.kind.value}" + (f" ({many})" if part.lines else "")


def code_change(file: str, before: ReachedCode | None, after: ReachedCode | None) -> CodeChange:
    """The change between two codes of a job in ``file``, a name; ``None``: the statements are not known."""
    if before is None or after is None:
        return CodeChange(file)
    whole = after.whole or before.whole
    if before.forms == after.forms:
        return CodeChange(file, whole=whole, same=True)
    return CodeChange(file, tuple(_part_changes(before.parts, after.parts)), whole)


def _part_changes(before: Sequence[CodePart], after: Sequence[CodePart]) -> Iterator[PartChange]:
    old, new = _by_name(before), _by_name(after)
    found = False
    for name in [*new, *(each for each in old if each not in new)]:
        one, other = old.get(name, []), new.get(name, [])
        if [each.form for each in one] != [each.form for each in other]:
            found = True
            yield _part_change(name, one, other)
    if not found:
        pairs = zip((each.name for each in before), (each.name for each in after), strict=True)
        first = next(other for one, other in pairs if one != other)
        yield PartChange(first, PartChangeKind.REORDERED, 0)


def _by_name(parts: Sequence[CodePart]) -> dict[str, list[CodePart]]:
    found: dict[str, list[CodePart]] = {}
    for part in parts:
        found.setdefault(part.name, []).append(part)
    return found


def _part_change(name: str, before: Sequence[CodePart], after: Sequence[CodePart]) -> PartChange:
    kind = PartChangeKind.CHANGED if before and after else PartChangeKind.ADDED
    kind = kind if after else PartChangeKind.REMOVED
    old, new = _lines(before), _lines(after)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    lines = sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in blocks if tag != "equal")
    diff = list(unified_diff(old, new, lineterm="", n=1))[2:]  # without the names of files
    return PartChange(name, kind, lines, tuple(each for each in diff[:_MOST_LINES] if each[:2] != "@@"))


def _lines(parts: Sequence[CodePart]) -> list[str]:
    return [line for part in parts for line in part.text.splitlines()]


def changes_data(changes: Mapping[str, CodeChange], *, lines: bool) -> dict[str, dict[str, Any]]:
    """Changes of code as plain data, by job name.

    With ``lines``, the first job of each change has those that differ: a file may be that of thousands.
    """
    shown, data = set[CodeChange](), dict[str, dict[str, Any]]()
    for name, change in sorted(changes.items()):
        data[name] = code_data(change, lines=lines and change not in shown)
        shown.add(change)
    return data


def code_data(change: CodeChange, *, lines: bool) -> dict[str, Any]:
    """A change of code as plain data; with ``lines``, those that differ too."""
    return {
        "file": change.file,
        "summary": str(change),
        "whole": change.whole,
        "same": change.same,
        "parts": [
            {"name": each.name, "kind": each.kind.value, "lines": each.lines}
            | ({"diff": list(each.diff)} if lines else {})
            for each in change.parts
        ],
    }
