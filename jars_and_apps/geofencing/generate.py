"""Generate fences and movers in three regions, as the messages that the feeder publishes.

    python -m jars_and_apps.geofencing.generate --movers 500 --fences 400 --seed 1 --out DIRECTORY

Writes ``fences.jsonl``, the fences of the beginning, and ``stream.jsonl``, the positions with changes of
fences among them.  A line is ``{"site", "topic", "text", "retain", "malformed"}``: a message for the broker
of a site.  Positions have the noise of their accuracy; some are missing, repeated, out of order, late or
malformed.  The last message of each site has its time two hours after the end, so that no visit stays open.
The same seed gives the same bytes.  Needs numpy and shapely.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import shapely

SITES, CLOUD = "ABC", "D"
WEST, SOUTH, WIDTH, HEIGHT = 7.0, 46.8, 1.8, 0.4  # degrees; the regions divide the width
START = datetime(2026, 3, 2, 7, tzinfo=UTC)
INTERVAL = 10.0  # s between two positions of a mover
LINES_A_MESSAGE = 10
AHEAD = 120.0  # s of event time from the message about a fence to its effect
END = timedelta(hours=2)

ACCURACY = 8.0  # m
LOST, REPEATED, DELAYED, MALFORMED = 0.02, 0.01, 0.01, 0.005  # shares
JITTER, DELAY = 5.0, 90.0  # s of event time that a position, or a delayed one, comes late
CHANGED = 0.05  # share of the fences that are changed, deleted and drawn, each

METRES = np.array([76_000.0, 111_195.0])  # of a degree of longitude and of latitude here

_BUS = '{"type": "Feature", "id": "bus-1", "geometry": {"type": "Point", "coordinates": [7.5, %s]}, '
MALFORMED_LINES = (
    "no JSON",
    '{"type": "Point", "coordinates": [7.5, 46.9]}',
    _BUS % 46.9 + '"properties": {}}',
    _BUS % 146.9 + '"properties": {"time": "2026-03-02T07:00:00Z"}}',
    _BUS % 46.9 + '"properties": {"time": "2999-03-02T07:00:00Z"}}',
)

Message = dict[str, Any]


def iso(seconds: float) -> str:
    """The time a number of seconds after the start."""
    time = START + timedelta(milliseconds=round(seconds * 1000))
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Fences:
    """Voronoi cells that cover the regions, and circles in them; a quarter are fences of buses alone."""

    def __init__(self, count: int, chance: np.random.Generator) -> None:
        self._chance = chance
        self.centres = chance.random((max(4, count * 3 // 4), 2)) * (WIDTH, HEIGHT) + (WEST, SOUTH)
        box = shapely.box(WEST, SOUTH, WEST + WIDTH, SOUTH + HEIGHT)
        cells = shapely.voronoi_polygons(shapely.MultiPoint(self.centres), extend_to=box)
        self._cells = shapely.intersection(shapely.get_parts(cells), box)
        self.names = [f"fence-{number}" for number in range(count)]

    def of_start(self) -> Iterator[Message]:
        """The fences of the beginning."""
        for number, name in enumerate(self.names):
            yield self._message(name, self._shape(number), -3600.0)

    def changes(self, seconds: float) -> list[tuple[float, Message]]:
        """The fences that are changed, deleted and drawn within some seconds, with the times of sending."""
        some = max(1, round(CHANGED * len(self.names)))
        picked = self._chance.permutation(len(self.names))
        changed, deleted = ([self.names[each] for each in picked[part]] for part in _thirds(some))
        drawn = [f"drawn-{number}" for number in range(some)]
        found = []
        for name in (*changed, *deleted, *drawn):
            # Drawn ones stay within the first half, so that movers meet them.
            at = self._chance.uniform(0.2, 0.6) * seconds
            shape = None if name in deleted else self._shape(int(self._chance.integers(len(self.names))))
            found.append((max(0.0, at - AHEAD), self._message(name, shape, at)))
        return found

    def _shape(self, number: int) -> dict[str, Any]:
        if number < len(self._cells):
            return dict(json.loads(shapely.to_geojson(self._cells[number])))
        centre = self.centres[self._chance.integers(len(self.centres))]
        return {"type": "Point", "coordinates": [round(float(each), 6) for each in centre]}

    def _message(self, name: str, shape: dict[str, Any] | None, time: float) -> Message:
        pick = self._chance.choice
        properties: dict[str, Any] = {"time": iso(time), "margin": int(pick((0, 50, 100)))}
        properties |= {"confirm": int(pick((0, 0, 20))), "dwell": int(pick((0, 120, 300)))}
        if self._chance.random() < 0.25:
            properties["movers"] = ["bus-*"]
        if shape is not None and shape["type"] == "Point":
            properties["radius"] = int(self._chance.integers(300, 1500))
        feature = {"type": "Feature", "id": name, "geometry": shape, "properties": properties}
        return {"site": CLOUD, "topic": f"fences/{name}", "text": json.dumps(feature), "retain": True}


def _thirds(some: int) -> tuple[slice, slice]:
    return slice(0, some), slice(some, 2 * some)


def positions(
    movers: int, seconds: float, centres: np.ndarray, chance: np.random.Generator
) -> Iterator[tuple[float, str, str]]:
    """The times of sending, sites and lines of all movers, in no order."""
    for number in range(movers):
        name = f"{'bus' if number % 3 == 0 else 'taxi'}-{number}"
        times = np.arange(chance.uniform(0, INTERVAL), seconds, INTERVAL)
        for time, point in zip(times, _track(times, centres, chance), strict=True):
            yield from _lines(name, float(time), point, chance)


def _track(times: np.ndarray, centres: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """The points of a mover: it drives from centre to centre, and waits at some."""
    at, speed = chance.choice(centres), chance.uniform(10.0, 30.0)  # m/s
    points, target, waits = [], chance.choice(centres), 0.0
    for _ in times:
        way = (target - at) * METRES
        length = float(np.hypot(*way))
        if waits > 0:
            waits -= INTERVAL
        elif length <= speed * INTERVAL:
            at, target = target, chance.choice(centres)
            waits = float(chance.choice((0.0, 0.0, 180.0, 400.0)))
        else:
            at = at + way * (speed * INTERVAL / length) / METRES
        points.append(at + chance.normal(0, ACCURACY, 2) / METRES)
    found: np.ndarray = np.clip(np.array(points), (WEST, SOUTH), (WEST + WIDTH, SOUTH + HEIGHT))
    return found


def _lines(
    mover: str, time: float, point: np.ndarray, chance: np.random.Generator
) -> Iterator[tuple[float, str, str]]:
    longitude, latitude = (round(float(each), 7) for each in point)
    properties = {"time": iso(time), "accuracy": ACCURACY}
    geometry = {"type": "Point", "coordinates": [longitude, latitude]}
    line = json.dumps({"type": "Feature", "id": mover, "geometry": geometry, "properties": properties})
    site = SITES[min(len(SITES) - 1, int((longitude - WEST) / WIDTH * len(SITES)))]
    draw = chance.random()
    if draw < LOST:
        return
    delayed = draw < LOST + DELAYED
    yield time + chance.uniform(0, JITTER) + (DELAY if delayed else 0.0), site, line
    if draw > 1 - REPEATED:
        yield time + chance.uniform(0, JITTER), site, line


def stream(movers: int, fences: Fences, seconds: float, chance: np.random.Generator) -> Iterator[Message]:
    """All messages after the fences of the beginning, in the order of sending."""
    lines = sorted(positions(movers, seconds, fences.centres, chance))
    changes = sorted(fences.changes(seconds), key=lambda change: change[0])
    waiting: dict[str, list[str]] = {site: [] for site in SITES}
    for at, site, line in lines:
        while changes and changes[0][0] <= at:
            yield changes.pop(0)[1]
        waiting[site].append(line)
        if len(waiting[site]) == LINES_A_MESSAGE:
            yield _of_positions(site, waiting[site])
            waiting[site] = []
            if chance.random() < MALFORMED * LINES_A_MESSAGE:
                yield _of_positions(site, [str(chance.choice(MALFORMED_LINES))]) | {"malformed": True}
    yield from (message for _, message in changes)
    end = {"type": "Feature", "geometry": None, "properties": {"time": iso(seconds + END.total_seconds())}}
    for site, rest in waiting.items():
        yield from [_of_positions(site, rest)] if rest else []
        yield _of_positions(site, [json.dumps(end)])


def _of_positions(site: str, lines: Sequence[str]) -> Message:
    return {"site": site, "topic": "geo/positions", "text": "\n".join(lines)}


def write(directory: Path, movers: int, fences: int, minutes: float, seed: int) -> None:
    """Write both files."""
    directory.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed)
    made = Fences(fences, chance)
    for name, messages in (
        ("fences.jsonl", made.of_start()),
        ("stream.jsonl", stream(movers, made, minutes * 60, chance)),
    ):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        (directory / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description="Generate fences and the positions of movers.")
    add = parser.add_argument
    add("--movers", type=int, default=500, help="1 to 100000 (default: 500)")
    add("--fences", type=int, default=400, help="10 to 100000 (default: 400)")
    add("--minutes", type=float, default=30.0, help="of event time, 1 to 1440 (default: 30)")
    add("--seed", type=int, default=1, help="the same seed gives the same messages (default: 1)")
    add("--out", type=Path, required=True, metavar="DIRECTORY")
    options = parser.parse_args(arguments)
    for name, least, most in (("movers", 1, 100_000), ("fences", 10, 100_000), ("minutes", 1, 1440)):
        value = getattr(options, name)
        if not least <= value <= most:
            parser.error(f"--{name} {value:g} is out of range (expected {least} to {most})")
    write(options.out, options.movers, options.fences, options.minutes, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
