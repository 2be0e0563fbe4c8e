"""The state of the map and its application, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("shapely", reason="needs the extra `fences`")

from flask.testing import FlaskClient

from jars_and_apps.geofencing.compare import Account
from jars_and_apps.geofencing.fences import compact, instant
from jars_and_apps.geofencing.page.__main__ import main
from jars_and_apps.geofencing.page.web import MOST, Unreachable, create_app
from jars_and_apps.geofencing.page.world import MOST_ANSWERS, MOST_EVENTS, World
from testbed.servers.base import REFUSING_PORT

NOW = instant("2026-11-01T00:00:00Z") / 1000
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
BOW = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]]}


class Clock:
    """A clock that stands still until it is set."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def a_world() -> tuple[World, Clock]:
    clock = Clock()
    return World(clock, lambda: NOW), clock


def position(mover: str | None, time: str, longitude: float = 7.5) -> bytes:
    geometry = None if mover is None else {"type": "Point", "coordinates": [longitude, 46.9]}
    return compact(
        {"type": "Feature", "id": mover, "geometry": geometry, "properties": {"time": time}}
    ).encode()


def at(seconds: float) -> str:
    return f"2026-03-02T07:00:{seconds:06.3f}Z"


def visit(event: str, mover: str, fence: str) -> bytes:
    return compact(
        {"time": at(1), "event": event, "mover": mover, "fence": fence, "position": [7, 46]}
    ).encode()


def items(world: World, kind: str, since: int = 0) -> dict[str, Any]:
    return {name: value for found, name, value in world.news(since)[1] if found == kind}


def test_a_mover_is_at_its_newest_position() -> None:
    world, _ = a_world()
    world.positions(
        "A", b"\n".join([position("bus-1", at(2), 7.2), position("bus-1", at(1), 7.1), b"no JSON"])
    )
    world.positions("B", position("bus-2", at(1)))
    world.positions("B", position(None, at(30)))
    assert items(world, "mover") == {"bus-1": [7.2, 46.9, "A"], "bus-2": [7.5, 46.9, "B"]}
    assert items(world, "count") == {"positions": 3}


def test_a_position_of_the_future_does_not_set_the_time() -> None:
    world, _ = a_world()
    world.positions("A", position("bus-1", "2999-01-01T00:00:00Z"))
    assert world.soon("f") is None
    assert items(world, "mover") == {}


def test_only_what_changed_is_news() -> None:
    world, _ = a_world()
    world.positions("A", position("bus-1", at(1)))
    version, _ = world.news(0)
    assert world.news(version) == (version, [])
    assert not world.wait(version, 0)
    world.positions("A", position("bus-2", at(1)))
    assert items(world, "mover", version) == {"bus-2": [7.5, 46.9, "A"]}
    assert world.wait(version, 0)


def test_a_fence_is_drawn_until_it_is_admitted() -> None:
    world, _ = a_world()
    feature = {"type": "Feature", "geometry": SQUARE, "properties": {"time": at(5), "margin": 50}}
    world.drawn("fences/f", compact(feature).encode(), retained=False)
    assert items(world, "fence")["f"]["state"] == "drawn"
    record = {
        "time": at(5),
        "fence": "f",
        "geometry": SQUARE,
        "grown": None,
        "movers": None,
        "dwell": 0,
        "confirm": 0,
    }
    world.record(compact(record).encode())
    assert items(world, "fence")["f"] == {
        "time": at(5), "geometry": SQUARE, "movers": None, "dwell": 0, "confirm": 0, "state": "admitted"
    }  # fmt: skip
    world.drawn("fences/f", compact(feature).encode(), retained=False)
    assert items(world, "fence")["f"]["state"] == "admitted"
    assert world.feature("f") == feature


def test_a_fence_that_was_retained_counts_as_admitted() -> None:
    world, _ = a_world()
    world.drawn("fences/f", compact({"type": "Feature", "geometry": SQUARE}).encode(), retained=True)
    assert items(world, "fence")["f"]["state"] == "admitted"


def test_a_refused_fence_has_its_reason() -> None:
    world, _ = a_world()
    world.drawn("fences/f", b"POINT (7 46)", retained=False)
    world.record(b'{"rejected": "it is not JSON", "fence": "f"}')
    assert items(world, "fence") == {}
    assert items(world, "refusal") == {"f": "it is not JSON"}
    assert items(world, "count") == {"refused": 1}


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"[1]", b"5", b"\xff", b'{"event": "enter"}', b'{"event": "answer"}', b"{}", b"[" * 100_000),
        b'{"event": "rejected", "lines": 1e400}',
        b'{"event": "answer", "question": "q", "shard": 0, "part": 0, "movers": [5]}',
    ],
)
def test_lines_that_are_no_events_are_left_out(line: bytes) -> None:
    world, _ = a_world()
    world.events(line)
    world.record(line)
    world.comparison(line)
    world.positions("A", line)
    assert items(world, "event") == items(world, "fence") == items(world, "inside") == {}


def test_visits_are_counted_once() -> None:
    world, _ = a_world()
    for each in (visit("enter", "a", "f"), visit("enter", "a", "f"), visit("enter", "b", "f")):
        world.events(each)
    assert items(world, "inside") == {"f": 2}
    world.events(b"\n".join([visit("exit", "a", "f"), visit("exit", "a", "f"), visit("exit", "c", "f")]))
    assert items(world, "inside") == {"f": 1}
    assert items(world, "count") == {"events": 6, "visits": 1}


def test_all_rejected_lines_of_a_message_are_counted() -> None:
    events = [{"event": "rejected", "line": "x"}, {"event": "rejected", "line": "", "lines": 900}]
    world, account = a_world()[0], Account([])
    world.events("\n".join(map(compact, events)).encode())
    account.add("events", "\n".join(map(compact, events)).encode())
    assert items(world, "count") == {"rejected": 901}
    assert account.counts()["rejected"] == 901


def test_the_last_events_are_kept() -> None:
    world, _ = a_world()
    for _ in range(MOST_EVENTS + 5):
        world.events(visit("dwell", "a", "f"))
    assert [*items(world, "event")] == [str(number) for number in range(6, MOST_EVENTS + 6)]


def test_a_comparison_with_the_reference_is_shown_until_more_events_come() -> None:
    world, _ = a_world()
    for payload in (b"no JSON", b"{}", b'{"awaited": 5, "missing": 1, "extra": 0, "twice": 0, "wrong": 0}'):
        world.comparison(payload)
    assert items(world, "count") == {"awaited": 5, "missing": 1, "extra": 0, "twice": 0, "wrong": 0}
    version, _ = world.news(0)
    world.events(visit("dwell", "a", "f"))
    compared = dict.fromkeys(("awaited", "missing", "extra", "twice", "wrong"))
    assert items(world, "count", version) == {"events": 1, **compared}


def answer(
    question: str, part: int, parts: int, shard: int, movers: list[Any], reached: str = at(1)
) -> bytes:
    event = {"event": "answer", "question": question, "reached": reached, "part": part, "parts": parts}
    return compact(event | {"movers": movers, "shard": shard, "shards": 2}).encode()


def test_the_parts_of_an_answer_are_merged_and_tell_of_earlier_visits() -> None:
    world, _ = a_world()
    world.events(visit("enter", "b", "g"))
    world.events(answer("q", 0, 2, 0, [{"mover": "b", "in": {"f": at(0)}}], at(5)))
    world.events(answer("q", 0, 1, 1, [{"mover": "a", "in": {"f": at(0)}}], at(4)))
    assert items(world, "answer") == {}
    world.events(answer("q", 1, 2, 0, [], at(5)))
    assert items(world, "answer")["q"]["reached"] == at(4)
    assert [each["mover"] for each in items(world, "answer")["q"]["movers"]] == ["a", "b"]
    assert items(world, "inside") == {"f": 2, "g": 0}


def test_old_answers_are_forgotten() -> None:
    world, _ = a_world()
    for number in range(MOST_ANSWERS + 2):
        world.events(answer(str(number), 0, 1, 0, []))
        world.events(answer(str(number), 0, 1, 1, []))
    assert [*items(world, "answer")] == [str(number) for number in range(2, MOST_ANSWERS + 2)]


def test_a_change_holds_soon_at_the_pace_of_the_positions() -> None:
    world, clock = a_world()
    assert world.soon("f") is None
    world.positions("A", position("a", at(1)))
    assert world.soon("f") == at(6)
    clock.seconds = 1.0
    world.positions("A", position("a", at(3)))  # at twice real time
    assert world.soon("f") == at(13)


# --- the application


class Sent:
    """The messages that were published."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any, bool]] = []
        self.trouble = ""

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        if self.trouble:
            raise Unreachable(self.trouble)
        self.messages.append((topic, json.loads(payload), retain))


@pytest.fixture
def app() -> tuple[World, Sent, FlaskClient]:
    world, sent = a_world()[0], Sent()
    return world, sent, create_app(world, sent.publish, ["A", "B"]).test_client()


App = tuple[World, Sent, FlaskClient]


def test_a_fence_that_is_redrawn_keeps_its_properties_and_gets_a_new_time(app: App) -> None:
    world, sent, client = app
    properties = {"time": at(5), "margin": 50, "movers": ["bus-*"], "radius": 30}
    circle = {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [7, 46]},
        "properties": properties,
    }
    world.drawn("fences/f", compact(circle).encode(), retained=False)
    world.positions("A", position("a", at(20)))
    answered = client.put("/fences/f", json={"geometry": SQUARE})
    assert (answered.status_code, answered.json) == (200, {"fence": "f", "time": at(25)})
    ((topic, feature, retained),) = sent.messages
    assert (topic, feature["geometry"], retained) == ("fences/f", SQUARE, True)
    assert feature["properties"] == {"margin": 50, "movers": ["bus-*"], "time": at(25)}
    # Another one at the same moment is another version.
    assert client.put("/fences/f", json={"geometry": None}).json == {"fence": "f", "time": at(25.001)}
    assert sent.messages[1][1]["geometry"] is None


def test_without_positions_the_job_sets_the_time(app: App) -> None:
    _, sent, client = app
    assert client.put("/fences/f", json={"geometry": SQUARE}).json == {"fence": "f", "time": None}
    assert sent.messages[0][1]["properties"] == {}


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/fences/f", {"geometry": BOW}, "fence 'f': its Polygon is not valid: Self-intersection[0.5 0.5]"),
        ("/fences/f", {"geometry": 5}, "fence 'f': its geometry is a int (expected an object or null)"),
        ("/fences/f", {}, "fence 'f': it has no geometry (expected one of GeoJSON, or null to delete it)"),
        ("/fences/f", [1], "the body is a list (expected an object)"),
        ("/fences/a%2B", {"geometry": SQUARE}, "fence 'a+' is not an id (expected 1 to 200 characters"),
        (f"/fences/{'x' * 201}", {"geometry": SQUARE}, "is not an id (expected 1 to 200 characters without"),
    ],
)
def test_a_bad_fence_is_refused_before_it_is_sent(app: App, path: str, body: object, reason: str) -> None:
    _, sent, client = app
    answered = client.put(path, json=body)
    assert answered.status_code == 400
    assert reason in answered.json["detail"]
    assert sent.messages == []


def test_questions_have_one_subject(app: App) -> None:
    _, sent, client = app
    name = client.post("/questions", json={"fence": "f"}).json["question"]
    assert sent.messages == [("tracks/questions", {"question": name, "fence": "f"}, False)]
    for body in ({}, {"fence": "f", "mover": "m"}, {"mover": 5}, {"fence": "x" * 201}):
        answered = client.post("/questions", json=body)
        assert (answered.status_code, len(sent.messages)) == (400, 1)
        assert "a question has a fence or a mover" in answered.json["detail"]


def test_a_broker_that_cannot_be_reached_is_named(app: App) -> None:
    _, sent, client = app
    sent.trouble = "broker 'tcp://d:1883' cannot be reached"
    answered = client.put("/fences/f", json={"geometry": SQUARE})
    assert (answered.status_code, answered.json) == (503, {"detail": sent.trouble})


Request = Callable[[FlaskClient], Any]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (lambda client: client.get("/", headers={"Host": "evil.example"}), 421),
        (lambda client: client.get("/news", headers={"Sec-Fetch-Site": "cross-site"}), 403),
        (lambda client: client.post("/questions", data='{"fence":"f"}', content_type="text/plain"), 415),
        (lambda client: client.put("/fences/f", json={}, headers={"Sec-Fetch-Site": "same-site"}), 403),
        (lambda client: client.put("/fences/f", data="{", content_type="application/json"), 400),
        (lambda client: client.put("/fences/f", json={"geometry": "x" * 600_000}), 413),
        (lambda client: client.get("/assets/../web.py"), 404),
        (lambda client: client.get("/fences/f"), 405),
    ],
)
def test_requests_of_other_pages_and_bad_ones_are_refused(app: App, request_: Request, status: int) -> None:
    _, sent, client = app
    answered = request_(client)
    assert (answered.status_code, sent.messages) == (status, [])
    assert answered.json["detail"]
    assert answered.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_a_link_leads_to_the_page(app: App) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Host": "[::1]:8190"}
    with app[2].get("/", headers=headers) as answered:
        assert answered.status_code == 200


def test_the_stream_begins_with_everything_and_its_number_is_bounded(app: App) -> None:
    world, _, client = app
    world.positions("A", position("bus-1", at(1)))
    streams = [client.get("/news", buffered=False) for _ in range(MOST)]
    first = next(iter(streams[0].response))
    assert first.startswith(b"data: ")
    data = json.loads(first[len("data: ") :])
    assert data["sites"] == ["A", "B"]
    assert ["mover", "bus-1", [7.5, 46.9, "A"]] in data["items"]
    assert client.get("/news").status_code == 503
    world.end()
    for each in streams[1:]:
        assert b"".join(each.response).count(b"data: ") == 1
        each.close()
    streams[0].close()
    assert client.get("/news").status_code == 200


def test_options_that_do_not_fit_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options, reason in (
        ([], "the following arguments are required: --broker, --cloud"),
        (
            ["--broker", "A", "--cloud", "tcp://d:1"],
            "'A' has no site or address (expected SITE=tcp://HOST:PORT)",
        ),
        (
            ["--broker", "A=x", "--cloud", "x", "--host", "here"],
            "'here' is not an address (expected a number",
        ),
    ):
        with pytest.raises(SystemExit):
            main(options)
        assert reason in capsys.readouterr().err
    dead = f"tcp://127.0.0.1:{REFUSING_PORT}"
    for address, reason in (
        (
            "http://127.0.0.1:1",
            "page: 'http://127.0.0.1:1' is not a broker address (expected tcp://HOST:PORT",
        ),
        (dead, f"page: broker '{dead}' cannot be reached: "),
    ):
        assert main(["--broker", f"A={address}", "--cloud", dead]) == 1
        assert reason in capsys.readouterr().err
