"""A live view that fits the terminal: of a long table as many rows as there are lines for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

_MIN_TABLE_LINES = 3  # the head, a row, and the count of the other rows

Lines = list[list[Segment]]


@dataclass(frozen=True)
class Screen:
    """``head``, as many of the first ``rows`` as fit, the count of the others, and ``tail``.

    ``table`` makes a table of rows.  Of ``tail`` the last lines are shown, on a third of the terminal at
    most.  Lines are cut at the terminal's width: a line that wrapped would misplace the next redraw.
    """

    head: Sequence[RenderableType]
    rows: Sequence[Any]
    table: Callable[[Sequence[Any]], RenderableType]
    tail: Sequence[RenderableType] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cut = options.update(no_wrap=True, overflow="ellipsis")

        def lines_of(parts: Iterable[RenderableType]) -> Lines:
            return [line for part in parts for line in console.render_lines(part, cut, pad=False)]

        head, tail = lines_of(self.head), lines_of(self.tail)
        tail = tail[max(0, len(tail) - console.height // 3) :]
        room = max(_MIN_TABLE_LINES, console.height - len(head) - len(tail))
        lines, more = self._fitting(lambda rows: lines_of([self.table(rows)]), room)
        rest = [Text(f"and {more} more", style="dim")] if more else []
        for line in (*head, *lines, *lines_of(rest), *tail):
            yield from line
            yield Segment.line()

    def _fitting(self, table_of: Callable[[Sequence[Any]], Lines], room: int) -> tuple[Lines, int]:
        """The table of as many rows as fit into ``room`` lines, and the number of the other rows.

        A row may take several lines.
        """
        count = min(len(self.rows), max(1, room))
        while True:
            lines, more = table_of(self.rows[:count]), len(self.rows) - count
            over = len(lines) + bool(more) - room
            if over <= 0 or count <= 1:
                return lines[: room - bool(more)], more
            count -= max(1, min(count - 1, over * count // len(lines)))
