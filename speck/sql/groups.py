"""The windows of an aggregation, with the totals of each key: the reference of those of the engines."""

from __future__ import annotations

from dataclasses import dataclass

from speck.sql.operators import Row, Value, wrapped
from speck.sql.program import Merge, Windows


class Groups:
    """The open windows of an aggregation, and the totals in them by key.

    ``mark`` is the watermark: no window that ends before it is open.  Rows have values to be added to the
    totals, or with ``totals`` others to be merged with them.  ``late`` counts rows without an open window.
    """

    def __init__(self, windows: Windows, *, totals: bool = False) -> None:
        self._windows = windows
        self._merge = joined if totals else added
        self._open: dict[int, dict[tuple[Value, ...], list[Value]]] = {}
        self.mark: int | None = None
        self.late = 0

    def add(self, row: Row) -> None:
        """Add a row: its time, the keys, then a value of each aggregate function."""
        time, key = row[0], tuple(row[1 : len(self._windows.keys) + 1])
        arguments = row[len(self._windows.keys) + 1 :]
        size = self._windows.size_ms
        starts = [each for each in self._windows.starts(time) if self.mark is None or each + size > self.mark]
        self.late += not starts
        for start in starts:
            values = self._open.setdefault(start, {}).setdefault(key, list(map(begin, self._windows.merges)))
            for index, (merge, value) in enumerate(zip(self._windows.merges, arguments, strict=True)):
                values[index] = self._merge(merge, values[index], value)

    def advance(self, mark: int) -> list[Row]:
        """Move the watermark; returns the rows of the windows that it closes, in order."""
        self.mark = mark if self.mark is None else max(self.mark, mark)
        ended = [each for each in sorted(self._open) if each + self._windows.size_ms <= self.mark]
        return [row for start in ended for row in self._taken(start)]

    def close(self) -> list[Row]:
        """The rows of the windows that are still open."""
        return [row for start in sorted(self._open) for row in self._taken(start)]

    def _taken(self, start: int) -> list[Row]:
        groups = self._open.pop(start)
        end = start + self._windows.size_ms
        ordered = sorted(groups.items(), key=lambda each: [(one is not None, one) for one in each[0]])
        return [[start, end, *key, *values] for key, values in ordered]


class Spans(Groups):
    """The slides of an input job that merges rows of sessions, which have totals.

    The rows of a slide and key are of one session.  They become one row at the first of their times, with the
    totals, and if there are several times another one at the last, with the totals of no row, so that the
    session has the same bounds.  Rows behind the slide have its start, that time, the keys and the totals.
    """

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows, totals=True)
        self._times: dict[tuple[int, tuple[Value, ...]], tuple[int, int]] = {}

    def add(self, row: Row) -> None:
        """See :meth:`Groups.add`."""
        late = self.late
        super().add(row)
        if self.late == late:
            time, key = row[0], tuple(row[1 : len(self._windows.keys) + 1])
            at = (self._windows.starts(time)[0], key)
            first, last = self._times.get(at, (time, time))
            self._times[at] = min(first, time), max(last, time)

    def _taken(self, start: int) -> list[Row]:
        found: list[Row] = []
        for _, _, *values in super()._taken(start):
            key = values[: len(self._windows.keys)]
            first, last = self._times.pop((start, tuple(key)))
            found.append([start, first, *values])
            if last > first:
                found.append([start, last, *key, *map(begin, self._windows.merges)])
        return found


@dataclass
class _Session:
    """A session of one key: its first time, its end, and the totals."""

    start: int
    end: int
    values: list[Value]


class Sessions:
    """The open sessions of an aggregation by key; otherwise as :class:`Groups`."""

    def __init__(self, windows: Windows, *, totals: bool = False) -> None:
        self._windows = windows
        self._merge = joined if totals else added
        self._open: dict[tuple[Value, ...], list[_Session]] = {}
        self.mark: int | None = None
        self.late = 0

    def add(self, row: Row) -> None:
        """Add a row: its time, the keys, then a value of each aggregate function."""
        time, key = row[0], tuple(row[1 : len(self._windows.keys) + 1])
        found = _Session(time, time + self._windows.size_ms, list(map(begin, self._windows.merges)))
        if self.mark is not None and found.end <= self.mark:
            self.late += 1
            return
        merges, arguments = self._windows.merges, row[len(self._windows.keys) + 1 :]
        found.values = [
            self._merge(merge, total, value)
            for merge, total, value in zip(merges, found.values, arguments, strict=True)
        ]
        others = []
        for each in self._open.get(key, []):
            if each.start < found.end and found.start < each.end:
                values = map(joined, merges, each.values, found.values)
                found = _Session(min(each.start, found.start), max(each.end, found.end), list(values))
            else:
                others.append(each)
        self._open[key] = [*others, found]

    def advance(self, mark: int) -> list[Row]:
        """Move the watermark; returns the rows of the sessions that it closes, in order."""
        self.mark = mark if self.mark is None else max(self.mark, mark)
        return self._taken(self.mark)

    def close(self) -> list[Row]:
        """The rows of the sessions that are still open."""
        return self._taken(None)

    def _taken(self, mark: int | None) -> list[Row]:
        taken = list[Row]()
        for key, sessions in list(self._open.items()):
            ended = [each for each in sessions if mark is None or each.end <= mark]
            taken += ([each.start, each.end, *key, *each.values] for each in ended)
            self._open[key] = [each for each in sessions if each not in ended]
            if not self._open[key]:
                del self._open[key]
        return sorted(taken, key=lambda row: [(one is not None, one) for one in (row[1], *row)])


def groups_of(windows: Windows, *, totals: bool = False) -> Groups | Sessions:
    """The windows of an aggregation, without rows."""
    return Sessions(windows, totals=totals) if windows.session else Groups(windows, totals=totals)


def begin(merge: Merge) -> Value:
    """The total of an aggregate function before the first value."""
    return 0 if merge.kind == "count" else None


def added(merge: Merge, total: Value, value: Value) -> Value:
    """The total of an aggregate function with one more value; NULL counts in none."""
    if merge.kind == "count":
        return total + (value is not None)
    return joined(merge, total, value)


def joined(merge: Merge, total: Value, other: Value) -> Value:
    """Two totals of an aggregate function as one."""
    if total is None or other is None:
        return other if total is None else total
    if merge.kind == "min":
        return min(total, other)
    if merge.kind == "max":
        return max(total, other)
    return total + other if isinstance(total, float) else wrapped(total + other)
