"""Faults of a query's text, with their places in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

_MOST_PLACES = 5  # of one fault, beside the first


@dataclass(frozen=True, slots=True)
class SqlFault:
    """A fault: its ``message``, and the 1-based ``line`` and ``column`` of the text (0: not known)."""

    message: str
    line: int = 0
    column: int = 0


class SqlError(Exception):
    """A query's text that cannot be run, with all its faults, each of them once."""

    def __init__(self, faults: Iterable[SqlFault]) -> None:
        self.faults = list(_once(faults))
        super().__init__("; ".join(each.message for each in self.faults))


def _once(faults: Iterable[SqlFault]) -> Iterator[SqlFault]:
    """The faults; one that is in several places, as a wrong name that is used again, names the others."""
    groups: dict[str, list[SqlFault]] = {}
    for each in dict.fromkeys(faults):
        groups.setdefault(each.message, []).append(each)
    for group in groups.values():
        first, *others = sorted(group, key=lambda each: (each.line, each.column))
        yield replace(first, message=f"{first.message}; likewise in {_places(others)}") if others else first


def _places(faults: Sequence[SqlFault]) -> str:
    more = len(faults) - _MOST_PLACES
    named = "; ".join(f"line {each.line}, column {each.column}" for each in faults[:_MOST_PLACES])
    return named + (f" and {more} more place{'s' * (more > 1)}" if more > 0 else "")


def place_in(text: str, offset: int) -> tuple[int, int]:
    """The 1-based line and column of a character of a text."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
