"""The real day of road traffic as hot towns: its readings, and the windows that must come of them.

The data (129,679 readings of Aarhus, 18 August 2014; CityPulse) are not part of the project: see ``DATA``.
"""

from __future__ import annotations

import csv
import gzip
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.connect.session import SparkSession

from jars_and_apps.key_split.slides import Windows
from testbed import ROOT
from testbed.key_split.reference import Row, results

DATA = ROOT.parent / "shared" / "data" / "aarhus_traffic"
READINGS, SENSORS = "readings-2014-08-18.csv.gz", "sensors.csv"
TOWN = "Aarhus"  # of the segments that the others leave: the hot one
WINDOWS = Windows(15 * 60_000_000, 5 * 60_000_000, 10 * 60_000_000)
PERCENTILES = (10, 50, 90)
RANK_ERROR = 0.005  # of a digest of 200 centroids, merged some ten times
_ROUNDED = 0.005  # km/h: results have two decimals
_SPEED, _TIME, _VEHICLES, _SEGMENT = 2, 5, 6, 8

Place = tuple[str, int]
"""A key, and the end of a window in slides."""


@dataclass(frozen=True)
class Day:
    """The lines of a day in the order of their times, and the town of each segment that is not TOWN's."""

    lines: Sequence[str]
    towns: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path, limit: int | None = None) -> Day:
        """The first ``limit`` readings.  FileNotFoundError without the data."""
        with gzip.open(folder / READINGS, "rt", encoding="utf-8") as file:
            lines = file.read().splitlines()[1:]
        with (folder / SENSORS).open(encoding="utf-8") as file:
            cities = {row["REPORT_ID"]: row["city"] for row in csv.DictReader(file)}
        towns = {segment: city for segment, city in cities.items() if city != TOWN}
        return cls(sorted(lines, key=lambda line: line.split(",")[_TIME])[:limit], towns)

    def argument(self) -> str:
        """The towns as the composition's variable TOWNS has them."""
        segments: defaultdict[str, list[str]] = defaultdict(list)
        for segment, town in self.towns.items():
            segments[town].append(segment)
        return "; ".join([*(f"{town}: {' '.join(of)}" for town, of in segments.items()), f"{TOWN}: *"])

    def town(self, line: str) -> str:
        """The key of a line."""
        return self.towns.get(line.split(",")[_SEGMENT], TOWN)

    def rows(self) -> int:
        """The rows of all lines: one a vehicle."""
        return sum(int(line.split(",")[_VEHICLES]) for line in self.lines)

    @cached_property
    def speeds(self) -> dict[Place, list[float]]:
        """The speeds, rising, of each window that is closed in the end, by the tests' reference."""
        rows, speeds = list[Row](), list[float]()
        for line in self.lines:
            fields = line.split(",")
            time = round(datetime.fromisoformat(fields[_TIME]).replace(tzinfo=UTC).timestamp() * 1e6)
            for _ in range(int(fields[_VEHICLES])):
                rows.append(Row(self.town(line), time, time, len(rows)))
                speeds.append(float(fields[_SPEED]))
        batches = [rows[first : first + 1000] for first in range(0, len(rows), 1000)]
        return {place: sorted(speeds[id] for id in ids) for place, ids in results(batches, WINDOWS).items()}

    def counts_of_spark(self, session: SparkSession) -> dict[Place, int]:
        """The vehicles of every window, closed or not, by Spark's own ``groupBy``."""
        lines = session.createDataFrame([(line,) for line in self.lines], "value string")
        towns = session.createDataFrame([*self.towns.items()], "segment string, town string")
        found = session.sql(_COUNTS, lines=lines, towns=towns, other=TOWN).collect()
        return {(row[0], row[1] * 1_000_000 // WINDOWS.slide_us): row[2] for row in found if row[2]}


_COUNTS = """
    SELECT coalesce(town, {other}) AS key, unix_seconds(window.end) AS end, sum(vehicles) AS vehicles
    FROM (SELECT split(value, ',')[8] AS segment,
                 CAST(concat(split(value, ',')[5], 'Z') AS TIMESTAMP) AS time,
                 CAST(split(value, ',')[6] AS BIGINT) AS vehicles FROM {lines})
    LEFT JOIN {towns} USING (segment)
    GROUP BY 1, window(time, '15 minutes', '5 minutes')
"""


class Account(NamedTuple):
    """Windows that were to come, did not, came again, came unexpected, or with another count or percentiles.

    ``unlike_spark``: those whose count is not that of Spark's own ``groupBy``.
    """

    windows: int
    missing: int
    doubled: int
    unexpected: int
    wrong: int
    unlike_spark: int

    @classmethod
    def of(
        cls, expected: Mapping[Place, list[float]], spark: Mapping[Place, int], found: Iterable[str]
    ) -> Account:
        """Compare the results with both references."""
        rows: defaultdict[Place, list[dict[str, Any]]] = defaultdict(list)
        for text in found:
            row = json.loads(text)
            rows[row["key"], _end(row["end"])].append(row)
        common = expected.keys() & rows.keys()
        return cls(
            windows=len(expected),
            missing=len(expected.keys() - rows.keys()),
            doubled=sum(len(each) - 1 for each in rows.values()),
            unexpected=len(rows.keys() - expected.keys()),
            wrong=sum(not is_right(rows[place][0], expected[place]) for place in common),
            unlike_spark=sum(rows[place][0]["vehicles"] != spark.get(place) for place in common),
        )

    def faults(self) -> int:
        """All that is not as it should be."""
        return sum(self) - self.windows


def is_right(row: Mapping[str, Any], speeds: Sequence[float]) -> bool:
    """True if the count is that of the speeds (rising), and each percentile within RANK_ERROR of its rank.

    Speeds are whole numbers, of which a digest makes others: one between two speeds has the ranks of both.
    """
    for each in PERCENTILES:
        value, rank = row[f"p{each}"], each / 100
        if not speeds[0] - _ROUNDED <= value <= speeds[-1] + _ROUNDED:
            return False
        below = speeds[bisect_right(speeds, value + _ROUNDED) - 1]
        above = speeds[bisect_left(speeds, value - _ROUNDED)]
        low, high = bisect_left(speeds, below) / len(speeds), bisect_right(speeds, above) / len(speeds)
        if not low - RANK_ERROR <= rank <= high + RANK_ERROR:
            return False
    return bool(row["vehicles"] == len(speeds))


def _end(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp()) * 1_000_000 // WINDOWS.slide_us
