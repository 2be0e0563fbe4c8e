"""The geofencing jobs as pure functions: answers to bad input, and events against the reference."""

from __future__ import annotations

import json
import math
import sys
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
    Index,
    Message,
    Position,
    Progress,
    Table,
    Unfit,
    Version,
    admitted,
    compact,
    grown,
    inside,
    instant,
    iso,
    located,
    position_of,
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
    located(
        Index(Table()), Progress(), [("geo/positions", value, RECEIVED), ("geo/fences", value, 0)], "A", 0
    )


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
    _, progress, messages = located(Index(Table()), Progress(), [("geo/positions", value, RECEIVED)], "A", 0)
    (event,) = map(json.loads, messages[0].split("\n")[1:])
    assert (event["event"], event["site"], progress) == ("rejected", "A", Progress())
    assert reason in event["reason"]


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
    index = Index(Table(sorted(versions, key=lambda each: each.fence)))
    found = inside(index, longitude, latitude, np.zeros(len(points), dtype=np.int64))
    expected = {
        (n, each.fence)
        for n, each_point in enumerate(shapely.points(longitude, latitude))
        for each in versions
        if shapely.covers(shapely.from_geojson(each.shape), each_point)
    }
    assert {(n, index.versions[v].fence) for n, v, hit in zip(*found, strict=True) if hit} == expected
    assert found[2].all()


def test_a_version_holds_from_its_time_to_that_of_the_next_one() -> None:
    table, late = Table().changed([version("f", 10), version("f", 20, None), version("f", 30)], BEFORE_ALL, 0)
    times = np.array([9, 10, 19, 20, 29, 30, AFTER_ALL - 1])
    half = np.full(len(times), 0.5)
    points, _, _ = inside(Index(table), half, half, times)
    assert (times[points].tolist(), late) == ([10, 19, 30, AFTER_ALL - 1], [])


def test_versions_that_no_position_meets_are_dropped() -> None:
    versions = [version("f", 10), version("f", 20), version("f", 30), version("g", 5), version("g", 25, None)]
    table, _ = Table().changed(versions, BEFORE_ALL, 24)
    assert [(each.fence, each.time) for each in table.versions] == [("f", 20), ("f", 30)]
    assert Table.load(table.dump()) == table


def test_a_late_version_holds_after_the_newest_position_and_is_reported() -> None:
    table, _ = Table().changed([version("f", 10)], BEFORE_ALL, BEFORE_ALL)
    table, late = table.changed([version("f", 40), version("f", 50)], 60, 0)
    assert [each["from"] for each in late] == [iso(61), iso(61)]
    assert [(each.time, each.start) for each in table.versions] == [(10, 10), (40, 61), (50, 61)]
    # One that is older than a version that holds never does; one that was seen is a repetition.
    again, late = table.changed([version("f", 45), version("f", 50)], 70, 0)
    assert [(each["time"], each["from"]) for each in late] == [(iso(45), None)]
    assert again.versions == table.versions
    assert again.changed([version("f", 45), version("f", 10)], 80, 0) == (again, [])


def at(*times: int) -> list[Message]:
    """A message with positions of a mover at some times."""
    lines = [feature(point(0.5, 0.5), "m", time=iso(time)) for time in times]
    return [("geo/positions", b"\n".join(lines), RECEIVED)]


def test_a_late_position_is_reported_and_not_located() -> None:
    index, progress, _ = located(Index(Table()), Progress(lateness=5000), at(20_000), "A", 5000)
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
    index, before, _ = located(Index(Table()), Progress(lateness=5000), at(20_000), "A", 5000)
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


def test_progress_is_kept_with_the_table() -> None:
    table = Table([version("f", 10)], {"f": [10]}).dump()
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
    _, _, messages = located(Index(Table()), Progress(), batch, "A", 0)
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
