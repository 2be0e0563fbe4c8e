"""Tables that suit programs in a pipe, and terminals of any width.

In a pipe all columns are printed.  On a terminal that is too narrow for them, empty columns are omitted;
where words would still be broken, each row is printed in lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement, measure_renderables
from rich.table import Table
from rich.text import Text

from speck.cli.render.values import STATES

_EMPTY = "-"
_UNBOUNDED = 100_000  # columns
_BETWEEN = 2
_INDENT, _APART = "  ", "   "


class FittingTable(Table):
    """A table that adapts to a terminal which is too narrow for it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if not console.is_terminal or _sum(each.maximum for each in self._ranges(console)) <= width:
            yield from super().__rich_console__(console, options)
            return
        filled = self._filled()
        ranges = filled._ranges(console)
        if _sum(each.minimum for each in ranges) <= width:
            filled._set_widths(width, ranges)
            yield from Table.__rich_console__(filled, console, options)
        else:
            yield from filled._paragraphs(console, width)

    def _ranges(self, console: Console) -> list[Measurement]:
        """The widths of each column: the least that breaks no word, and the least that breaks no line."""
        options = console.options.update_width(_UNBOUNDED)
        return [
            measure_renderables(console, options, [Text(str(each.header)), *map(_text, each.cells)])
            for each in self.columns
        ]

    def _filled(self) -> FittingTable:
        """The table without empty columns, except for the first one."""
        columns = [
            column
            for number, column in enumerate(self.columns)
            if number == 0 or any(cell != _EMPTY for cell in column.cells)
        ]
        made = _empty(str(column.header) for column in columns)
        for column, new in zip(columns, made.columns, strict=True):
            new.justify, new.no_wrap, new.overflow = column.justify, column.no_wrap, column.overflow
        for cells in zip(*(column.cells for column in columns), strict=True):
            made.add_row(*cells)
        return made

    def _set_widths(self, width: int, ranges: Sequence[Measurement]) -> None:
        """Set the columns' widths: the least that breaks no word, and a fair share of the rest."""
        spare = width - _sum(each.minimum for each in ranges)
        pairs = sorted(zip(self.columns, ranges, strict=True), key=lambda pair: pair[1].span)
        for place, (column, (least, most)) in enumerate(pairs):
            column.width = least + min(most - least, spare // (len(pairs) - place))
            spare -= column.width - least

    def _paragraphs(self, console: Console, width: int) -> Iterator[Text]:
        first, *others = self.columns
        for name, *cells in zip(*(column.cells for column in self.columns), strict=True):
            yield Text.assemble((str(first.header), "bold"), " ", _text(name))
            cells_shown = [
                Text.assemble((f"{column.header} ", "dim"), _text(cell))
                for column, cell in zip(others, cells, strict=True)
                if cell != _EMPTY
            ]
            for line in _flowing(cells_shown, max(1, width - len(_INDENT)), console):
                yield Text(_INDENT) + line


def _flowing(parts: Iterable[Text], width: int, console: Console) -> Iterator[Text]:
    """Lines of whole parts, as many as fit; a part longer than a line is broken between words."""
    line = Text()
    for part in parts:
        if line and cell_len(line.plain) + len(_APART) + cell_len(part.plain) <= width:
            line = line + _APART + part
            continue
        if line:
            yield line
        *whole, line = part.wrap(console, width, overflow="fold", no_wrap=False)
        yield from whole
    if line:
        yield line


def _sum(widths: Iterable[int]) -> int:
    """The width of columns, the gaps between them included."""
    each = list(widths)
    return sum(each) + _BETWEEN * (len(each) - 1)


def _text(cell: Any) -> Text:
    return Text.from_markup(str(cell))


def table(columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> FittingTable:
    """A table whose columns are separated by spaces alone, for programs too."""
    made = _empty(columns)
    for row in rows:
        made.add_row(*(_cell(each) for each in row))
    return made


def _empty(columns: Iterable[str]) -> FittingTable:
    made = FittingTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def _cell(value: Any) -> str:
    text = _EMPTY if value is None or value == "" else str(value)
    style = STATES.get(text)
    return f"[{style}]{text}[/]" if style else escape(text)
