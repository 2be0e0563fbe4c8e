"""The events of all positions and fences at once: what the jobs must find, computed in another way.

It shares no code with them, and shapely only at its lowest level: fence by fence, a tree of points instead
of one of polygons; then mover by mover, runs of positions instead of a machine.  Times are milliseconds
since 1970.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
import shapely

IN, NEAR, OUT = "in", "near", "out"

Event = dict[str, Any]


class Point(NamedTuple):
    """A position at a site."""

    time: int
    position: tuple[float, float]
    site: str
    mover: str


class Code(NamedTuple):
    """The relation of a point to a fence, and the fence's quantities (s) at its time."""

    kind: str = OUT
    dwell: float = 0.0
    confirm: float = 0.0


def milliseconds(text: str) -> int:
    """The time of an ISO 8601 text."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def text_of(time: int) -> str:
    """The text of a time."""
    moment = datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(milliseconds=time)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time % 1000:03}Z"


def points_of(messages: Iterable[Mapping[str, Any]]) -> list[Point]:
    """The positions in messages of the generator, each as often as it is sent."""
    found = []
    for message in messages:
        if message.get("malformed") or message["topic"] != "geo/positions":
            continue
        for feature in map(json.loads, message["text"].split("\n")):
            if feature["geometry"] is not None:
                longitude, latitude = feature["geometry"]["coordinates"]
                time = milliseconds(feature["properties"]["time"])
                found.append(Point(time, (longitude, latitude), message["site"], feature["id"]))
    return found


class Reference:
    """The expected events of positions and of admitted fences.

    ``reports`` are the events ``late`` and ``late fence`` of the jobs, which are left out: a position of
    which all copies came late, and the time before a late fence reached its site.  ``forget`` is in ms; the
    data ends later than that after the last position.
    """

    def __init__(
        self,
        points: Iterable[Point],
        records: Iterable[Mapping[str, Any]],
        reports: Sequence[Event] = (),
        forget: int = 3_600_000,
    ) -> None:
        late = Counter(
            Point(milliseconds(e["time"]), tuple(e["position"]), e["site"], e["mover"])
            for e in reports
            if e["event"] == "late"
        )
        kept = [point for point, copies in Counter(points).items() if copies > late[point]]
        first: dict[tuple[str, int], Point] = {}
        for point in sorted(kept):
            first.setdefault((point.mover, point.time), point)
        self._points = sorted(first.values(), key=lambda point: (point.mover, point.time))
        self._records = list(records)
        self._starts = {
            (e["site"], e["fence"], e["time"]): e["from"] for e in reports if e["event"] == "late fence"
        }
        self._forget = forget

    def events(self) -> list[Event]:
        """All events, in no order."""
        codes = self._codes()
        found = []
        for mover, numbers in self._movers().items():
            fences = {fence for number in numbers for fence in codes[number]}
            for part, first in self._segments(numbers):
                for fence in fences:
                    own = [(self._points[n], codes[n].get(fence, Code())) for n in part]
                    for event in _visits(own, self._forget):
                        found.append({"mover": mover, "fence": fence} | event(first))
        return found

    def _movers(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for number, point in enumerate(self._points):
            found[point.mover].append(number)
        return found

    def _segments(self, numbers: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """The parts without a silence, each with the time of its first position."""
        times = [self._points[n].time for n in numbers]
        cuts = [i for i in range(1, len(times)) if times[i] - times[i - 1] > self._forget]
        for begin, end in zip([0, *cuts], [*cuts, len(times)], strict=True):
            yield list(numbers[begin:end]), times[begin]

    def _codes(self) -> list[dict[str, Code]]:
        codes: list[dict[str, Code]] = [{} for _ in self._points]
        for site in {point.site for point in self._points}:
            numbers = np.array([n for n, point in enumerate(self._points) if point.site == site])
            tree = shapely.STRtree(shapely.points([self._points[n].position for n in numbers]))
            for record, start, end in self._held(site):
                for kind, shape in _shapes(record):
                    for number in numbers[tree.query(shape, predicate="covers")]:
                        point = self._points[number]
                        if start <= point.time < end and _names(record, point.mover):
                            code = Code(kind, record["dwell"], record["confirm"])
                            codes[number][record["fence"]] = code
        return codes

    def _held(self, site: str) -> Iterator[tuple[Mapping[str, Any], int, int]]:
        """The versions of fences at a site, each with the times from which and until which it holds."""
        by_fence: dict[str, dict[tuple[int, int], Mapping[str, Any]]] = defaultdict(dict)
        for record in self._records:
            start = self._starts.get((site, record["fence"], record["time"]), record["time"])
            if start is not None:
                key = (milliseconds(start), milliseconds(record["time"]))
                by_fence[record["fence"]].setdefault(key, record)
        for versions in by_fence.values():
            keys = sorted(versions)
            ends = [*(key[0] for key in keys[1:]), 1 << 62]
            for key, end in zip(keys, ends, strict=True):
                yield versions[key], key[0], end


def _shapes(record: Mapping[str, Any]) -> Iterator[tuple[str, shapely.Geometry]]:
    """The two areas of a version, the inner one last: inside it, both hold."""
    for name, kind in (("grown", NEAR), ("geometry", IN)):
        if record[name] is not None:
            yield kind, shapely.from_geojson(json.dumps(record[name]))


def _names(record: Mapping[str, Any], mover: str) -> bool:
    return record["movers"] is None or any(fnmatchcase(mover, each) for each in record["movers"])


def _visits(own: Sequence[tuple[Point, Code]], forget: int) -> Iterator[Any]:
    """The events of one mover and fence without a silence, as functions of the time of the first position."""
    at = 0
    while (begun := _next_in(own, at)) is not None:
        entered = _confirmed(own, begun, lambda n: own[n][1].kind == IN, lambda n: own[n][1].confirm)
        if entered is None:
            at = _first_other(own, begun)
            continue
        yield _enter(own[begun][0], own[entered][0].site)
        out, left = _leave(own, entered)
        since = own[begun][0].time
        yield from _dwell(own[entered : len(own) if left is None else left], since)
        if left is None:
            last = own[-1][0]
            silent = {"position": list(last.position), "site": last.site, "reason": "silent"}
            yield _constant(last.time + forget, "exit", silent | {"since": text_of(since)})
            return
        end = {"position": list(own[out][0].position), "site": own[left][0].site, "since": text_of(since)}
        yield _constant(own[out][0].time, "exit", end)
        at = left + 1


def _next_in(own: Sequence[tuple[Point, Code]], at: int) -> int | None:
    return next((n for n in range(at, len(own)) if own[n][1].kind == IN), None)


def _first_other(own: Sequence[tuple[Point, Code]], begun: int) -> int:
    return next((n for n in range(begun, len(own)) if own[n][1].kind != IN), len(own))


def _confirmed(own: Sequence[tuple[Point, Code]], begun: int, holds: Any, confirm: Any) -> int | None:
    """The first number of a run from ``begun`` that is as long after it as is to be confirmed, s."""
    for n in range(begun, len(own)):
        if not holds(n):
            return None
        if (own[n][0].time - own[begun][0].time) / 1000 >= confirm(n):
            return n
    return None


def _leave(own: Sequence[tuple[Point, Code]], entered: int) -> tuple[int, int | None]:
    """The numbers of the first position outside, and of the one that confirms it (None: it stays)."""
    at = entered + 1
    while at < len(own):
        if own[at][1].kind != OUT:
            at += 1
            continue
        last = max(n for n in range(entered, at) if own[n][1].kind == IN)
        confirm = own[last][1].confirm
        left = _confirmed(own, at, lambda n: own[n][1].kind == OUT, lambda _, confirm=confirm: confirm)
        if left is not None:
            return at, left
        at = next((n for n in range(at, len(own)) if own[n][1].kind != OUT), len(own))
    return at, None


def _dwell(stay: Sequence[tuple[Point, Code]], since: int) -> Iterator[Any]:
    for point, code in stay:
        if code.kind == IN and 0 < code.dwell <= (point.time - since) / 1000:
            more = {"position": list(point.position), "site": point.site, "since": text_of(since)}
            yield _constant(point.time, "dwell", more)
            return


def _enter(point: Point, site: str) -> Any:
    def event(first: int) -> Event:
        found = {
            "time": text_of(point.time),
            "event": "enter",
            "position": list(point.position),
            "site": site,
        }
        return found | ({"first": True} if point.time == first else {})

    return event


def _constant(time: int, event: str, more: Event) -> Any:
    return lambda _: {"time": text_of(time), "event": event} | more


def differences(found: Iterable[Event], expected: Iterable[Event]) -> dict[str, int]:
    """The numbers of events ``awaited``, ``missing``, ``extra``, ``twice`` and ``wrong``.

    An event is identified by mover, fence, kind and time; it is wrong if anything else of it differs.
    """
    awaited = {_identity(event): event for event in expected}
    came: dict[tuple[str, ...], list[Event]] = defaultdict(list)
    for event in found:
        came[_identity(event)].append(event)
    return {
        "awaited": len(awaited),
        "missing": len(awaited.keys() - came.keys()),
        "extra": len(came.keys() - awaited.keys()),
        "twice": sum(len(events) - 1 for events in came.values()),
        "wrong": sum(came[each][0] != awaited[each] for each in awaited.keys() & came.keys()),
    }


def _identity(event: Event) -> tuple[str, ...]:
    return event["mover"], event["fence"], event["event"], event["time"]
