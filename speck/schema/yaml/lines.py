"""Mappings and lists that carry the lines of the text they were parsed from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, str] = MappingProxyType({})


class LinedDict(dict[str, Any]):
    """A mapping with the 1-based ``line`` of its start, and the line of each key in ``lines``.

    ``written`` has the text of each plain value that YAML reads otherwise than it looks, by key.
    """

    __slots__ = ("line", "lines", "written")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.written = _NOTHING


class LinedList(list[Any]):
    """A sequence with the 1-based ``line`` of its start, and the line of each item in ``lines``."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def written_in(container: object) -> Mapping[str, str]:
    """The texts of the plain values of a mapping that YAML reads otherwise than they look, by key."""
    return container.written if isinstance(container, LinedDict) else _NOTHING


def line_of(container: object, key: str | int | None = None) -> int | None:
    """The line of a key or item, or of the container itself; ``None`` for data without lines (JSON)."""
    if isinstance(container, LinedDict):
        return container.lines.get(key, container.line) if isinstance(key, str) else container.line
    if isinstance(container, LinedList):
        return container.lines[key] if isinstance(key, int) else container.line
    return None
