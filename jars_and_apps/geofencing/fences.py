"""The jobs ``admit`` and ``locate`` of the geofencing composition: fences are checked, and positions located.

Both need the package ``shapely`` at the site.  docs/geofencing.md defines the records and their meaning.  The
results are a function of the messages alone: nothing here reads a clock.

Times are milliseconds since 1970 in UTC; coordinates are degrees, longitude first (WGS 84).  The file imports
no module of its own, as a job's file must.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pyflink.datastream import DataStream
    from pyspark.sql import DataFrame

LARGEST_FENCE = 256 * 1024  # bytes
LARGEST_ID = 200  # characters
FARTHEST = 1_000_000.0  # m, of a radius or a margin
FUTURE = 60_000  # ms that a position may be ahead of its receipt: clocks differ
LARGEST_MESSAGE = 200_000  # characters of several lines, far below a broker's limit
BEFORE_ALL = -62_135_596_800_000  # 0001-01-01T00:00:00Z
AFTER_ALL = 1 << 62
_LAST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

_COMPACT = json.JSONEncoder(separators=(",", ":"))  # json.dumps would make one at each call
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI = timedelta(milliseconds=1)
_METRES_A_DEGREE = 111_195.08  # of a great circle of the mean earth, radius 6,371,008.8 m
_STEEP = 85.0  # degrees of latitude, beyond which a degree of longitude is too short to grow a shape
_COMPLEX = 50  # vertices, from which a prepared polygon pays for its memory
_SHOWN = 200  # characters of a rejected line
_KEPT = 64  # versions of a fence whose times are remembered
_CACHED = 4  # tables of fences in a worker
_REMEMBERED = 100_000  # pairs of a fence and a mover, whether the fence is of that mover
_MARK = b"\x01"  # of a state with progress: no compressed table begins with it (RFC 1950, section 2.2)
_NUMBER = 8  # bytes, of a number in the state


class Unfit(ValueError):
    """A fence or position that is not taken; the message is the reason."""


def instant(text: str) -> int:
    """The time of an ISO 8601 text with a zone.  Raises :class:`Unfit`."""
    try:
        time = datetime.fromisoformat(text)
        found = None if time.tzinfo is None else (time - _EPOCH) // _MILLI
        if found is not None and BEFORE_ALL <= found <= _LAST:
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise Unfit(f"time {text!r:.60} is not an instant (expected ISO 8601 such as 2026-03-02T07:00:00.000Z)")


def iso(time: int) -> str:
    """A time as text, with milliseconds and ``Z``."""
    return (_EPOCH + time * _MILLI).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def compact(value: object) -> str:
    """A value as JSON on one line."""
    return _COMPACT.encode(value)


def feature_of(value: bytes) -> Mapping[str, Any]:
    """The GeoJSON Feature in a message.  Raises :class:`Unfit`."""
    try:
        # A decoder of its own takes as long as the decoding.
        odd = _no_number if b"NaN" in value or b"Infinity" in value else None
        feature = json.loads(value.decode("utf-8"), parse_constant=odd)
    except (ValueError, RecursionError) as error:
        raise Unfit(f"it is not JSON in UTF-8: {error}"[:_SHOWN]) from error
    if not isinstance(feature, dict) or feature.get("type") != "Feature":
        raise Unfit('it is not a GeoJSON Feature (expected {"type": "Feature", ...})')
    for name in ("geometry", "properties"):
        if not isinstance(feature.get(name), dict | None):
            raise Unfit(f"its {name} is a {type(feature[name]).__name__} (expected an object or null)")
    return feature


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def checked_point(point: object) -> tuple[float, float]:
    """The longitude and latitude of a GeoJSON position.  Raises :class:`Unfit`."""
    if not isinstance(point, list) or len(point) < 2 or not (_is_number(point[0]) and _is_number(point[1])):
        raise Unfit(f"{point!r:.60} is not a position (expected [longitude, latitude])")
    longitude, latitude = float(point[0]), float(point[1])
    if abs(longitude) <= 180 and abs(latitude) <= 90:
        return longitude, latitude
    swapped = abs(longitude) <= 90 and abs(latitude) <= 180
    hint = "; the latitude stands first" if swapped else ""
    raise Unfit(f"{point!r:.60} is out of range (expected longitude -180 to 180, latitude -90 to 90{hint})")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300  # neither infinite, nor too large an integer for a float


def _quantity(properties: Mapping[str, Any], name: str, most: float, default: float | None = 0.0) -> float:
    value = properties.get(name, default)
    if not _is_number(value) or not 0 <= value <= most:
        raise Unfit(f"{name} is {value!r:.60} (expected a number, 0 to {most:g})")
    return float(value)


# --- admission of fences


def admitted(topic: str, value: bytes, received: int, lead: int) -> dict[str, Any]:
    """The record of a fence as the sites get it, or ``rejected`` with the reason.

    A record has ``time`` (from which it holds: the property ``time``, or ``received`` + ``lead``), ``fence``,
    ``geometry`` and ``grown`` (by its margin; null without one), ``movers`` (null for all), ``dwell`` and
    ``confirm`` (s).  A ``geometry`` of null deletes the fence, as an empty message does.
    """
    fence = topic.rpartition("/")[2]
    try:
        if len(value) > LARGEST_FENCE:
            raise Unfit(f"it has {len(value)} bytes (expected at most {LARGEST_FENCE})")
        if not 0 < len(fence) <= LARGEST_ID:
            raise Unfit(f"the id in its topic has {len(fence)} characters (expected 1 to {LARGEST_ID})")
        return _fence_record(fence, feature_of(value) if value else {}, received + lead)
    except Unfit as error:
        return {"rejected": str(error), "fence": fence[:LARGEST_ID], "received": iso(received)}


def _fence_record(fence: str, feature: Mapping[str, Any], soon: int) -> dict[str, Any]:
    import shapely

    properties = feature.get("properties") or {}
    if feature.get("id") is not None and str(feature["id"]) != fence:
        raise Unfit(f"its id {feature['id']!r:.60} is not that of its topic ({fence!r})")
    record: dict[str, Any] = {"time": iso(instant(properties["time"]) if "time" in properties else soon)}
    margin, movers = _quantity(properties, "margin", FARTHEST), properties.get("movers")
    if movers is not None and not (isinstance(movers, list) and all(isinstance(e, str) for e in movers)):
        raise Unfit(f"movers is {movers!r:.60} (expected a list of ids or patterns such as bus-*)")
    geometry = feature.get("geometry")
    shape = None if geometry is None else shape_of(geometry, properties)
    return record | {
        "fence": fence,
        "geometry": None if shape is None else shapely.geometry.mapping(shape),
        "grown": shapely.geometry.mapping(grown(shape, margin)) if shape is not None and margin else None,
        "movers": movers,
        "dwell": _quantity(properties, "dwell", 1e9),
        "confirm": _quantity(properties, "confirm", 1e9),
    }


def shape_of(geometry: Mapping[str, Any], properties: Mapping[str, Any]) -> Any:
    """The polygon of a fence; a Point with ``radius`` (m) is a circle.  Raises :class:`Unfit`."""
    import shapely

    kind = geometry.get("type")
    if kind == "Point":
        if not (radius := _quantity(properties, "radius", FARTHEST, None)):
            raise Unfit("radius is 0 (expected metres)")
        return grown(shapely.Point(checked_point(geometry.get("coordinates"))), radius)
    if kind not in ("Polygon", "MultiPolygon"):
        raise Unfit(f"its geometry is a {kind!r:.60} (expected Polygon, MultiPolygon, or Point with radius)")
    try:
        # GEOS reports rings that are not closed.
        shape = shapely.force_2d(shapely.from_geojson(compact(geometry)))
    except shapely.GEOSException as error:
        raise Unfit(f"its {kind} is not GeoJSON: {error}"[:_SHOWN]) from error
    for point in shapely.get_coordinates(shape).tolist():
        checked_point(point)
    if any(east - west > 180 for west, _, east, _ in map(shapely.bounds, shapely.get_parts(shape))):
        raise Unfit("it spans more than 180 degrees (expected two polygons where it crosses the date line)")
    if shape.is_empty or not shape.is_valid:
        reason = "it is empty" if shape.is_empty else shapely.is_valid_reason(shape)
        raise Unfit(f"its {kind} is not valid: {reason} (expected an area in valid rings)")
    return shape


def grown(shape: Any, metres: float) -> Any:
    """A shape grown on all sides, in a plane that is true to scale in its middle.  Raises :class:`Unfit`."""
    import shapely

    west, south, east, north = shape.bounds
    if max(abs(south), abs(north)) > _STEEP:
        raise Unfit(f"a shape beyond {_STEEP:g} degrees of latitude cannot be grown (expected a polygon)")
    scale = (math.cos(math.radians((south + north) / 2)), 1.0)
    flat = shapely.transform(shape, lambda points: points * scale)
    result = shapely.transform(flat.buffer(metres / _METRES_A_DEGREE), lambda points: points / scale)
    west, south, east, north = result.bounds
    if west < -180 or east > 180 or south < -90 or north > 90:
        raise Unfit(f"grown by {metres:g} m, it reaches over a pole or the date line")
    return result


# --- the fences of each position

Event = dict[str, Any]
Message = tuple[str, bytes, int]  # topic, value, and time of receipt


@dataclass(frozen=True)
class Version:
    """One version of a fence at a site: ``start`` is ``time``, or later if it came too late for that."""

    fence: str
    time: int
    start: int
    shape: str | None  # GeoJSON; null deletes the fence
    grown: str | None
    movers: Sequence[str] | None
    dwell: float
    confirm: float

    @classmethod
    def of(cls, line: bytes) -> Self:
        """The version in a record of :func:`admitted`.  Raises :class:`Unfit`."""
        try:
            record = json.loads(line)
            time = instant(record["time"])
            shape, grown = (each and compact(each) for each in (record["geometry"], record["grown"]))
            quantities = (float(record[name]) for name in ("dwell", "confirm"))
            return cls(str(record["fence"]), time, time, shape, grown, record["movers"], *quantities)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise Unfit(f"it is not a record of admit: {error!r:.60}") from error


@dataclass(frozen=True)
class Table:
    """The versions of all fences at a site, by fence and start, and the times of those that were seen."""

    versions: Sequence[Version] = ()
    seen: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def load(cls, state: bytes) -> Self:
        """The table that :meth:`dump` wrote."""
        versions, seen = json.loads(zlib.decompress(state))
        return cls([Version(*row) for row in versions], seen)

    def dump(self) -> bytes:
        """The table as bytes."""
        return zlib.compress(compact([[astuple(each) for each in self.versions], self.seen]).encode(), 1)

    def changed(self, arrived: Iterable[Version], newest: int, reached: int) -> tuple[Table, list[Event]]:
        """The table with other versions, and an event for each that is too late for its time.

        ``newest`` is the time of the newest position so far; later ones have a time after ``reached``.
        """
        versions, seen, late = list(self.versions), dict(self.seen), []
        for version in sorted(arrived, key=lambda each: (each.time, each.fence, each.shape or "")):
            times = seen.get(version.fence, ())
            if version.time in times:
                continue  # a repetition
            seen[version.fence] = sorted([*times, version.time])[-_KEPT:]
            if version.time <= newest:
                # A version that a newer one has already replaced never holds.
                holds = not any(version.time < each <= newest + 1 for each in times)
                event: Event = {"time": iso(version.time), "event": "late fence", "fence": version.fence}
                late.append(event | {"from": iso(newest + 1) if holds else None})
                if not holds:
                    continue
                version = replace(version, start=newest + 1)
            versions.append(version)
        return (Table(_needed(versions, reached), seen) if seen != self.seen else self), late


def _needed(versions: Iterable[Version], reached: int) -> list[Version]:
    """The versions that a position after ``reached`` may meet, by fence and start."""
    by_fence: dict[str, list[Version]] = {}
    for each in sorted(versions, key=lambda version: (version.fence, version.start, version.time)):
        own = by_fence.setdefault(each.fence, [])
        if each.start <= reached + 1:
            own.clear()
        own.append(each)
    # An older version that arrives after a deletion is one of the times seen.
    kept = (each for own in by_fence.values() for each in own)
    return [each for each in kept if each.shape is not None or each.start > reached + 1]


class Index:
    """A table as arrays, and a tree of the bounding boxes of its shapes."""

    def __init__(self, table: Table) -> None:
        import numpy as np
        import shapely

        self.table = table
        following = [*table.versions[1:], None]
        ends = [
            after.start if after is not None and after.fence == each.fence else AFTER_ALL
            for each, after in zip(table.versions, following, strict=False)
        ]
        shown = [
            (each, end) for each, end in zip(table.versions, ends, strict=True) if each.shape is not None
        ]
        self.versions = [each for each, _ in shown]
        self.start = np.array([each.start for each in self.versions], dtype=np.int64)
        self.end = np.array([end for _, end in shown], dtype=np.int64)
        self.shapes = shapely.from_geojson(np.array([each.shape for each in self.versions], dtype=object))
        self.grown = shapely.from_geojson(np.array([each.grown for each in self.versions], dtype=object))
        for shapes in (self.shapes, self.grown):
            shapely.prepare(shapes[shapely.get_num_coordinates(shapes) >= _COMPLEX])
        self.tree = shapely.STRtree(np.where(shapely.is_missing(self.grown), self.shapes, self.grown))
        self._named: dict[tuple[int, str], bool] = {}

    def names(self, number: int, mover: str) -> bool:
        """True if a version that is of some movers only is of this one."""
        named = self._named.get((number, mover))
        if named is None:
            if len(self._named) >= _REMEMBERED:
                self._named.clear()
            patterns = self.versions[number].movers or ()
            named = any(fnmatchcase(mover, pattern) for pattern in patterns)
            self._named[number, mover] = named
        return named


def inside(
    index: Index, longitude: np.ndarray, latitude: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs of points and versions at their times: numbers of both, and true in the fence itself.

    The other pairs are within its margin only.  A border belongs to the shape.
    """
    import shapely

    point, version = index.tree.query(shapely.points(longitude, latitude))
    holds = (index.start[version] <= time[point]) & (time[point] < index.end[version])
    point, version = point[holds], version[holds]
    within = shapely.intersects_xy(index.shapes[version], longitude[point], latitude[point])
    around = within | shapely.intersects_xy(index.grown[version], longitude[point], latitude[point])
    return point[around], version[around], within[around]


class Position(NamedTuple):
    """A position of a mover; without a mover, the time of its site alone."""

    time: int
    mover: str = ""
    longitude: float = 0.0
    latitude: float = 0.0

    def event(self) -> Event:
        """The position as a line."""
        return {"time": iso(self.time), "mover": self.mover, "position": [self.longitude, self.latitude]}


def position_of(line: bytes, received: int) -> Position:
    """The position in a line.  Raises :class:`Unfit`."""
    return position_in(feature_of(line), received)


def position_in(feature: Mapping[str, Any], received: int) -> Position:
    """The position in a GeoJSON Feature.  Raises :class:`Unfit`."""
    properties = feature.get("properties") or {}
    if "time" not in properties:
        raise Unfit("it has no time (expected the property time)")
    time = instant(properties["time"])
    if time > received + FUTURE:
        raise Unfit(f"its time {iso(time)} is in the future (it was received at {iso(received)})")
    geometry, mover = feature.get("geometry"), feature.get("id")
    if geometry is None and mover is None:
        return Position(time)
    if isinstance(mover, bool) or not isinstance(mover, str | int) or not 0 < len(str(mover)) <= LARGEST_ID:
        raise Unfit(f"its id is {mover!r:.60} (expected 1 to {LARGEST_ID} characters)")
    if geometry is None or geometry.get("type") != "Point":
        raise Unfit(f"its geometry is a {geometry and geometry.get('type')!r:.60} (expected Point)")
    return Position(time, str(mover), *checked_point(geometry.get("coordinates")))


@dataclass(frozen=True)
class Progress:
    """The newest time of a site's positions, and the time that it has ``reached``: later ones are after it.

    ``lateness`` (ms) is that of the next batch.  An argument that changes counts from the batch after: one
    that ran before, and runs again after an update, gives the same messages.
    """

    newest: int = BEFORE_ALL
    reached: int = BEFORE_ALL
    lateness: int = 0

    @classmethod
    def load(cls, newest: int, state: bytes, lateness: int) -> tuple[Self, bytes]:
        """The progress, and the table's bytes, in the two columns of the state; ``lateness`` as of now."""
        if state[:1] == _MARK:
            first, second = 1 + _NUMBER, 1 + 2 * _NUMBER
            reached, former = (
                int.from_bytes(part, signed=True) for part in (state[1:first], state[first:second])
            )
            return cls(newest, reached, former), state[second:]
        # Of a version that kept the table alone.
        return cls(newest, max(newest - lateness - 1, BEFORE_ALL), lateness), state

    def dump(self, table: bytes) -> tuple[int, bytes]:
        """Both columns."""
        numbers = (each.to_bytes(_NUMBER, signed=True) for each in (self.reached, self.lateness))
        return self.newest, b"".join([_MARK, *numbers, table])

    def after(self, positions: Iterable[Position], lateness: int) -> Progress:
        """The progress after a batch."""
        newest = max([self.newest, *(each.time for each in positions)])
        return Progress(newest, max(self.reached, newest - self.lateness - 1), lateness)


def located(
    index: Index, progress: Progress, messages: Iterable[Message], site: str, lateness: int
) -> tuple[Index, Progress, list[str]]:
    """The next index and progress of a site, and the messages about a batch.

    The first line of each has a time ``reached``: no later message has a position of that time or before.
    Of the batch itself, that is the time in the last message, in the order of their texts.  ``lateness`` (ms)
    is that of the batches after this one.
    """
    fences, positions, events = _sorted_out(messages)
    reached = progress.reached
    table, late = index.table.changed(fences, progress.newest, reached)
    index = index if table is index.table else Index(table)
    movers = [each for each in positions if each.mover]
    events += [*late, *(each.event() | {"event": "late"} for each in movers if each.time <= reached)]
    placed = _placed(index, [each for each in movers if each.time > reached])
    # Sorted, since a repeated batch may have its rows in another order.
    for event in [*events, *placed]:
        event["site"] = site
    lines = sorted(map(compact, [*events, *placed]))
    after = progress.after(positions, lateness)
    head, last = (compact({"reached": iso(each), "site": site}) for each in (reached, after.reached))
    ended = [last] * (after.reached > reached)
    return index, after, [*("\n".join([head, *part]) for part in packed(lines)), *ended]


def packed(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of each message."""
    part, size = list[str](), 0
    for line in lines:
        if part and size + len(line) > LARGEST_MESSAGE:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _sorted_out(messages: Iterable[Message]) -> tuple[list[Version], list[Position], list[Event]]:
    """The fences, the positions, and an event for each line that is neither."""
    fences, positions, rejected = [], [], []
    for topic, value, received in messages:
        of_fences = topic.rpartition("/")[2] == "fences"
        for line in filter(None, value.split(b"\n")):
            try:
                if of_fences:
                    fences.append(Version.of(line))
                else:
                    positions.append(position_of(line, received))
            except Unfit as error:
                text = line[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
                event = {"time": iso(received), "event": "rejected"}
                rejected.append(event | {"reason": str(error), "line": text})
    return fences, positions, rejected


def _placed(index: Index, positions: Sequence[Position]) -> list[Event]:
    import numpy as np

    within: list[Event] = [{} for _ in positions]
    near: list[list[str]] = [[] for _ in positions]
    columns = [np.array([getattr(p, name) for p in positions]) for name in ("longitude", "latitude", "time")]
    pairs = (each.tolist() for each in inside(index, *columns)) if positions else ((), (), ())
    for point, number, hit in zip(*pairs, strict=True):
        version = index.versions[number]
        if version.movers is not None and not index.names(number, positions[point].mover):
            continue
        if hit:
            within[point][version.fence] = [version.dwell, version.confirm]
        else:
            near[point].append(version.fence)
    return [
        each.event() | {"in": dict(sorted(fences.items())), "near": sorted(around)}
        for each, fences, around in zip(positions, within, near, strict=True)
    ]


def index_of(state: bytes) -> Index:
    """The index of a table that :meth:`Table.dump` wrote, kept for the next batches."""
    # A function that travels by value gets new globals with each task; the worker's modules last.
    held = sys.modules.setdefault("speck_geofencing", ModuleType("speck_geofencing")).__dict__
    indices: dict[bytes, Index] = held.setdefault("indices", {})
    if state not in indices:
        if len(indices) >= _CACHED:
            indices.clear()
        indices[state] = Index(Table.load(state))
    return indices[state]


# --- the jobs


def admit(messages: DataFrame, lead: float = 5.0) -> DataFrame:
    """Records of fences, as of :func:`admitted`, for GeoJSON Features on ``fences/ID``.

    ``lead`` (s) is the time from receipt until a fence holds, in which it reaches all sites.
    """
    from pyspark.sql import functions as sf

    def records(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            rows = zip(frame["topic"], frame["value"], frame["received"], strict=True)
            made = (admitted(topic, bytes(value), int(at), round(lead * 1000)) for topic, value, at in rows)
            yield frame.iloc[:, :0].assign(value=[compact(each) for each in made])

    received = sf.unix_millis("timestamp").alias("received")
    return messages.select("topic", "value", received).mapInPandas(records, "value STRING")


def locate(messages: DataFrame, site: str, lateness: float = 10.0) -> DataFrame:
    """The fences of each position of a site, as messages of :func:`located`.

    ``messages`` are positions and fences, told apart by their topic, which ends in ``fences`` for the latter.
    ``lateness`` (s) is the time by which a position may be older than the newest one of the site.
    """
    from pyspark.sql import functions as sf

    def step(_: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        length = round(lateness * 1000)
        newest, kept = state.getOption or Progress(lateness=length).dump(Table().dump())
        progress, fences = Progress.load(newest, bytes(kept), length)
        before = index_of(fences)
        rows = [row for frame in frames for row in zip(*(frame[name] for name in columns), strict=True)]
        given = [(str(topic), bytes(value), int(at)) for topic, value, at in rows]
        index, progress, made = located(before, progress, given, site, length)
        state.update(progress.dump(fences if index is before else index.table.dump()))
        yield pd.DataFrame({"value": pd.Series(made, dtype=object)})

    columns = ("topic", "value", "received")
    received = sf.unix_millis("timestamp").alias("received")
    # One group: all fences and positions of a site meet there.
    rows = messages.select(sf.lit(0).alias("site"), "topic", "value", received).groupBy("site")
    return rows.applyInPandasWithState(
        step, "value STRING", "newest BIGINT, fences BINARY", "append", "NoTimeout"
    )


def locate_on_flink(messages: DataStream, site: str, lateness: float = 10.0) -> DataStream:
    """The job :func:`locate` in PyFlink, where each message is a batch."""
    from pyflink.common import Types
    from pyflink.datastream import KeyedProcessFunction
    from pyflink.datastream.state import ValueStateDescriptor

    length = round(lateness * 1000)

    class Locate(KeyedProcessFunction):  # type: ignore[misc]
        """Has the table in a state of its own, which is written when a fence changes."""

        def open(self, runtime_context: Any) -> None:
            names = ("progress", "fences")
            states = (ValueStateDescriptor(each, Types.PICKLED_BYTE_ARRAY()) for each in names)
            self._progress, self._fences = map(runtime_context.get_state, states)
            self._index: Index | None = None  # of the one key

        def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
            newest, numbers = self._progress.value() or Progress(lateness=length).dump(b"")
            progress, _ = Progress.load(newest, numbers, length)
            if self._index is None:
                kept = self._fences.value()
                self._index = Index(Table() if kept is None else Table.load(kept))
            given = [(str(value[0]), bytes(value[1]), int(value[3]))]
            index, progress, made = located(self._index, progress, given, site, length)
            self._progress.update(progress.dump(b""))
            if index is not self._index:
                self._index = index
                self._fences.update(index.table.dump())
            yield from made

    keyed = messages.key_by(lambda _: 0, Types.INT())
    return keyed.process(Locate(), Types.STRING()).name("process: locate").uid("locate")


locate_on_flink.value_type = "message"  # type: ignore[attr-defined]

# Of bytes, a message that is not UTF-8 is rejected with its reason, like any other that is not JSON.
admit.value_type = "binary"  # type: ignore[attr-defined]
locate.value_type = "binary"  # type: ignore[attr-defined]
