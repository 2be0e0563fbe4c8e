"""Faults of a query's text, with their places in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SqlFault:
    """A fault: its ``message``, and the 1-based ``line`` and ``column`` of the text (0: not known)."""

    message: str
    line: int = 0
    column: int = 0


class SqlError(Exception):
    """A query's text that cannot be run, with all its faults."""

    def __init__(self, faults: list[SqlFault]) -> None:
        super().__init__("; ".join(each.message for each in faults))
        self.faults = faults


def place_in(text: str, offset: int) -> tuple[int, int]:
    """The 1-based line and column of a character of a text."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
