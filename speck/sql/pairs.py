"""The pairs of rows of a join: the reference of those of the engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from speck.sql.operators import Row, Value
from speck.sql.program import Join

_Rows = list[Row]


@dataclass
class WindowPairs:
    """The pairs in windows: both rows have one key, and are in one window.

    ``mark`` is the watermark: no window that ends before it is open.  ``late`` counts rows without an open
    window.
    """

    join: Join
    mark: int | None = None
    late: int = 0
    _open: dict[int, dict[tuple[Value, ...], tuple[_Rows, _Rows]]] = field(default_factory=dict)

    def add(self, side: int, row: Row) -> Iterator[Row]:
        """Add a row; its pairs come once its windows are closed."""
        windows = self.join.windows
        starts = [
            each for each in windows.starts(row[0]) if self.mark is None or each + windows.size_ms > self.mark
        ]
        self.late += not starts
        for start in starts:
            self._open.setdefault(start, {}).setdefault(_key(self.join, row), ([], []))[side].append(row)
        return iter(())

    def advance(self, mark: int) -> Iterator[Row]:
        """Move the watermark; returns the pairs of the windows that it closes, in order."""
        self.mark = mark if self.mark is None else max(self.mark, mark)
        for start in sorted(self._open):
            if start + self.join.windows.size_ms <= self.mark:
                yield from self._taken(start)

    def close(self) -> Iterator[Row]:
        """The pairs of the windows that are still open."""
        for start in sorted(self._open):
            yield from self._taken(start)

    def _taken(self, start: int) -> Iterator[Row]:
        end = start + self.join.windows.size_ms
        for left, right in self._open.pop(start).values():
            yield from ([start, end, *one, *other] for one in left for other in right)


@dataclass
class TimedPairs:
    """The pairs whose times differ by no more than the bounds, once both rows are there.

    ``late`` counts the rows that are earlier than the watermark ``mark``.
    """

    join: Join
    mark: int | None = None
    late: int = 0
    _kept: dict[tuple[Value, ...], tuple[_Rows, _Rows]] = field(default_factory=dict)

    def add(self, side: int, row: Row) -> Iterator[Row]:
        """Add a row; returns its pairs with the rows before it."""
        if self.mark is not None and row[0] < self.mark:
            self.late += 1
            return
        low, high = self.join.bounds or (0, 0)
        kept = self._kept.setdefault(_key(self.join, row), ([], []))
        kept[side].append(row)
        for each in kept[1 - side]:
            one, other = (row, each) if side == 0 else (each, row)
            if low <= other[0] - one[0] <= high:
                time = max(one[0], other[0])
                yield [time, time, *one, *other]

    def advance(self, mark: int) -> Iterator[Row]:
        """Move the watermark; rows that find no other one are dropped."""
        self.mark = mark if self.mark is None else max(self.mark, mark)
        low, high = self.join.bounds or (0, 0)
        for key, (left, right) in list(self._kept.items()):
            left[:] = [each for each in left if each[0] + high >= self.mark]
            right[:] = [each for each in right if each[0] - low >= self.mark]
            if not left and not right:
                del self._kept[key]
        return iter(())

    def close(self) -> Iterator[Row]:
        """Nothing: all pairs are there."""
        return iter(())


def pairs_of(join: Join) -> WindowPairs | TimedPairs:
    """The pairs of a join, without rows."""
    return WindowPairs(join) if join.bounds is None else TimedPairs(join)


def _key(join: Join, row: Row) -> tuple[Value, ...]:
    return tuple(row[1 : join.keys + 1])
