"""What is drawn again and again on a terminal: as much of a long table as it has lines for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

_LEAST = 3  # lines of a table: its head, a row, and how many there are more

Lines = list[list[Segment]]


@dataclass(frozen=True)
class Screen:
    """``head``, as many of the first ``rows`` as there is room for, how many more there are, and ``tail``.

    ``table`` makes a table of rows.  Of ``tail`` the last lines are shown, on a third of the terminal
    at most.  No line is longer than that is wide: it would take two, and the next picture be drawn in the
    wrong place.
    """

    head: Sequence[RenderableType]
    rows: Sequence[Any]
    table: Callable[[Sequence[Any]], RenderableType]
    tail: Sequence[RenderableType] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cut = options.update(no_wrap=True, overflow="ellipsis")

        def drawn(parts: Iterable[RenderableType]) -> Lines:
            return [line for part in parts for line in console.render_lines(part, cut, pad=False)]

        head, tail = drawn(self.head), drawn(self.tail)
        tail = tail[max(0, len(tail) - console.height // 3) :]
        room = max(_LEAST, console.height - len(head) - len(tail))
        lines, more = self._fitting(lambda rows: drawn([self.table(rows)]), room)
        rest = [Text(f"and {more} more", style="dim")] if more else []
        for line in (*head, *lines, *drawn(rest), *tail):
            yield from line
            yield Segment.line()

    def _fitting(self, drawn: Callable[[Sequence[Any]], Lines], room: int) -> tuple[Lines, int]:
        """The table of as many rows as fit into so many lines, and how many are left.

        A row may take several lines.
        """
        count = min(len(self.rows), max(1, room))
        while True:
            lines, more = drawn(self.rows[:count]), len(self.rows) - count
            over = len(lines) + bool(more) - room
            if over <= 0 or count <= 1:
                return lines[: room - bool(more)], more
            count -= max(1, min(count - 1, over * count // len(lines)))
