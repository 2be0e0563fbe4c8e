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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import compress
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
LONGEST = 1e9  # s, of a fence's dwell or confirm
FUTURE = 60_000  # ms that a position may be ahead of its receipt: clocks differ
LARGEST_MESSAGE = 200_000  # characters of several lines, far below a broker's limit
BEFORE_ALL = -62_135_596_800_000  # 0001-01-01T00:00:00Z
AFTER_ALL = 1 << 62
_LAST = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

_COMPACT = json.JSONEncoder(separators=(",", ":"))  # json.dumps would make one at each call
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI = timedelta(milliseconds=1)
_METRES_A_DEGREE = 111_195.08  # of a great circle of the mean earth, radius 6,371,008.8 m
_POLYGONS = (-1, 3, 6)  # no geometry, Polygon, MultiPolygon, as of shapely
_STEEP = 85.0  # degrees of latitude, beyond which a degree of longitude is too short to grow a shape
_COMPLEX = 50  # vertices, from which a prepared polygon pays for its memory
_SHOWN = 200  # characters of a rejected line
_REJECTED = 100  # lines of a message that are rejected one by one
_KEPT = 64  # versions of a fence whose times are remembered
_CACHED = 4  # indices of fences in a worker
_LAYOUT = 3  # of an index: raised when its code changes, since a worker may outlive an update of the job
_REMEMBERED = 100_000  # pairs of a fence and a mover, whether the fence is of that mover
_MARK = b"\x01"  # of a state with progress: no compressed table begins with it (RFC 1950, section 2.2)
_NUMBER = 8  # bytes, of a number in the state
_ROWS = b"\x02"  # begins the rows of fences in the state; no compressed table begins with it either
_LENGTH = 4  # bytes, of the length of a row


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
    margin, movers = _quantity(properties, "margin", FARTHEST), _movers(properties)
    geometry = feature.get("geometry")
    shape = None if geometry is None else shape_of(geometry, properties)
    return record | {
        "fence": fence,
        "geometry": None if shape is None else shapely.geometry.mapping(shape),
        "grown": shapely.geometry.mapping(grown(shape, margin)) if shape is not None and margin else None,
        "movers": movers,
        "dwell": _quantity(properties, "dwell", LONGEST),
        "confirm": _quantity(properties, "confirm", LONGEST),
    }


def _movers(properties: Mapping[str, Any]) -> Sequence[str] | None:
    movers = properties.get("movers")
    if movers is not None and not (isinstance(movers, list) and all(isinstance(e, str) for e in movers)):
        raise Unfit(f"movers is {movers!r:.60} (expected a list of ids or patterns such as bus-*)")
    return movers


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


class Version(NamedTuple):
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
            shape, grown = (_polygon(record[name]) for name in ("geometry", "grown"))
            quantities = (_quantity(record, name, LONGEST, None) for name in ("dwell", "confirm"))
            fence = str(record["fence"])
            fence.encode()  # raises for a lone surrogate, which the state of Flink does not hold
            return cls(fence, time, time, shape, grown, _movers(record), *quantities)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise Unfit(f"it is not a record of admit: {error!r:.60}") from error


def _polygon(geometry: object) -> str | None:
    """The GeoJSON of a polygon in a record; ``None`` if it has none.  Raises :class:`Unfit`."""
    import shapely

    text = None if geometry is None else compact(geometry)
    try:
        kind = shapely.get_type_id(shapely.from_geojson(text))
    except shapely.GEOSException as error:
        raise Unfit(f"its geometry is not GeoJSON: {error}"[:_SHOWN]) from error
    if kind not in _POLYGONS:
        raise Unfit(f"its geometry is {text:.60} (expected Polygon or MultiPolygon)")
    return text


class Fence(NamedTuple):
    """The versions of a fence at a site, by start, and the times of those that were seen."""

    name: str
    versions: Sequence[Version] = ()
    seen: Sequence[int] = ()

    @classmethod
    def load(cls, row: bytes) -> Self:
        """The fence that :meth:`dump` wrote."""
        name, versions, seen = json.loads(zlib.decompress(row))
        return cls(name, [Version(*each) for each in versions], seen)

    def dump(self) -> bytes:
        """The fence as bytes, its row in the state."""
        return zlib.compress(compact(self).encode(), 1)

    def after(self, version: Version, newest: int) -> tuple[Fence, list[Event]]:
        """The fence with another version, and an event if that is too late for its time."""
        versions, seen = self.versions, sorted([*self.seen, version.time])[-_KEPT:]
        if version.time > newest:
            return Fence(self.name, [*versions, version], seen), []
        # A version that a newer one has already replaced never holds.
        holds = not any(version.time < each <= newest + 1 for each in self.seen)
        if holds:
            versions = [*versions, version._replace(start=newest + 1)]
        event: Event = {"time": iso(version.time), "event": "late fence", "fence": self.name}
        return Fence(self.name, versions, seen), [event | {"from": iso(newest + 1) if holds else None}]

    def contradicts(self, version: Version) -> bool:
        """True if the fence has another version of the same time."""
        same = (each._replace(start=version.start) for each in self.versions if each.time == version.time)
        return any(each != version for each in same)

    def needed(self, reached: int) -> Fence:
        """The fence without the versions that no position after ``reached`` meets."""
        versions = sorted(self.versions, key=lambda each: (each.start, each.time))
        begun = sum(each.start <= reached + 1 for each in versions)
        kept = versions[max(0, begun - 1) :]
        # An older version that arrives after a deletion is one of the times seen.
        kept = [each for each in kept if each.shape is not None or each.start > reached + 1]
        return self._replace(versions=kept)

    def shown(self) -> Iterator[tuple[Version, int]]:
        """The versions that have a shape, each with the time at which it ends."""
        ends = [*(each.start for each in self.versions[1:]), AFTER_ALL]
        return ((each, end) for each, end in zip(self.versions, ends, strict=False) if each.shape is not None)


class Layer:
    """Some fences: their rows, and their versions as arrays with a tree of the bounding boxes of the shapes.

    ``versions`` are without the texts of their shapes; the columns are start, end, shapes, and grown shapes.
    """

    def __init__(self, rows: Mapping[str, bytes], versions: Sequence[Version], *columns: np.ndarray) -> None:
        import numpy as np
        import shapely

        self.rows, self.versions, self.columns = rows, versions, columns
        self.start, self.end, self.shapes, self.grown = columns
        self._tree = shapely.STRtree(np.where(shapely.is_missing(self.grown), self.shapes, self.grown))
        self._numbers: dict[str, list[int]] | None = None
        self._named: dict[tuple[int, str], bool] = {}

    @classmethod
    def of(cls, fences: Iterable[Fence], rows: Mapping[str, bytes]) -> Layer:
        """The layer of some fences, whose rows are those by name."""
        import numpy as np
        import shapely

        shown = [pair for fence in fences for pair in fence.shown()]
        numbers = [(version.start, end) for version, end in shown]
        texts = [(version.shape, version.grown) for version, _ in shown]
        times = np.array(numbers, dtype=np.int64).reshape(-1, 2).T
        shapes = shapely.from_geojson(np.array(texts, dtype=object).reshape(-1, 2).T)
        shapely.prepare(shapes[shapely.get_num_coordinates(shapes) >= _COMPLEX])
        return cls(rows, [each._replace(shape=None, grown=None) for each, _ in shown], *times, *shapes)

    def under(self, other: Layer) -> Layer:
        """Both layers as one, in which the fences of ``other`` replace those of the same name."""
        import numpy as np

        if not self.rows:
            return other
        kept = np.ones(len(self.versions), dtype=bool)
        kept[self.numbers(other.rows)] = False
        versions = [*compress(self.versions, kept.tolist()), *other.versions]
        columns = zip(self.columns, other.columns, strict=True)
        joined = (np.concatenate([own[kept], others]) for own, others in columns)
        return Layer({**self.rows, **other.rows}, versions, *joined)

    def numbers(self, fences: Iterable[str]) -> list[int]:
        """The numbers of the versions of some fences."""
        if self._numbers is None:
            self._numbers = {}
            for number, version in enumerate(self.versions):
                self._numbers.setdefault(version.fence, []).append(number)
        return [number for fence in fences for number in self._numbers.get(fence, ())]

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
        self, longitude: np.ndarray, latitude: np.ndarray, time: np.ndarray, end: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs of :meth:`Index.inside`, of versions that end at ``end``."""
        import shapely

        point, version = self._tree.query(shapely.points(longitude, latitude))
        holds = (self.start[version] <= time[point]) & (time[point] < end[version])
        point, version = point[holds], version[holds]
        within = shapely.intersects_xy(self.shapes[version], longitude[point], latitude[point])
        around = within | shapely.intersects_xy(self.grown[version], longitude[point], latitude[point])
        return point[around], version[around], within[around]


class Index:
    """The fences of a site: a large layer, and over it a small one of those that changed since it was made.

    :meth:`changed` makes another index, since a batch may run again, which shares what is the same.  So a
    change takes a time that depends on the small layer, and not on the number of all fences.
    """

    def __init__(self, large: Layer | None = None, small: Layer | None = None) -> None:
        self.large, self.small = large or Layer.of([], {}), small or Layer.of([], {})
        self._ends = self.large.end.copy()
        self._ends[self.large.numbers(self.small.rows)] = BEFORE_ALL  # replaced
        self.changes: Mapping[str, bytes] = {}  # the rows of the fences that changed last

    @classmethod
    def of(cls, rows: Iterable[bytes]) -> Self:
        """The index of the fences in some rows."""
        found = {fence.name: (fence, row) for fence, row in ((Fence.load(row), row) for row in rows)}
        fences = [fence for fence, _ in found.values()]
        return cls(Layer.of(fences, {name: row for name, (_, row) in found.items()}))

    @classmethod
    def load(cls, state: bytes) -> Self:
        """The index that :meth:`dump` wrote."""
        if state[:1] != _ROWS:
            return cls.of(_rows_of_table(state))
        rows, end = list[bytes](), 1
        while end < len(state):
            begin = end + _LENGTH
            end = begin + int.from_bytes(state[end:begin])
            rows.append(state[begin:end])
        return cls.of(rows)

    def dump(self) -> bytes:
        """The fences as bytes."""
        rows = {**self.large.rows, **self.small.rows}.values()
        return b"".join([_ROWS, *(part for row in rows for part in (len(row).to_bytes(_LENGTH), row))])

    def fence(self, name: str) -> Fence:
        """The fence of that name."""
        row = self.small.rows.get(name) or self.large.rows.get(name)
        return Fence(name) if row is None else Fence.load(row)

    def changed(self, arrived: Iterable[Version], newest: int, reached: int) -> tuple[Index, list[Event]]:
        """The index with other versions, and an event for each that comes late or has another's time.

        ``newest`` is the time of the newest position so far; later ones have a time after ``reached``.
        """
        fences, late = dict[str, Fence](), list[Event]()
        for version in sorted(arrived, key=lambda each: (each.time, each.fence, each.shape or "")):
            fence = fences.get(version.fence) or self.fence(version.fence)
            if version.time not in fence.seen:
                fences[version.fence], events = fence.after(version, newest)
                late += events
            elif fence.contradicts(version):  # no repetition
                reason = f"another version of fence {version.fence!r:.60} has the time {iso(version.time)}"
                late.append(_rejected(version.time, reason) | {"fence": version.fence})
        return (self._with([each.needed(reached) for each in fences.values()]) if fences else self), late

    def _with(self, fences: Sequence[Fence]) -> Index:
        rows = {each.name: each.dump() for each in fences}
        small = self.small.under(Layer.of(fences, rows))
        # Of the sizes at which the layers are rebuilt, the root costs least for a number of single changes.
        if len(small.rows) ** 2 > 2 * len(self.large.rows):
            made = Index(self.large.under(small))
        else:
            made = Index(self.large, small)
        made.changes = rows
        return made

    def inside(
        self, longitude: np.ndarray, latitude: np.ndarray, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs of points and versions at their times: numbers of both, and true in the fence itself.

        The other pairs are within its margin only.  A border belongs to the shape.
        """
        import numpy as np

        large = self.large.inside(longitude, latitude, time, self._ends)
        point, version, within = self.small.inside(longitude, latitude, time, self.small.end)
        small = (point, version + len(self.large.versions), within)
        points, versions, hits = (np.concatenate(each) for each in zip(large, small, strict=True))
        return points, versions, hits

    def version(self, number: int) -> Version:
        """A version, without its shapes, by the number of :meth:`inside`."""
        above = number - len(self.large.versions)
        return self.large.versions[number] if above < 0 else self.small.versions[above]

    def names(self, number: int, mover: str) -> bool:
        """True if a version that is of some movers only is of this one."""
        above = number - len(self.large.versions)
        return self.large.names(number, mover) if above < 0 else self.small.names(above, mover)


def _rows_of_table(state: bytes) -> Iterator[bytes]:
    """The rows of a state that was written as one table, of all versions and of the times seen."""
    rows, seen = json.loads(zlib.decompress(state))
    versions: dict[str, list[Version]] = {name: [] for name in seen}
    for row in rows:
        versions[row[0]].append(Version(*row))
    return (Fence(name, own, seen[name]).dump() for name, own in versions.items())


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
    index, late = index.changed(fences, progress.newest, reached)
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
    """The fences, the positions, and events for the lines that are neither."""
    fences, positions, rejected = list[Version](), list[Position](), list[Event]()
    for topic, value, received in messages:
        of_fences = topic.rpartition("/")[2] == "fences"
        unfit = 0
        for line in filter(None, value.split(b"\n")):
            try:
                if of_fences:
                    fences.append(Version.of(line))
                else:
                    positions.append(position_of(line, received))
            except Unfit as error:
                unfit += 1
                if unfit <= _REJECTED:
                    rejected.append(_rejected(received, str(error), line))
        # An event has a hundred times the bytes of a short line.
        if (further := unfit - _REJECTED) > 0:
            reason = f"{further} further lines of its message are rejected"
            rejected.append(_rejected(received, reason) | {"lines": further})
    return fences, positions, rejected


def _rejected(time: int, reason: str, line: bytes = b"") -> Event:
    text = line[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
    return {"time": iso(time), "event": "rejected", "reason": reason, "line": text}


def _placed(index: Index, positions: Sequence[Position]) -> list[Event]:
    import numpy as np

    within: list[Event] = [{} for _ in positions]
    near: list[list[str]] = [[] for _ in positions]
    columns = [np.array([getattr(p, name) for p in positions]) for name in ("longitude", "latitude", "time")]
    pairs = (each.tolist() for each in index.inside(*columns)) if positions else ((), (), ())
    for point, number, hit in zip(*pairs, strict=True):
        version = index.version(number)
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


def stepped(
    kept: tuple[int, bytes] | None, messages: Iterable[Message], site: str, lateness: int
) -> tuple[tuple[int, bytes], list[str]]:
    """The next state of a site, in its two columns, and the messages of :func:`located` about a batch."""
    newest, state = kept or Progress(lateness=lateness).dump(_ROWS)
    progress, fences = Progress.load(newest, bytes(state), lateness)
    before = _index_of(fences)
    index, progress, made = located(before, progress, messages, site, lateness)
    if index is not before:
        fences = index.dump()
        _remember(fences, index, before)
    return progress.dump(fences), made


def _indices() -> list[tuple[bytes, Index]]:
    """The indices of a worker, by their states, with the newest one at the end."""
    # A function that travels by value gets new globals with each task; the worker's modules last.
    name = f"speck_geofencing_{_LAYOUT}"
    held = sys.modules.setdefault(name, ModuleType(name)).__dict__
    found: list[tuple[bytes, Index]] = held.setdefault("indices", [])
    return found


def _index_of(state: bytes) -> Index:
    # To compare takes a tenth of the time of a hash: states that differ do so early.
    for kept, index in _indices():
        if kept == state:
            return index
    index = Index.load(state)
    _remember(state, index)
    return index


def _remember(state: bytes, index: Index, before: Index | None = None) -> None:
    """Keep the index of a state for the next batches, instead of the one that it was made of."""
    held = _indices()
    held[:] = [*(pair for pair in held if pair[1] is not before), (state, index)][-_CACHED:]


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

    ``messages`` are positions, and fences from a topic that ends in ``fences``.
    ``lateness`` (s) is the time by which a position may be older than the newest one of the site.
    """
    from pyspark.sql import functions as sf

    def step(_: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = [row for frame in frames for row in zip(*(frame[name] for name in columns), strict=True)]
        given = [(str(topic), bytes(value), int(at)) for topic, value, at in rows]
        after, made = stepped(state.getOption, given, site, round(lateness * 1000))
        state.update(after)
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
    from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

    length = round(lateness * 1000)

    class Locate(KeyedProcessFunction):  # type: ignore[misc]
        """Has each fence in a state of its own: a message writes those that it changes."""

        def open(self, runtime_context: Any) -> None:
            binary = Types.PICKLED_BYTE_ARRAY()
            names = ("progress", "fences")
            states = (ValueStateDescriptor(each, binary) for each in names)
            self._progress, self._table = map(runtime_context.get_state, states)
            self._rows = runtime_context.get_map_state(MapStateDescriptor("rows", Types.STRING(), binary))
            self._index: Index | None = None  # of the one key

        def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
            newest, numbers = self._progress.value() or Progress(lateness=length).dump(b"")
            progress, _ = Progress.load(newest, numbers, length)
            before = self._index or self._load()
            given = [(str(value[0]), bytes(value[1]), int(value[3]))]
            self._index, progress, made = located(before, progress, given, site, length)
            self._progress.update(progress.dump(b""))
            if self._index is not before:
                for name, row in self._index.changes.items():
                    self._rows.put(name, row)
            yield from made

        def _load(self) -> Index:
            table = self._table.value()
            if table is None:
                return Index.of([row for _, row in self._rows.items()])
            # Of a version that kept all fences as one value.
            index = Index.load(table)
            for name, row in index.large.rows.items():
                self._rows.put(name, row)
            self._table.clear()
            return index

    keyed = messages.key_by(lambda _: 0, Types.INT())
    return keyed.process(Locate(), Types.STRING()).name("process: locate").uid("locate")


locate_on_flink.value_type = "message"  # type: ignore[attr-defined]

# Of bytes, a message that is not UTF-8 is rejected with its reason, like any other that is not JSON.
admit.value_type = "binary"  # type: ignore[attr-defined]
locate.value_type = "binary"  # type: ignore[attr-defined]
