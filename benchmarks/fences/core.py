"""Processor time of the functions of the jobs, without an engine, beside two others on the same input.

One thread has all fences and reads messages of ten GeoJSON lines each, in batches as of an engine.
``locate`` is the step of that job, with parsing, versions of fences, margins and its output as text;
``locate_track`` has the step of ``track`` after it: events of visits.  ``tree`` is the bound: shapely's STR
tree and the exact test, on arrays that exist already.  ``pandas`` is a function over a broadcast table, as
users write it for ``mapInPandas``: its tree is built once, and it reports the fences of each position,
without versions, margins, movers or visits.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import shapely

from benchmarks.common import Figure
from jars_and_apps.geofencing import generate
from jars_and_apps.geofencing.fences import (
    BEFORE_ALL,
    Index,
    Message,
    Progress,
    Version,
    admitted,
    compact,
    located,
)
from jars_and_apps.geofencing.visits import Tracker

BATCH = 10_000  # positions
MOVERS = 1_000
LATENESS = 10_000  # ms
FORGET = 3_600_000  # ms

_BEGIN = datetime(2026, 3, 2, 7, tzinfo=UTC)


@dataclass(frozen=True)
class Input:
    """Fences as records of ``admit``, and positions as messages in batches."""

    records: Sequence[dict[str, Any]]
    batches: Sequence[Sequence[Message]]

    @classmethod
    def of(cls, fences: int, positions: int, circles: bool = True) -> Input:
        """Fences of the generator, and movers on random ways in their regions.

        Without circles, all fences are cells, so that each position is in one of them and in some margins.
        """
        chance = np.random.default_rng(1)
        made = generate.Fences(fences if circles else math.ceil(fences * 4 / 3), chance)
        given = islice(made.of_start(), fences)  # the cells come first
        records = [admitted(each["topic"], each["text"].encode(), 0, 0) for each in given]
        lines = list(_lines(positions, chance))
        messages = [
            ("geo/positions", "\n".join(lines[n : n + 10]).encode(), 1 << 50)
            for n in range(0, len(lines), 10)
        ]
        size = BATCH // 10
        return cls(records, [messages[n : n + size] for n in range(0, len(messages), size)])

    @property
    def positions(self) -> int:
        """The number of positions."""
        return sum(value.count(b"\n") + 1 for batch in self.batches for _, value, _ in batch)


def _lines(positions: int, chance: np.random.Generator) -> Iterator[str]:
    corner, size = (generate.WEST, generate.SOUTH), (generate.WIDTH, generate.HEIGHT)
    at = chance.random((MOVERS, 2)) * size + corner
    for number in range(positions):
        mover = number % MOVERS
        if mover == 0:  # some 200 m, in 10 s
            at = np.clip(at + chance.normal(0, 200, at.shape) / generate.METRES, corner, np.add(corner, size))
        when = _BEGIN + timedelta(milliseconds=10 * number)
        properties = {"time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        point = {"type": "Point", "coordinates": [round(float(each), 7) for each in at[mover]]}
        name = f"{'bus' if mover % 3 == 0 else 'taxi'}-{mover}"
        yield json.dumps({"type": "Feature", "id": name, "geometry": point, "properties": properties})


def index_of(records: Sequence[dict[str, Any]]) -> Index:
    """The index that the job has after all fences have come."""
    versions = [Version.of(compact(record).encode()) for record in records]
    return Index().changed(versions, BEFORE_ALL, BEFORE_ALL)[0]


def locate(index: Index, batches: Sequence[Sequence[Message]]) -> list[list[str]]:
    """The messages of the job ``locate``, by batch."""
    progress, found = Progress(lateness=LATENESS), []
    for batch in batches:
        index, progress, made = located(index, progress, batch, "A", LATENESS)
        found.append(made)
    return found


def track(lines: Sequence[Sequence[str]]) -> tuple[Tracker, int]:
    """The state of the job ``track`` after all batches, and the number of events."""
    tracker, events = Tracker(), 0
    for batch in lines:
        given = [line for message in batch for line in message.split("\n")]
        tracker = Tracker.load(tracker.dump())  # as an engine keeps it
        events += len(tracker.step(given, ["A"], FORGET))
    return tracker, events


def tree(shapes: Any, points: np.ndarray) -> int:
    """The number of pairs by the tree and the exact test."""
    found = shapely.STRtree(shapes)
    pairs = 0
    for batch in np.array_split(points, max(1, len(points) // BATCH)):
        point, shape = found.query(shapely.points(batch))
        pairs += int(shapely.intersects_xy(shapes[shape], batch[point, 0], batch[point, 1]).sum())
    return pairs


def pandas_function(table: pd.DataFrame) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function for ``mapInPandas`` over a broadcast table (``fence``, ``geometry`` as GeoJSON)."""
    found = shapely.STRtree(shapely.from_geojson(table["geometry"].to_numpy()))

    def fences_of(frame: pd.DataFrame) -> pd.DataFrame:
        lines = frame["value"].str.split("\n").explode()
        features = pd.DataFrame([json.loads(line) for line in lines])
        points = np.array([each["coordinates"] for each in features["geometry"]])
        point, fence = found.query(shapely.points(points), predicate="intersects")
        pairs = pd.DataFrame({"point": point, "fence": table["fence"].to_numpy()[fence]})
        inside = pairs.groupby("point")["fence"].agg(list).reindex(range(len(points)))
        times = [each["time"] for each in features["properties"]]
        columns = {"time": times, "mover": features["id"], "in": inside.to_numpy()}
        return pd.DataFrame(
            {"value": pd.DataFrame(columns).to_json(orient="records", lines=True).splitlines()}
        )

    return fences_of


def measure(fences: int, positions: int, runs: int, circles: bool = True) -> dict[str, Any]:
    """Positions/s of processor time of each way, and bytes of state."""
    given = Input.of(fences, positions, circles)
    index = index_of(given.records)
    frames = [pd.DataFrame({"value": [value.decode() for _, value, _ in batch]}) for batch in given.batches]
    table = pd.DataFrame(
        [{"fence": each["fence"], "geometry": json.dumps(each["geometry"])} for each in given.records]
    )
    ask = pandas_function(table)
    features = [
        json.loads(line) for batch in given.batches for _, value, _ in batch for line in value.split(b"\n")
    ]
    points = np.array([each["geometry"]["coordinates"] for each in features])
    lines = locate(index, given.batches)
    tracker, events = track(lines)
    ways: dict[str, Callable[[], Any]] = {
        "tree": lambda: tree(index.large.shapes, points),
        "locate": lambda: locate(index, given.batches),
        "locate_track": lambda: track(locate(index, given.batches)),
        "pandas": lambda: [ask(frame) for frame in frames],
    }
    rates = {name: Figure.of(_rate(way, len(points)) for _ in range(runs)) for name, way in ways.items()}
    result: dict[str, Any] = {
        "fences": fences,
        "circles": circles,
        "positions": len(points),
        "events": events,
    }
    for name, figure in rates.items():
        result |= dict(figure.named(f"{name}_positions_per_core_second"))
    result["locate_of_tree"] = rates["locate"].median / rates["tree"].median
    result["locate_of_pandas"] = rates["locate"].median / rates["pandas"].median
    result["fences_a_position"] = tree(index.large.shapes, points) / len(points)
    result["state_bytes_per_fence"] = len(index.dump()) / fences
    result["state_bytes_per_mover"] = len(Tracker(tracker.movers).dump()) / len(tracker.movers)
    return result


def _rate(way: Callable[[], Any], positions: int) -> float:
    begun = time.process_time()
    way()
    return positions / (time.process_time() - begun)
