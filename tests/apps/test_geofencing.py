"""The geofencing jobs as pure functions: answers to bad input, and events against the reference."""

from __future__ import annotations

import json
import math
import random
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.support.properties import tries

shapely = pytest.importorskip("shapely", reason="needs the extra `fences`")

from jars_and_apps.geofencing.fences import (  # noqa: E402
    AFTER_ALL,
    BEFORE_ALL,
    LARGEST_FENCE,
    Fence,
    Index,
    Message,
    Position,
    Progress,
    Unfit,
    Version,
    admitted,
    compact,
    grown,
    instant,
    iso,
    located,
    position_of,
    stepped,
)
from jars_and_apps.geofencing.visits import Tracker  # noqa: E402

RECEIVED = instant("2026-11-01T00:00:00Z")
SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
BOW = [[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]

Event = dict[str, Any]


def feature(geometry: object, /, id: object = None, **properties: object) -> bytes:
    found = {"type": "Feature", "geometry": geometry, "properties": properties}
    return json.dumps(found if id is None else found | {"id": id}).encode()


def polygon(*rings: object) -> Event:
    return {"type": "Polygon", "coordinates": list(rings)}


def point(longitude: object, latitude: object) -> Event:
    return {"type": "Point", "coordinates": [longitude, latitude]}


def admit(value: bytes, topic: str = "fences/f") -> Event:
    return dict(json.loads(compact(admitted(topic, value, RECEIVED, 5000))))


# --- fences


def test_a_fence_is_admitted_with_its_quantities() -> None:
    value = feature(polygon(SQUARE), "f", margin=50, dwell=300, confirm=10, movers=["bus-*"], name="Depot")
    record = admit(value)
    assert list(record) == ["time", "fence", "geometry", "grown", "movers", "dwell", "confirm"]
    assert record["time"] == "2026-11-01T00:00:05.000Z"
    assert (record["fence"], record["movers"], record["dwell"], record["confirm"]) == (
        "f",
        ["bus-*"],
        300,
        10,
    )
    assert shapely.equals(shapely.from_geojson(compact(record["geometry"])), shapely.Polygon(SQUARE))
    assert shapely.contains_properly(
        *(shapely.from_geojson(compact(record[e])) for e in ("grown", "geometry"))
    )


@pytest.mark.parametrize("value", [b"", feature(None)])
def test_a_fence_without_geometry_is_deleted(value: bytes) -> None:
    record = admit(value)
    assert record["geometry"] is None
    assert "rejected" not in record


def test_a_fence_may_have_its_own_time_and_altitudes() -> None:
    record = admit(feature(polygon([[*each, 500] for each in SQUARE]), time="2026-03-02T08:00:00+01:00"))
    assert record["time"] == "2026-03-02T07:00:00.000Z"
    assert record["geometry"]["coordinates"] == [SQUARE]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe", "it is not JSON in UTF-8"),
        (b"POLYGON((0 0, 1 0, 1 1, 0 0))", "it is not JSON in UTF-8"),
        (b"[" * 100_000, "it is not JSON in UTF-8: maximum recursion depth"),
        (b"[1]", "it is not a GeoJSON Feature"),
        (b'{"type": "Polygon", "coordinates": []}', "it is not a GeoJSON Feature"),
        (feature([1]), "its geometry is a list (expected an object or null)"),
        (b" " * (LARGEST_FENCE + 1), "it has 262145 bytes (expected at most 262144)"),
        (feature(None, "g"), "its id 'g' is not that of its topic ('f')"),
        (feature(polygon(SQUARE[:-1])), "do not form a closed linestring"),
        (feature(polygon(SQUARE[:2] + SQUARE[:1])), "its Polygon is not valid: Too few points"),
        (feature(polygon(BOW)), "its Polygon is not valid: Self-intersection[0.5 0.5]"),
        (feature(polygon()), "its Polygon is not valid: it is empty"),
        (feature({"type": "Polygon"}), "its Polygon is not GeoJSON"),
        (feature(polygon([["7", "46"]])), "its Polygon is not GeoJSON"),
        (feature(polygon(SQUARE)).replace(b"[1, 1]", b"[1, 1e400]"), "its Polygon is not GeoJSON"),
        (
            feature(polygon([[y, x + 100] for x, y in SQUARE])),
            "[0.0, 100.0] is out of range (expected longitude -180 to 180, latitude -90 to 90; the latitude",
        ),
        (feature(polygon([[x * 358 - 179, y] for x, y in SQUARE])), "it spans more than 180 degrees"),
        (feature({"type": "LineString", "coordinates": SQUARE}), "its geometry is a 'LineString'"),
        (feature(point(7, 46)), "radius is None (expected a number, 0 to 1e+06)"),
        (feature(point(7, 46), radius=0), "radius is 0"),
        (feature(point(7, 46), radius=True), "radius is True"),
        (feature(point(7, 88), radius=10), "a shape beyond 85 degrees of latitude cannot be grown"),
        (feature(point(179.999, 0), radius=1000), "it reaches over a pole or the date line"),
        (feature(polygon(SQUARE), margin=-1), "margin is -1 (expected a number, 0 to 1e+06)"),
        (feature(polygon(SQUARE), dwell="long"), "dwell is 'long'"),
        (feature(polygon(SQUARE), confirm=1e300), "confirm is 1e+300"),
        (feature(polygon(SQUARE), movers="bus-1"), "movers is 'bus-1' (expected a list of ids or patterns"),
        (feature(polygon(SQUARE), time="soon"), "time 'soon' is not an instant"),
        (feature(polygon(SQUARE), time="2026-03-02T07:00:00"), "is not an instant"),
        (feature(polygon(SQUARE), time="0001-01-01T00:00:00+14:00"), "is not an instant"),
        (feature(polygon(SQUARE), time=5), "time 5 is not an instant"),
    ],
)
def test_a_bad_fence_is_rejected_with_its_reason(value: bytes, reason: str) -> None:
    record = admit(value)
    assert record.keys() == {"rejected", "fence", "received"}
    assert reason in record["rejected"]


def test_an_id_that_is_too_long_is_rejected() -> None:
    assert "201 characters (expected 1 to 200)" in admit(feature(None), f"fences/{'x' * 201}")["rejected"]


@tries(200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_have_an_answer(value: bytes) -> None:
    json.loads(compact(admit(value)))
    located(Index(), Progress(), [("geo/positions", value, RECEIVED), ("geo/fences", value, 0)], "A", 0)


@pytest.mark.parametrize("latitude", [-60.0, 0.0, 46.9, 84.0])
def test_a_shape_grows_by_metres_on_all_sides(latitude: float) -> None:
    circle = grown(shapely.Point(7.0, latitude), 1000.0)
    for east, north in shapely.get_coordinates(circle).tolist():
        # The haversine formula, on a sphere of the mean radius of the earth.
        half = [math.radians(each / 2) for each in (north - latitude, east - 7.0)]
        cosines = math.cos(math.radians(latitude)) * math.cos(math.radians(north))
        chord = math.sin(half[0]) ** 2 + cosines * math.sin(half[1]) ** 2
        assert 2 * 6_371_008.8 * math.asin(math.sqrt(chord)) == pytest.approx(1000, rel=0.002)


# --- positions


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{}", "it is not a GeoJSON Feature"),
        (b"\xff", "it is not JSON in UTF-8"),
        (b'{"type": "Feature", "id": NaN}', "NaN is not a number of JSON"),
        (feature(point(7, 46), "m"), "it has no time"),
        (feature(point(7, 46), "m", time="2026-11-01T00:01:00.001Z"), "is in the future (it was received at"),
        (feature(point(7, 46), time="2026-01-01T00:00:00Z"), "its id is None (expected 1 to 200 characters)"),
        (feature(point(7, 46), True, time="2026-01-01T00:00:00Z"), "its id is True"),
        (feature(point(7, 46), "", time="2026-01-01T00:00:00Z"), "its id is ''"),
        (feature(polygon(SQUARE), "m", time="2026-01-01T00:00:00Z"), "its geometry is a 'Polygon'"),
        (feature(None, "m", time="2026-01-01T00:00:00Z"), "its geometry is a None"),
        (feature(point("7", 46), "m", time="2026-01-01T00:00:00Z"), "is not a position"),
        (feature(point(7, None), "m", time="2026-01-01T00:00:00Z"), "is not a position"),
        (feature(point(46, 107), "m", time="2026-01-01T00:00:00Z"), "the latitude stands first"),
        (feature(point(700, 46), "m", time="2026-01-01T00:00:00Z"), "latitude -90 to 90)"),
        (feature(point(10**400, 46), "m", time="2026-01-01T00:00:00Z"), "is not a position"),
    ],
)
def test_a_bad_position_is_rejected_with_its_reason(value: bytes, reason: str) -> None:
    with pytest.raises(Unfit) as error:
        position_of(value, RECEIVED)
    assert reason in str(error.value)
    _, progress, messages = located(Index(), Progress(), [("geo/positions", value, RECEIVED)], "A", 0)
    (event,) = map(json.loads, messages[0].split("\n")[1:])
    assert (event["event"], event["site"], progress) == ("rejected", "A", Progress())
    assert reason in event["reason"]


def test_a_message_with_many_bad_lines_has_few_events_and_its_positions_count() -> None:
    lines = [b"x"] * 1000 + [feature(point(7, 46), "bus", time="2026-03-02T07:00:00Z")]
    _, _, made = located(Index(), Progress(), [("geo/positions", b"\n".join(lines), RECEIVED)] * 2, "A", 0)
    found = [json.loads(line) for message in made for line in message.split("\n")]
    rejected = [each for each in found if each.get("event") == "rejected"]
    assert sum(each.get("lines", 1) for each in rejected) == 2000
    assert len(rejected) == 2 * 101
    assert {each["reason"] for each in rejected if not each["line"]} == {
        "900 further lines of its message are rejected"
    }
    assert sum("in" in each for each in found) == 2


def test_positions_have_ids_of_text_or_numbers_and_may_be_a_clock() -> None:
    time = "2026-01-01T00:00:00Z"
    assert position_of(feature(point(7, 46.5), 12, time=time), RECEIVED) == Position(
        instant(time), "12", 7.0, 46.5
    )
    assert position_of(feature(None, time=time), RECEIVED) == Position(instant(time))


# --- positions and fences


def version(fence: str, time: int, shape: Any = SQUARE, **fields: Any) -> Version:
    text = None if shape is None else compact(polygon(shape))
    values = {"start": time, "grown": None, "movers": None, "dwell": 0.0, "confirm": 0.0} | fields
    return Version(fence, time, shape=text, **values)


coordinates = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(-0.5, 1.5)
ulps = st.sampled_from([-math.inf, 0.0, math.inf])


@tries(200)
@given(
    st.lists(st.lists(st.tuples(coordinates, coordinates), min_size=3, max_size=8), min_size=1, max_size=5),
    st.lists(st.tuples(coordinates, coordinates, ulps, ulps), min_size=1, max_size=20),
)
def test_the_fences_of_points_by_the_tree_are_those_one_by_one(
    rings: list[list[tuple[float, float]]], points: list[tuple[float, float, float, float]]
) -> None:
    shapes = [
        shape for shape in (shapely.convex_hull(shapely.MultiPoint(ring)) for ring in rings) if shape.area
    ]
    texts = [shapely.to_geojson(shape) for shape in shapes]
    versions = [Version(str(n), 0, 0, text, None, None, 0.0, 0.0) for n, text in enumerate(texts)]
    # One unit in the last place beside a border, too.
    longitude = np.array([math.nextafter(x, dx) if dx else x for x, _, dx, _ in points])
    latitude = np.array([math.nextafter(y, dy) if dy else y for _, y, _, dy in points])
    index = Index.of(Fence(each.fence, [each]).dump() for each in versions)
    found = index.inside(longitude, latitude, np.zeros(len(points), dtype=np.int64))
    expected = {
        (n, each.fence)
        for n, each_point in enumerate(shapely.points(longitude, latitude))
        for each in versions
        if shapely.covers(shapely.from_geojson(each.shape), each_point)
    }
    assert {(n, index.version(v).fence) for n, v, hit in zip(*found, strict=True) if hit} == expected
    assert found[2].all()


CHANGES = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 11),  # the fence
            st.integers(0, 60),  # the time of the version
            st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),  # its corner, unless it is deleted
            st.integers(0, 1),  # the width of its margin
        ),
        max_size=6,
    ),
    max_size=12,
)


def square(west: float, south: float, size: float) -> str:
    return compact(polygon([[west + size * x, south + size * y] for x, y in SQUARE]))


@tries(40)
@given(CHANGES, st.integers(0, 2**32))
def test_after_any_changes_the_fences_are_those_of_all_versions_one_by_one(
    changes: list[list[Any]], seed: int
) -> None:
    chance = random.Random(seed)
    index, newest, reached = Index(), BEFORE_ALL, BEFORE_ALL
    held: dict[str, dict[int, Version]] = {}  # by fence and time, as they came
    seen: set[tuple[str, int]] = set()
    for batch in changes:
        arrived = []
        for number, time, corner, margin in batch:
            shape, around = None, None
            if corner is not None:
                x, y = corner
                shape, around = square(x, y, 1), square(x - 1, y - 1, 3) if margin else None
            arrived.append(Version(f"f{number}", time, time, shape, around, None, 0.0, 0.0))
        before, pairs = index, pairs_of(index, reached)
        index, late = index.changed(arrived, newest, reached)
        assert pairs_of(before, reached) == pairs  # a batch that runs again has the same index
        late = [each for each in late if each["event"] != "rejected"]
        starts = {(each["fence"], each["time"]): each["from"] for each in late}
        for each in sorted(arrived, key=lambda each: (each.time, each.fence, each.shape or "")):
            if (each.fence, each.time) in seen:
                continue
            seen.add((each.fence, each.time))
            start = starts.get((each.fence, iso(each.time)), iso(each.time))
            if start is not None:
                held.setdefault(each.fence, {})[each.time] = each._replace(start=instant(start))
        if chance.random() < 0.3:
            index = Index.load(index.dump())
        if chance.random() < 0.5:
            newest = max(newest, chance.randint(0, 60))
            reached = max(reached, newest - 10)
        assert pairs_of(index, reached) == expected_pairs(held, reached)


def probes(reached: int) -> list[tuple[float, float, int]]:
    """Points in and around the squares at times that are not reached."""
    times = [time for time in range(0, 70, 5) if time > reached]
    return [(x / 2, y / 2, time) for time in times for x in (-1, 0, 3) for y in (0, 1)]


def pairs_of(index: Index, reached: int) -> set[tuple[int, str, int, bool]]:
    """The number of a probe, fence and time of a version that it is in, and false if only in its margin."""
    columns = [np.array(each) for each in zip(*probes(reached), strict=True)]
    found = index.inside(*columns)
    versions = [(index.version(number), number) for number in found[1].tolist()]
    pairs = zip(found[0].tolist(), versions, found[2].tolist(), strict=True)
    return {(point, version.fence, version.time, hit) for point, (version, _), hit in pairs}


def expected_pairs(
    held: Mapping[str, Mapping[int, Version]], reached: int
) -> set[tuple[int, str, int, bool]]:
    found = set()
    for fence, versions in held.items():
        for number, (x, y, time) in enumerate(probes(reached)):
            begun = [each for each in versions.values() if each.start <= time]
            if not begun:
                continue
            last = max(begun, key=lambda each: (each.start, each.time))
            near, within = (
                text is not None and bool(shapely.intersects_xy(shapely.from_geojson(text), x, y))
                for text in (last.grown, last.shape)
            )
            if within or near:
                found.add((number, fence, last.time, within))
    return found


def test_single_changes_leave_the_large_layer_as_it_is() -> None:
    names = [f"f{number}" for number in range(200)]
    index, _ = Index().changed([version(name, 10) for name in names], BEFORE_ALL, BEFORE_ALL)
    assert (len(index.large.rows), len(index.small.rows)) == (200, 0)
    layers = {id(index.large)}
    for number, name in enumerate(names[:100]):
        index, _ = index.changed([version(name, 20 + number)], BEFORE_ALL, BEFORE_ALL)
        assert index.changes.keys() == {name}
        assert len(index.small.rows) <= 20  # the root of twice 200
        layers.add(id(index.large))
    assert len(layers) <= 6
    assert len(Index.load(index.dump()).large.rows) == 200


def test_a_version_holds_from_its_time_to_that_of_the_next_one() -> None:
    versions = [version("f", 10), version("f", 20, None), version("f", 30)]
    index, late = Index().changed(versions, BEFORE_ALL, 0)
    times = np.array([9, 10, 19, 20, 29, 30, AFTER_ALL - 1])
    half = np.full(len(times), 0.5)
    points, _, _ = index.inside(half, half, times)
    assert (times[points].tolist(), late) == ([10, 19, 30, AFTER_ALL - 1], [])


def test_versions_that_no_position_meets_are_dropped() -> None:
    versions = [version("f", 10), version("f", 20), version("f", 30), version("g", 5), version("g", 25, None)]
    index, _ = Index().changed(versions, BEFORE_ALL, 24)
    for found in (index, Index.load(index.dump())):
        assert [each.time for each in found.fence("f").versions] == [20, 30]
        assert found.fence("g") == Fence("g", [], [5, 25])


def test_a_late_version_holds_after_the_newest_position_and_is_reported() -> None:
    index, _ = Index().changed([version("f", 10)], BEFORE_ALL, BEFORE_ALL)
    index, late = index.changed([version("f", 40), version("f", 50)], 60, 0)
    assert [each["from"] for each in late] == [iso(61), iso(61)]
    found = index.fence("f")
    assert [(each.time, each.start) for each in found.versions] == [(10, 10), (40, 61), (50, 61)]
    # One that is older than a version that holds never does; one that was seen is a repetition.
    again, late = index.changed([version("f", 45), version("f", 50)], 70, 0)
    assert [(each["time"], each["from"]) for each in late] == [(iso(45), None)]
    assert again.fence("f").versions == found.versions
    assert again.changed([version("f", 45), version("f", 10)], 80, 0) == (again, [])


@pytest.mark.parametrize("newest", [BEFORE_ALL, 60])
def test_another_version_of_the_same_time_is_rejected(newest: int) -> None:
    first, other = version("f", 40), version("f", 40, None)
    index, _ = Index().changed([first], newest, BEFORE_ALL)
    after, events = Index.load(index.dump()).changed([other, first], newest, BEFORE_ALL)
    assert [each.shape for each in after.fence("f").versions] == [first.shape]
    assert [(each["event"], each["fence"]) for each in events] == [("rejected", "f")]
    assert events[0]["reason"] == f"another version of fence 'f' has the time {iso(40)}"


@pytest.mark.parametrize(
    "change",
    [
        {"geometry": 5},
        {"geometry": point(0, 0)},
        {"geometry": polygon([[0, 0], [1, 0], [1, math.inf], [0, 0]])},
        {"grown": "none"},
        {"movers": 5},
        {"movers": [5]},
        {"dwell": 10**400},
        {"confirm": math.nan},
        {"confirm": None},
        {"fence": "\ud800"},
    ],
)
def test_a_record_that_is_not_of_admit_is_rejected(change: Event) -> None:
    record = admitted("fences/f", feature(polygon(SQUARE)), RECEIVED, 5000) | change
    messages = [("geo/fences", compact(record).encode(), RECEIVED), *at(20_000)]
    _, _, (message, _) = located(Index(), Progress(), messages, "A", 0)
    rejected, located_ = sorted(map(json.loads, message.split("\n")[1:]), key=lambda each: each["time"])[::-1]
    assert rejected["event"] == "rejected"
    assert rejected["reason"].startswith("it is not a record of admit: ")
    assert (located_["time"], located_["in"]) == (iso(20_000), {})


def at(*times: int) -> list[Message]:
    """A message with positions of a mover at some times."""
    lines = [feature(point(0.5, 0.5), "m", time=iso(time)) for time in times]
    return [("geo/positions", b"\n".join(lines), RECEIVED)]


def test_a_late_position_is_reported_and_not_located() -> None:
    index, progress, _ = located(Index(), Progress(lateness=5000), at(20_000), "A", 5000)
    assert progress == Progress(20_000, 14_999, 5000)
    _, _, (message,) = located(index, progress, at(14_999, 15_000), "A", 5000)
    head, *lines = map(json.loads, message.split("\n"))
    assert head == {"reached": iso(14_999), "site": "A"}
    assert [(each["time"], each.get("event")) for each in lines] == [
        (iso(14_999), "late"),
        (iso(15_000), None),
    ]


@pytest.mark.parametrize("changed", [0, 2000, 60_000])
def test_a_batch_that_runs_again_with_another_lateness_gives_the_same_messages(changed: int) -> None:
    index, before, _ = located(Index(), Progress(lateness=5000), at(20_000), "A", 5000)
    batch = at(14_999, 15_000, 18_500, 30_000)
    _, _, ran = located(index, before, batch, "A", 5000)
    _, after, again = located(index, before, batch, "A", changed)
    assert again == ran
    # The next one has the new lateness, and takes nothing of what was promised.
    _, last, messages = located(index, after, at(24_999, 25_000, 40_000), "A", changed)
    head, *lines = map(json.loads, messages[0].split("\n"))
    assert head == {"reached": iso(24_999), "site": "A"}
    assert [each.get("event") for each in lines] == ["late", None, None]
    assert last == Progress(40_000, max(24_999, 39_999 - changed), changed)


def of_table(versions: Sequence[Version], seen: Mapping[str, Sequence[int]]) -> bytes:
    """The state of earlier versions: all fences as one table."""
    return zlib.compress(compact([[list(each) for each in versions], seen]).encode(), 1)


def test_the_state_of_earlier_versions_is_read() -> None:
    versions = [version("f", 10), version("f", 20, None), version("g", 5, movers=["bus-*"], dwell=60.0)]
    seen = {"f": [10, 20], "g": [5], "h": [1, 2]}
    index = Index.load(of_table(versions, seen))
    assert index.fence("f") == Fence("f", versions[:2], [10, 20])
    assert index.fence("g") == Fence("g", versions[2:], [5])
    # A deleted fence, of which older versions are not taken.
    assert index.fence("h") == Fence("h", [], [1, 2])
    assert index.changed([version("h", 1)], BEFORE_ALL, 0) == (index, [])
    state, messages = stepped((7, of_table(versions, seen)), at(15), "A", 0)
    assert [json.loads(line)["in"] for line in messages[0].split("\n")[1:]] == [{"f": [0.0, 0.0]}]
    assert Index.load(Progress.load(*state, 0)[1]).fence("g") == index.fence("g")


def test_progress_is_kept_with_the_fences() -> None:
    table = of_table([version("f", 10)], {"f": [10]})
    newest, state = Progress(7, 5, 1000).dump(table)
    assert Progress.load(newest, state, 9) == (Progress(7, 5, 1000), table)
    # The state of earlier versions was the table alone.
    assert Progress.load(20_000, table, 5000) == (Progress(20_000, 14_999, 5000), table)
    assert Progress.load(BEFORE_ALL, table, 5000) == (Progress(lateness=5000), table)


def test_a_fence_of_some_movers_is_none_of_others() -> None:
    fence = compact(admit(feature(polygon(SQUARE), movers=["bus-*", "taxi-1"], time=iso(0)))).encode()
    movers = ("bus-1", "taxi-1", "taxi-2", "BUS-1")
    lines = b"\n".join(feature(point(1, 1), mover, time=iso(5)) for mover in movers)
    batch = [("geo/fences", fence, RECEIVED), ("geo/positions", lines, RECEIVED)]
    _, _, messages = located(Index(), Progress(), batch, "A", 0)
    found = [json.loads(line) for line in messages[0].split("\n")[1:]]
    assert {each["mover"] for each in found if each["in"]} == {"bus-1", "taxi-1"}
    assert len(found) == 4


@pytest.mark.parametrize("function", [admitted, located, Tracker.step])
def test_the_functions_of_the_jobs_travel_by_value(function: Any) -> None:
    module = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        assert callable(cloudpickle.loads(cloudpickle.dumps(function)))  # type: ignore[no-untyped-call]
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
