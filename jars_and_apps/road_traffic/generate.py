"""Generate a day of road traffic in the format of the readings that the feeder replays.

    python -m jars_and_apps.road_traffic.generate --sensors 200 --seed 1 --out day.csv.gz

Each sensor pair watches one road segment and reports every five minutes.  Traffic follows the clock (two
rush hours, a quiet night); speed falls with density.  The same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

HEADER = "status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"
INTERVAL = timedelta(minutes=5)
READINGS_A_DAY = timedelta(days=1) // INTERVAL

# Rush hours: hour of the day, width (hours), and strength against the traffic of midday.
RUSH_HOURS = ((7.8, 0.9, 1.0), (16.3, 1.4, 0.9))
LOST_SHARE = 0.002  # of the readings: a sensor that did not report


@dataclass(frozen=True)
class Segment:
    """One road segment: its length (m), speed when free (km/h), and vehicles in five minutes at midday."""

    report_id: int
    external_id: int
    length: float
    free_speed: float
    vehicles: float


def segments(count: int, chance: random.Random) -> list[Segment]:
    """``count`` segments; a few are busy, most are not."""
    ids = chance.sample(range(150_000, 220_000), count)
    return [
        Segment(
            report_id=report_id,
            external_id=600 + number,
            length=chance.uniform(300.0, 3500.0),
            free_speed=chance.choice((50.0, 60.0, 80.0, 110.0)) * chance.uniform(0.85, 1.1),
            vehicles=chance.lognormvariate(1.2, 0.8),
        )
        for number, report_id in enumerate(sorted(ids))
    ]


def demand(hour: float) -> float:
    """The traffic at an hour of the day (0 to 24), relative to midday."""
    daylight = 0.04 + 0.96 / (1 + math.exp(-(hour - 6.3) * 2.2)) / (1 + math.exp((hour - 20.5) * 0.9))
    rush = sum(strength * math.exp(-(((hour - at) / width) ** 2)) for at, width, strength in RUSH_HOURS)
    return daylight * (1 + rush)


def readings(road: Sequence[Segment], day: datetime, chance: random.Random) -> Iterator[str]:
    """The lines of one day, in time order."""
    number = 22_000_000
    for interval in range(READINGS_A_DAY):
        time = day + interval * INTERVAL
        strength = demand(24 * interval / READINGS_A_DAY)
        for segment in road:
            number += 1
            if chance.random() >= LOST_SHARE:
                yield reading(segment, time, strength, number, chance)


def reading(segment: Segment, time: datetime, strength: float, number: int, chance: random.Random) -> str:
    """One line: the number of vehicles, and their speed."""
    mean = segment.vehicles * strength
    vehicles = max(0, round(chance.gauss(mean, math.sqrt(mean))))
    congestion = 1 / (1 + 0.12 * (vehicles / (segment.vehicles + 1)) ** 2)
    speed = max(4.0, segment.free_speed * congestion * chance.uniform(0.92, 1.05))
    seconds = round(3.6 * segment.length / speed)
    median = max(1, seconds + chance.randint(-2, 2))
    figures = (seconds, round(speed), segment.external_id, median, time.isoformat(), vehicles, number)
    return ",".join(["OK", *map(str, figures), str(segment.report_id)])


def write(path: Path, sensors: int, seed: int, day: datetime) -> int:
    """Write the day to a file (gzip when it ends in ``.gz``); returns the number of readings."""
    chance = random.Random(seed)  # noqa: S311 - the same seed is to give the same day
    lines = list(readings(segments(sensors, chance), day, chance))
    text = "\n".join([HEADER, *lines, ""]).encode()
    # Without a time in the gzip header, the bytes depend on the seed alone.
    path.write_bytes(gzip.compress(text, compresslevel=6, mtime=0) if path.suffix == ".gz" else text)
    return len(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description="Generate a day of road traffic.")
    add = parser.add_argument
    add("--sensors", type=int, default=200, help="sensor pairs, 1 to 70000 (default: 200)")
    add("--seed", type=int, default=1, help="the same seed gives the same day (default: 1)")
    add("--day", type=datetime.fromisoformat, default=datetime(2026, 3, 2), metavar="YYYY-MM-DD")
    add("--out", type=Path, required=True, metavar="FILE", help="gzip when it ends in .gz")
    options = parser.parse_args(arguments)
    if not 1 <= options.sensors <= 70_000:
        parser.error(f"--sensors {options.sensors} is out of range (expected 1 to 70000)")
    count = write(options.out, options.sensors, options.seed, options.day)
    print(f"{count} readings of {options.sensors} sensors: {options.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
