"""The results of a split, in plain Python: the rules of docs/key-splitting.md and nothing else."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from jars_and_apps.key_split.slides import Windows

DAY = 86_400_000_000


class Row(NamedTuple):
    """A row: its key, time and arrival (microseconds), and a number that no other has."""

    key: str | None
    time: int | None
    arrival: int
    id: int


class Reference(NamedTuple):
    """The rows (ids, rising) of each key and closed window (its end, in slides); the number of late rows."""

    windows: dict[tuple[str, int], list[int]]
    late: int


def results(batches: list[list[Row]], windows: Windows) -> dict[tuple[str, int], list[int]]:
    """The rows (ids, rising) of each key and window (its end, in slides) that is closed after the batches."""
    return reference(batches, windows).windows


def reference(batches: list[list[Row]], windows: Windows) -> Reference:
    """The results of the batches, and the number of rows that came after all of their windows."""
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    newest = closed = -DAY
    late = 0
    for batch in batches:
        good = [
            (row.key, row.time, row.id)
            for row in batch
            if row.key is not None and row.time is not None and 0 <= row.time <= row.arrival + DAY
        ]
        for key, time, number in good:
            slide = time // windows.slide_us
            open_ends = [
                end for end in range(slide + 1, slide + 1 + windows.slides) if end * windows.slide_us > closed
            ]
            for end in open_ends:
                found[key, end].append(number)
            late += not open_ends
        newest = max(newest, *(time for _, time, _ in good)) if good else newest
        closed = max(closed, newest - windows.lateness_us)
    out = {each: sorted(ids) for each, ids in found.items() if each[1] * windows.slide_us <= closed}
    return Reference(out, late)
