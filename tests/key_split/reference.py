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


def results(batches: list[list[Row]], windows: Windows) -> dict[tuple[str, int], list[int]]:
    """The rows (ids, rising) of each key and window (its end, in slides) that is closed after the batches."""
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    newest = closed = -DAY
    for batch in batches:
        good = [
            (row.key, row.time, row.id)
            for row in batch
            if row.key is not None and row.time is not None and 0 <= row.time <= row.arrival + DAY
        ]
        for key, time, number in good:
            slide = time // windows.slide_us
            for end in range(slide + 1, slide + 1 + windows.slides):
                if end * windows.slide_us > closed:
                    found[key, end].append(number)
        newest = max(newest, *(time for _, time, _ in good)) if good else newest
        closed = max(closed, newest - windows.lateness_us)
    return {each: sorted(ids) for each, ids in found.items() if each[1] * windows.slide_us <= closed}
