"""Functions of a user in the geofencing jobs: the class of docs/geofencing.md, and classes that are wrong."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testbed import ROOT
from tests.support.docs_blocks import blocks

pytest.importorskip("shapely", reason="needs the extra `fences`")

from binders.common.signature import parameters_of
from binders.spark.query.code_check import check_code, source_of
from jars_and_apps.geofencing import bundle, functions
from jars_and_apps.geofencing.fences import admitted, compact, instant, iso
from jars_and_apps.geofencing.visits import LARGEST_OWN, Tracker

RECEIVED = instant("2026-11-01T00:00:00Z")

Event = dict[str, Any]


def example() -> str:
    """The class in the documentation."""
    (found,) = (each.text for each in blocks(ROOT / "docs" / "geofencing.md") if "file" in each.notes)
    return found


def fleet() -> Any:
    """An object of the class in the documentation."""
    names: dict[str, Any] = {"__name__": "fleet"}
    exec(compile(example(), "fleet.py", "exec"), names)  # noqa: S102 - the documentation is ours
    return names["Fleet"]()


def feature(geometry: object, id: str | None = None, **properties: object) -> bytes:
    found = {"type": "Feature", "geometry": geometry, "properties": properties}
    return json.dumps(found if id is None else found | {"id": id}).encode()


def position(mover: str, **properties: object) -> bytes:
    return feature({"type": "Point", "coordinates": [7, 46]}, mover, time=iso(RECEIVED), **properties)


class Uses:
    """Methods that a test gives."""

    def __init__(self, **methods: Any) -> None:
        self.__dict__.update(methods)


# --- admit


def fence_of(made: Any, value: bytes) -> bytes:
    return functions.fence_of(made, ("fences/f", value, RECEIVED))


def test_a_route_becomes_a_fence() -> None:
    route = feature({"type": "LineString", "coordinates": [[7, 46], [7.1, 46]]}, margin=50)
    assert "Polygon, MultiPolygon" in admitted("fences/f", route, RECEIVED, 0)["rejected"]
    record = admitted("fences/f", fence_of(fleet(), route), RECEIVED, 0)
    assert record["geometry"]["type"] == "Polygon"
    assert record["grown"] is not None
    circle = feature({"type": "Point", "coordinates": [7, 46]}, radius=5)
    assert json.loads(fence_of(fleet(), circle)) == json.loads(circle)


def test_properties_may_be_changed() -> None:
    def fence(given: Event) -> Any:
        given["properties"]["radius"] = 20
        return given["geometry"]

    made = json.loads(fence_of(Uses(fence=fence), feature({"type": "Point", "coordinates": [7, 46]})))
    assert made["properties"] == {"radius": 20}


@pytest.mark.parametrize("value", [b"", b"?", b"[1]", feature(None), b" " * 300_000])
def test_messages_without_a_geometry_are_left_as_they_are(value: bytes) -> None:
    assert fence_of(Uses(), value) == value


def test_a_result_that_is_no_geometry_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Uses\.fence returned None \(expected a geometry of GeoJSON\)"):
        fence_of(Uses(fence=lambda _: None), feature({"type": "Point", "coordinates": [7, 46]}))


# --- locate


def accepted(made: Any, *values: bytes, topic: str = "geo/positions") -> list[bytes]:
    return functions.accepted(made, [(topic, value, RECEIVED) for value in values])


def test_positions_that_are_not_accepted_are_left_out() -> None:
    clock = feature(None, time=iso(RECEIVED))
    good, bad, plain = position("a", accuracy=9), position("b", accuracy=90), position("c")
    assert accepted(fleet(), b"\n".join([good, bad, clock]), bad, b"?\n" + plain) == [
        good + b"\n" + clock,
        b"",
        b"?\n" + plain,
    ]
    assert accepted(fleet(), bad, topic="geo/fences") == [bad]


def test_the_columns_of_positions() -> None:
    columns = {}

    def accept(given: Any) -> Any:
        columns.update(given.to_dict("list"))
        return given["mover"] == "a"

    accepted(Uses(accept=accept), position("a", speed=3))
    assert columns == {
        "mover": ["a"],
        "time": [RECEIVED],
        "longitude": [7.0],
        "latitude": [46.0],
        "properties": [{"time": iso(RECEIVED), "speed": 3}],
    }


@pytest.mark.parametrize(
    ("result", "shown"),
    [([True], r"\(1,\) of bool"), ([1, 0], r"\(2,\) of int64"), (None, r"\(\) of object")],
)
def test_a_mask_that_does_not_fit_is_an_error(result: object, shown: str) -> None:
    with pytest.raises(TypeError, match=rf"Uses\.accept returned {shown} \(expected 2 of bool"):
        accepted(Uses(accept=lambda _: result), position("a"), position("b"))


# --- track


def lines_of(*fences: str, mover: str = "m", start: int = 0) -> list[str]:
    """Positions a second apart, each in one fence or (empty) in none, and the time that they have reached."""
    about = {"mover": mover, "position": [7, 46], "near": [], "site": "A"}
    found = [
        compact({"time": iso(1000 * second), "in": {fence: [0, 0]} if fence else {}} | about)
        for second, fence in enumerate(fences, start)
    ]
    return [*found, compact({"reached": iso(1000 * (start + len(fences))), "site": "A"})]


def step(tracker: Tracker, lines: list[str], made: Any) -> list[Event]:
    return tracker.step(lines, ["A"], 60_000, made)


def answer(tracker: Tracker, made: Any, **question: Any) -> Event:
    (*_, found) = step(tracker, [compact({"question": "q", "all": True} | question)], made)
    return found


def test_a_value_of_a_mover_is_kept_in_the_state_and_shown_in_answers() -> None:
    tracker = Tracker()
    events = step(tracker, lines_of("f", "f", "g", ""), fleet())
    assert [(each["event"], each["fence"]) for each in events] == [
        ("enter", "f"),
        ("exit", "f"),
        ("enter", "g"),
        ("exit", "g"),
    ]
    tracker = Tracker.load(tracker.dump())
    step(tracker, lines_of("f", "", start=10), fleet())
    (mover,) = answer(tracker, fleet())["movers"]
    assert mover["own"] == {"f": 3.0, "g": 1.0}


def test_events_are_those_without_functions() -> None:
    lines = lines_of("f", "g", "", "f")
    assert step(Tracker(), lines, fleet()) == step(Tracker(), lines, None)


def test_the_value_does_not_depend_on_where_a_batch_ends() -> None:
    def update(own: Any, event: Event) -> Any:
        event["mover"] = "changed"
        return {"kinds": (*(own or {"kinds": ()})["kinds"], type((own or {}).get("kinds")).__name__)}

    lines, at_once, in_parts = lines_of("f", "g", ""), Tracker(), Tracker()
    found = step(at_once, lines, Uses(update=update))
    parts = []
    for line in lines:
        parts += step(in_parts, [line], Uses(update=update))
        in_parts = Tracker.load(in_parts.dump())
    assert found == parts
    assert {each["mover"] for each in found} == {"m"}
    assert at_once.movers["m"].own == in_parts.movers["m"].own
    assert at_once.movers["m"].own["kinds"] == ["NoneType", "list", "list", "list"]


def test_an_update_that_fails_leaves_the_value_as_it_was() -> None:
    def update(own: Any, event: Event) -> Any:
        if own is None:
            return ["begun"]
        own.append("changed")
        raise ValueError

    tracker = Tracker()
    step(tracker, lines_of("f", "g"), Uses(update=update))
    assert tracker.movers["m"].own == ["begun"]


def test_the_value_ends_with_a_silence() -> None:
    tracker = Tracker()
    step(tracker, lines_of("f", ""), fleet())
    step(tracker, lines_of("f", "", start=100), fleet())
    assert tracker.movers["m"].own == {"f": 1.0}


def test_a_state_of_before_has_no_value() -> None:
    assert Tracker.load('[{"m":[0,[7,46],"A",{}]},[],{}]').movers["m"].own is None
    tracker = Tracker()
    step(tracker, lines_of(""), None)
    assert json.loads(tracker.dump())[0] == {"m": [0, [7.0, 46.0], "A", {}]}


def test_an_answer_is_that_of_the_function() -> None:
    tracker = Tracker()
    step(tracker, lines_of("f"), fleet())
    assert [each["mover"] for each in answer(tracker, fleet(), box=[6, 45, 8, 47])["movers"]] == ["m"]
    assert answer(tracker, fleet(), box=[8, 45, 9, 47])["movers"] == []


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda own, event: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda own, event: {1, 2}, "TypeError: Object of type set is not JSON serializable"),
        (lambda own, event: float("nan"), "ValueError: Out of range float values are not JSON compliant"),
        (
            lambda own, event: "x" * LARGEST_OWN,
            f"ValueError: the value has {LARGEST_OWN + 2} characters (expected at most {LARGEST_OWN})",
        ),
    ],
)
def test_an_update_that_fails_is_reported_and_the_events_are_sent(made: Any, error: str) -> None:
    tracker = Tracker()
    found = step(tracker, lines_of("f", ""), Uses(update=made))
    assert [each["event"] for each in found] == ["enter", "failed", "exit", "failed"]
    assert found[1] == {
        "time": iso(0),
        "mover": "m",
        "fence": "f",
        "site": "A",
        "event": "failed",
        "function": "update",
        "error": found[1]["error"],
    }
    assert found[1]["error"].startswith(error)
    assert tracker.movers["m"].own is None


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda movers, question: question["box"], "KeyError: 'box'"),
        (lambda movers, question: None, "TypeError: 'NoneType' object is not iterable"),
        (lambda movers, question: [1], "TypeError: the result has other values than objects"),
    ],
)
def test_an_answer_that_fails_is_reported_and_the_plain_one_is_sent(made: Any, error: str) -> None:
    tracker = Tracker()
    step(tracker, lines_of(""), None)
    failed, found = step(tracker, [compact({"question": "q", "all": True})], Uses(answer=made))
    assert (failed["event"], failed["function"], failed["question"]) == ("failed", "answer", "q")
    assert failed["error"].startswith(error)
    assert [each["mover"] for each in found["movers"]] == ["m"]


@pytest.mark.parametrize("error", [ImportError, MemoryError, OSError])
def test_errors_of_the_place_end_the_job(error: type[Exception]) -> None:
    def fail(*_: object) -> Any:
        raise error

    with pytest.raises(error):
        step(Tracker(), lines_of("f"), Uses(update=fail))
    with pytest.raises(error):
        step(Tracker(), [compact({"question": "q", "all": True})], Uses(answer=fail))


# --- the archive


def test_the_archive_has_the_jobs(tmp_path: Path) -> None:
    file, out = tmp_path / "fleet.py", tmp_path / "fleet.zip"
    file.write_text(example())
    assert bundle.main([str(file), "Fleet", "--out", str(out)]) == 0
    assert out.read_bytes() == bundle.bundle(file, "Fleet")
    with zipfile.ZipFile(out) as archive:
        assert archive.read("fleet.py") == file.read_bytes()
    arguments = {"admit": ["lead"], "locate": ["site", "lateness"], "track": ["sites", "shards", "forget"]}
    for name, own in arguments.items():
        entry = f"geofencing.jobs.{name}"
        assert check_code(out, entry) is None
        assert [each.name for each in parameters_of(source_of(out, entry), name) or ()] == own


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class Fleet:\n    x = 1\n", "the class 'Fleet' has no function (expected some of accept, fence"),
        ("Fleet = 5\n", "defines no class 'Fleet'"),
        ("import nothing_such\n", "cannot be imported: ModuleNotFoundError: No module named 'nothing_such'"),
        ("class Fleet:\n", "cannot be imported: IndentationError"),
        ("class Fleet:\n    def __init__(self, a): pass\n", "Fleet() fails: TypeError"),
        (
            "class Fleet:\n    def update(self, own): pass\n",
            "Fleet.update cannot be called: too many positional arguments (expected a method with 2",
        ),
        ("class Fleet:\n    accept = 5\n", "Fleet.accept cannot be called: 5 is not a callable object"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (tmp_path / "fleet.py").write_text(text)
    assert bundle.main([str(tmp_path / "fleet.py"), "Fleet", "--out", str(tmp_path / "fleet.zip")]) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "fleet.zip").exists()


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"file": "absent.py"}, "absent.py cannot be read: No such file or directory"),
        ({"file": "fleet.txt"}, "'fleet.txt' cannot be used (expected a file such as fleet.py"),
        ({"file": "geofencing.py"}, "'geofencing.py' cannot be used"),
        ({"file": "my-fleet.py"}, "'my-fleet.py' cannot be used"),
        ({"out": "fleet.jar"}, "fleet.jar' is not an archive (expected a name such as fleet.zip)"),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: Mapping[str, str], reason: str
) -> None:
    (tmp_path / "fleet.py").write_text(example())
    file, out = (str(tmp_path / names.get(each, default)) for each, default in DEFAULTS.items())
    assert bundle.main([file, "Fleet", "--out", out]) == 1
    assert reason in capsys.readouterr().err


DEFAULTS = {"file": "fleet.py", "out": "fleet.zip"}
