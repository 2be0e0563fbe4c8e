"""Follow the results of the split ``hot-towns``, and compare them with a plain count of the same readings.

    python -m jars_and_apps.road_traffic.watch_towns readings.csv.gz --broker tcp://127.0.0.1:1883 [--limit N]

The segments of the readings are divided among ten towns, one of which has about two thirds of them.  Prints
``{"ready": true, "towns": TOWNS, "closing": LINE}``: the argument of :class:`hot_towns.SpeedPercentiles`, and
a reading so late that it closes the windows of all others; then, after each change::

    {"awaited": N, "windows": N, "wrong": N, "twice": N, "faults": ["..."],
     "batches": N, "loads": [N, ...], "recent": [N, ...], "dropped": {"bad": N, "late": N}}

``windows`` are the pairs of window and town that came out, ``faults`` the first of those that are wrong;
``loads`` are the rows that the partitioner gave to each combiner, in that many ``batches``; ``recent`` are
those of the last ten seconds.
The program ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from jars_and_apps.road_traffic.hot_towns import ELSEWHERE, towns_of
from jars_and_apps.road_traffic.replay import WELL_FORMED, first_readings, raw_lines
from jars_and_apps.road_traffic.watch import Subscription, follow, show

TOPIC, SPLIT = "hot-towns", "hot-towns"
SLIDE = timedelta(minutes=5)
SLIDES = 3  # of a window
HOT, OTHERS = (
    "Aarhus",
    ("Beder", "Hasselager", "Hinnerup", "Lystrup", "Malling", "Risskov", "Skejby", "Tilst", "Viby"),
)

_SPEED, _TIME, _VEHICLES, _SEGMENT = 2, 5, 6, 8
_MOST_VEHICLES = 10_000  # that one message may stand for
_PERCENTILES = (10, 50, 90)
_RANK, _ROUNDED = 0.01, 0.5  # of a percentile that is right: its rank, and km/h, as speeds are whole numbers
_RECENT = 10.0  # s
_FAULTS = 5

Window = tuple[str, datetime]  # a town, and the start of a window
Speeds = Mapping[float, int]  # km/h -> vehicles


def towns_among(lines: Iterable[bytes]) -> str:
    """Towns for the segments of the readings, two thirds in one: for ``SpeedPercentiles``."""
    members: dict[str, list[str]] = {}
    for segment in sorted({line.split(b",")[_SEGMENT] for line in lines}):
        place = zlib.crc32(segment) % (3 * len(OTHERS))
        if place < len(OTHERS):
            members.setdefault(OTHERS[place], []).append(segment.decode())
    named = [f"{town}: {' '.join(segments)}" for town, segments in sorted(members.items())]
    return "; ".join([*named, f"{HOT}: {ELSEWHERE}"])


def reference(lines: Iterable[bytes], towns: str) -> dict[Window, Speeds]:
    """The vehicles of each window and town by their speed, a reading after the other."""
    town_of = towns_of(towns)
    found: dict[Window, Counter[float]] = {}
    latest = datetime.now(UTC) + timedelta(days=1)
    for line in lines:
        fields = line.decode("ascii").split(",")
        moment = datetime.fromisoformat(fields[_TIME]).replace(tzinfo=UTC)
        vehicles = int(fields[_VEHICLES])
        if not 0 < vehicles <= _MOST_VEHICLES or moment.year < 1970 or moment > latest:
            continue  # bad rows, which a split drops
        town = town_of.get(fields[_SEGMENT], town_of[ELSEWHERE])
        newest = datetime.fromtimestamp(moment.timestamp() // SLIDE.seconds * SLIDE.seconds, UTC)
        for back in range(SLIDES):
            speeds = found.setdefault((town, newest - back * SLIDE), Counter())
            speeds[float(fields[_SPEED])] += vehicles
    return dict(found)


def closing_line(lines: Sequence[bytes]) -> str:
    """A reading an hour after the last one: more than a window and the lateness of rows."""
    last = max(lines, key=lambda line: line.split(b",")[_TIME].replace(b" ", b"T"))
    fields = last.decode("ascii").split(",")
    fields[_TIME] = (datetime.fromisoformat(fields[_TIME]) + timedelta(hours=1)).isoformat()
    fields[_VEHICLES] = "1"
    return ",".join(fields)


def fault_of(result: Mapping[str, Any], speeds: Speeds) -> str | None:
    """The fault in the result of a window, in words; ``None`` if it is right."""
    vehicles = sum(speeds.values())
    if result["vehicles"] != vehicles:
        return f"{result['vehicles']} vehicles (expected {vehicles})"
    values = sorted(speeds)
    below = [0, *accumulate(speeds[value] for value in values)]  # vehicles slower than each value
    tolerance = _RANK + 1 / vehicles  # a percentile may lie between two vehicles
    for percent in _PERCENTILES:
        found = result[f"p{percent}"]
        low = below[bisect_left(values, found - _ROUNDED)] / vehicles
        high = below[bisect_right(values, found + _ROUNDED)] / vehicles
        if not low - tolerance <= percent / 100 <= high + tolerance:
            return f"p{percent} is {found:g} km/h (of the vehicles {low:.3f} are slower)"
    return None


class Account:
    """The results beside the reference, and the rows of each combiner; may be used from several threads."""

    def __init__(self, awaited: Mapping[Window, Speeds]) -> None:
        self._awaited = awaited
        self._found: set[Window] = set()
        self._wrong = self._twice = 0
        self._faults: list[str] = []
        self._batches = 0
        self._loads: list[int] = []
        self._recent: deque[tuple[float, list[int]]] = deque()
        self._dropped: Mapping[str, int] = {}
        self._lock = threading.Lock()
        self.changed = threading.Event()

    def add(self, origin: str, payload: bytes | bytearray) -> None:
        """Add a report of the partitioner (``origin`` is its topic), or a result."""
        with self._lock:
            try:
                if origin == TOPIC:
                    self._add_result(json.loads(payload))
                else:
                    self._add_report(json.loads(payload.removeprefix(b"\xff")))
            except (ValueError, KeyError, TypeError) as error:
                self._add_fault(f"{origin}: {error}: {bytes(payload[:80])!r}")
        self.changed.set()

    def _add_result(self, result: Mapping[str, Any]) -> None:
        window = result["key"], datetime.fromisoformat(result["start"])
        self._twice += window in self._found
        self._found.add(window)
        speeds = self._awaited.get(window)
        fault = "a window without vehicles" if speeds is None else fault_of(result, speeds)
        if fault is not None:
            self._add_fault(f"{window[0]} from {result['start']}: {fault}")

    def _add_report(self, report: Mapping[str, Any]) -> None:
        self._dropped = report["faults"]
        if loads := report.get("loads"):
            self._batches += 1
            before = self._loads or [0] * len(loads)
            self._loads = [one + other for one, other in zip(before, loads, strict=True)]
            self._recent.append((time.monotonic(), loads))

    def _add_fault(self, fault: str) -> None:
        self._wrong += 1
        self._faults = [*self._faults, fault][:_FAULTS]

    def report(self) -> dict[str, Any]:
        """The account as plain data."""
        with self._lock:
            while self._recent and self._recent[0][0] < time.monotonic() - _RECENT:
                self._recent.popleft()
            recent = [sum(loads) for loads in zip(*(each for _, each in self._recent), strict=True)]
            return {
                "awaited": len(self._awaited),
                "windows": len(self._found),
                "wrong": self._wrong,
                "twice": self._twice,
                "faults": self._faults,
                "batches": self._batches,
                "loads": self._loads,
                "recent": recent,
                "dropped": dict(self._dropped),
            }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description="Compare the results of hot-towns with a plain count.")
    parser.add_argument("file", type=Path, help="readings, one CSV line each (plain or gzip)")
    parser.add_argument("--broker", required=True, metavar="ADDRESS", help="the broker of the split")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N well-formed readings only")
    options = parser.parse_args(arguments)
    subscriptions: list[Subscription] = []
    try:
        texts = first_readings(raw_lines(options.file), options.limit)
        lines = [text for text in texts if WELL_FORMED.match(text)]
        towns = towns_among(lines)
        account = Account(reference(lines, towns))
        for topic in (TOPIC, f"speck/split/{SPLIT}/report/partitioner"):
            subscriptions.append(Subscription(options.broker, topic, topic, account))
        if not all(subscription.ready.wait(30) for subscription in subscriptions):
            raise TimeoutError("the broker did not answer the subscription in 30 s")
        show({"ready": True, "towns": towns, "closing": closing_line(lines)})
        follow(account)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        print(f"watch_towns: {error}", file=sys.stderr)
        return 1
    finally:
        for subscription in subscriptions:
            subscription.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
