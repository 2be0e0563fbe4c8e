"""The visits of geofencing as pure functions: single movers, and all events against the reference."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.flights import FLIGHTS, MAPS, NEEDS_FLIGHTS
from tests.support.properties import tries

pytest.importorskip("shapely", reason="needs the extra `fences`")

from jars_and_apps.geofencing import feeder, generate, real
from jars_and_apps.geofencing.fences import (
    Index,
    Progress,
    admitted,
    compact,
    instant,
    iso,
    located,
    packed,
)
from jars_and_apps.geofencing.reference import Reference, differences, points_of
from jars_and_apps.geofencing.visits import Located, Mover, Tracker, Visit, spread_on_flink, transitions
from jars_and_apps.geofencing.visits import packed as packed_visits

RECEIVED = instant("2026-11-01T00:00:00Z")
REPORTS = ("late", "late fence", "rejected")

Event = dict[str, Any]


# --- single movers


def course(*steps: tuple[float, str], dwell: float = 0, confirm: float = 0) -> list[tuple[str, float]]:
    """The events of a mover that is ``in`` a fence, ``near`` it or ``out``, by time, s."""
    visits: dict[str, Visit] = {}
    found = []
    for number, (time, where) in enumerate(steps):
        within = {"f": (dwell, confirm)} if where == "in" else {}
        at = Located(round(time * 1000), "m", (0, 0), "A", within, ["f"] if where == "near" else [])
        found += transitions(visits, at, first=number == 0)
    return [(event["event"], instant(event["time"]) / 1000) for event in found]


@pytest.mark.parametrize(
    ("steps", "options", "events"),
    [
        ([(0, "in"), (1, "out")], {}, [("enter", 0), ("exit", 1)]),
        ([(0, "near"), (1, "in"), (2, "near"), (3, "in"), (4, "near")], {}, [("enter", 1)]),
        ([(0, "in"), (1, "near"), (2, "out")], {}, [("enter", 0), ("exit", 2)]),
        ([(0, "in"), (9, "in")], {"confirm": 10}, []),
        ([(0, "in"), (10, "in")], {"confirm": 10}, [("enter", 0)]),
        ([(0, "in"), (5, "near"), (6, "in"), (15, "in")], {"confirm": 10}, []),
        (
            [(0, "in"), (10, "in"), (11, "out"), (21, "out")],
            {"confirm": 10},
            [("enter", 0), ("exit", 11)],
        ),
        ([(0, "in"), (10, "in"), (11, "out"), (20, "near"), (22, "out")], {"confirm": 10}, [("enter", 0)]),
        ([(0, "in"), (30, "in"), (60, "in")], {"dwell": 30}, [("enter", 0), ("dwell", 30)]),
        ([(0, "in"), (30, "near"), (40, "in")], {"dwell": 30}, [("enter", 0), ("dwell", 40)]),
        (
            [(0, "in"), (30, "out"), (31, "in"), (60, "in")],
            {"dwell": 30},
            [("enter", 0), ("exit", 30), ("enter", 31)],
        ),
    ],
)
def test_transitions(steps: Any, options: Any, events: Any) -> None:
    assert course(*steps, **options) == events


def test_exits_come_before_enters() -> None:
    visits: dict[str, Visit] = {}
    transitions(visits, Located(0, "m", (0, 0), "A", {"z": (0, 0)}, ()), first=True)
    found = transitions(visits, Located(1, "m", (1, 1), "A", {"a": (0, 0), "b": (0, 0)}, ()), first=False)
    assert [(each["event"], each["fence"]) for each in found] == [
        ("exit", "z"),
        ("enter", "a"),
        ("enter", "b"),
    ]


def line_at(time: int, site: str, within: Mapping[str, Any], position: Sequence[float] = (0, 0)) -> str:
    line = {"time": iso(time), "mover": "m", "position": position, "in": within, "near": [], "site": site}
    return compact(line)


def located_line(**fields: object) -> str:
    """A line of ``locate`` with some fields of other values."""
    return compact(json.loads(line_at(1, "A", {})) | {"time": "2026-01-01T00:00:00Z"} | fields)


def head(time: int, site: str) -> str:
    return compact({"reached": iso(time), "site": site})


def test_positions_wait_for_all_sites_and_count_by_time() -> None:
    tracker = Tracker()
    assert tracker.step([line_at(2, "A", {}), head(9, "A")], ["A", "B"], 1000) == []
    found = tracker.step([line_at(1, "B", {"f": [0, 0]}), head(5, "B")], ["A", "B"], 1000)
    assert [(each["event"], each["time"], each["site"]) for each in found] == [
        ("enter", iso(1), "B"),
        ("exit", iso(2), "A"),
    ]
    # A repetition of lines and times changes nothing.
    assert tracker.step([line_at(1, "B", {}), line_at(2, "A", {}), head(1, "A")], ["A", "B"], 1000) == []
    assert tracker.reached == {"A": 9, "B": 5}


def test_of_several_positions_at_a_time_the_least_counts() -> None:
    lines = [line_at(1, "A", {}, (0, 1)), line_at(1, "A", {"f": [0, 0]}, (0, 0)), head(1, "A")]
    (event,) = Tracker().step(lines, ["A"], 1000)
    assert (event["event"], event["first"]) == ("enter", True)


def test_repetitions_of_a_position_that_waits_count_once() -> None:
    line = line_at(2, "A", {"f": [0, 0]}, (0.5, 1))
    tracker = Tracker()
    tracker.step([line], ["A"], 1000)
    # After a restart, from the state.
    tracker = Tracker.load(tracker.dump())
    found = tracker.step([line, line, head(2, "A")], ["A"], 1000)
    assert [(each["event"], each["position"]) for each in found] == [("enter", [0.5, 1])]


def test_a_silent_mover_leaves_its_fences() -> None:
    tracker = Tracker()
    tracker.step([line_at(0, "A", {"f": [0, 0]}), head(999, "A")], ["A"], 1000)
    assert list(tracker.movers) == ["m"]
    (event,) = tracker.step([head(1000, "A")], ["A"], 1000)
    assert (event["event"], event["time"], event["reason"]) == ("exit", iso(1000), "silent")
    assert tracker.movers == {}
    assert Tracker.load(tracker.dump()) == tracker
    # A repetition of its last line is no other visit.
    assert tracker.step([line_at(0, "A", {"f": [0, 0]})], ["A"], 1000) == []
    assert tracker.movers == {}


def asked(tracker: Tracker, **question: Any) -> list[Event]:
    return tracker.step([compact({"question": "q", **question})], ["A"], 10_000)


def test_questions_are_answered_as_of_the_time_that_all_sites_have_reached() -> None:
    tracker = Tracker()
    tracker.step([line_at(1, "A", {"f": [0, 0], "g": [0, 60]}), head(5, "A")], ["A"], 10_000)
    (answer,) = asked(tracker, mover="m")
    where = {"mover": "m", "time": iso(1), "position": [0, 0], "site": "A", "in": {"f": iso(1)}}
    about = {"event": "answer", "question": "q", "reached": iso(5), "part": 0, "parts": 1}
    assert answer == about | {"movers": [where]}
    assert asked(tracker, all=True) == asked(tracker, fence="f") == [answer]
    # A visit that is not confirmed is none.
    assert asked(tracker, fence="g") == asked(tracker, mover="n") == [about | {"movers": []}]


def test_long_answers_have_several_parts() -> None:
    tracker = Tracker({f"m{n:04}": Mover(0, (0, 0), "A") for n in range(501)})
    answers = asked(tracker, all=True)
    assert [(each["part"], each["parts"], len(each["movers"])) for each in answers] == [
        (0, 2, 500),
        (1, 2, 1),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "where is m?",
        "5",
        "[]",
        '"reached"',
        "[" * 100_000,
        '{"question": "q"}',
        '{"question": 5, "all": true}',
        '{"question": "q", "mover": "m", "fence": "f"}',
        '{"question": "q", "fence": ["a", "b"]}',
        '{"question": "q", "fence": null}',
        '{"question": "q", "mover": 5}',
        '{"question": "q", "mover": {"m": "m"}}',
        '["event", "parts"]',
        '"event parts"',
        "null",
        '{"reached": "soon", "site": "A"}',
        '{"reached": "9999-12-31T23:59:59-12:00", "site": "A"}',
        '{"reached": "2026-01-01T00:00:00Z", "site": ["A"]}',
        '{"reached": "2026-01-01T00:00:00Z", "site": 5}',
        located_line(time="2026-01-01"),
        located_line(time="9999-12-31T23:59:59-12:00"),
        located_line(time=5),
        located_line(mover=None),
        located_line(mover="\ud800"),
        located_line(site=["A"]),
        located_line(position=[0]),
        located_line(position=["0", "0"]),
        located_line(position="00"),
        located_line(position=[0, True]),
        located_line(position=[0, 10**400]),
        located_line(position=[0, float("nan")]),
        located_line(position=[float("-inf"), 0]),
        located_line(position=[0, 0.5]).replace("0.5", "1e400"),
        located_line(**{"in": [1]}),
        located_line(**{"in": {"f": [0, 10**400]}}),
        located_line(**{"in": {"f": [float("nan"), 0]}}),
        located_line(**{"in": {"f": "00"}}),
        located_line(near=[5]),
    ],
)
def test_other_lines_are_rejected(line: str) -> None:
    tracker = Tracker()
    tracker.step([line_at(1, "A", {"f": [0, 0]}), head(5, "A")], ["A"], 10_000)
    before = tracker.dump()
    (event,) = tracker.step([line], ["A"], 10_000)
    assert (event["event"], event["line"]) == ("rejected", line[:200])
    assert event["reason"].startswith("it is neither a line of locate nor a question: ")
    assert tracker.dump() == before
    assert len(asked(tracker, all=True)) == 1


def test_fences_are_spread_on_flink_unless_they_were_rejected() -> None:
    class Texts(list[str]):
        def filter(self, keep: Any) -> Texts:
            return Texts(filter(keep, self))

        def name(self, _: str) -> Texts:
            return self

    records = [compact(admitted("fences/f", value, RECEIVED, 5000)) for value in (b"", b"{}")]
    assert spread_on_flink(Texts([*records, "no JSON", "5"])) == [records[0], "no JSON", "5"]


@pytest.mark.parametrize("pack", [packed, packed_visits])
def test_messages_have_as_many_lines_as_fit(pack: Any) -> None:
    lines = ["x" * 90_000] * 5 + ["y" * 300_000, "z"]
    assert [len(part) for part in pack(lines)] == [2, 2, 1, 1, 1]
    assert list(pack([])) == []


# --- all of it against the reference


class Sites:
    """Three sites and a cloud without engines: batches of any size, in any order within themselves."""

    def __init__(self, directory: Path, chance: random.Random, forget: int, largest_batch: int = 30) -> None:
        self._chance, self.forget, self._largest = chance, forget, largest_batch
        messages = [*feeder.messages_of(directory / "fences.jsonl")]
        self.stream = [*feeder.messages_of(directory / "stream.jsonl")]
        self.records: list[Event] = []
        self._queues: dict[str, list[tuple[str, bytes, int]]] = {site: [] for site in "ABC"}
        for message in messages + self.stream:
            self._route(message["site"], message["topic"], message["text"].encode())

    def _route(self, site: str, topic: str, value: bytes) -> None:
        if site != "D":
            self._queues[site].append((topic, value, RECEIVED))
            return
        self.records.append(admitted(topic, value, RECEIVED, 5000))
        for queue in self._queues.values():
            queue.append(("geo/fences", compact(self.records[-1]).encode(), RECEIVED))

    def delay_fences(self) -> None:
        """Let some fences come to each site later than others."""
        for queue in self._queues.values():
            for number in [n for n, (topic, _, _) in enumerate(queue) if topic == "geo/fences"]:
                if self._chance.random() < 0.3:
                    message = queue.pop(number)
                    queue.insert(number + self._chance.choice((0, 5, 40)), message)

    def events(self) -> list[Event]:
        """The events of the tracker at the cloud."""
        ways = {site: self._located(site, queue) for site, queue in self._queues.items()}
        tracker, found = Tracker(), []
        while any(ways.values()):
            site = self._chance.choice([site for site, way in ways.items() if way])
            batch = [ways[site].pop(0) for _ in range(min(len(ways[site]), self._chance.choice((1, 3, 9))))]
            lines = [line for message in batch for line in message.split("\n")]
            if self._chance.random() < 0.05:  # as after an update of a job with state
                lines += [line for line in lines if '"event"' not in line]
            self._chance.shuffle(lines)
            if self._chance.random() < 0.2:
                tracker = Tracker.load(tracker.dump())
            found += tracker.step(lines, list("ABC"), self.forget)
        assert tracker.waiting == []
        return [json.loads(compact(event)) for event in found]

    def _located(self, site: str, queue: list[tuple[str, bytes, int]]) -> list[str]:
        index, progress, found, at = Index(), Progress(lateness=10_000), list[str](), 0
        while at < len(queue):
            size = self._chance.choice((1, 2, 5, self._largest))
            batch = queue[at : at + size]
            self._chance.shuffle(batch)
            if self._chance.random() < 0.1:
                index = Index.load(index.dump())
            before, lateness = (index, progress), self._chance.choice((10_000, 10_000, 3_000, 20_000))
            index, progress, messages = located(*before, batch, site, 10_000)
            if self._chance.random() < 0.1:  # an update with another lateness, before the state was kept
                messages_before, (index, progress, messages) = (
                    messages,
                    located(*before, batch, site, lateness),
                )
                assert messages == messages_before
            assert [m.split("\n")[0] for m in messages] == sorted(m.split("\n")[0] for m in messages)
            found += messages
            at += size
        return found

    def reference(self, events: Sequence[Event]) -> list[Event]:
        points = points_of(self.stream)
        return Reference(points, self.records, events, self.forget).events()


@pytest.fixture(scope="module", name="made")
def made_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("fences")
    generate.write(directory, movers=25, fences=40, minutes=5, seed=7)
    return directory


@pytest.mark.slow("many random streams of positions")
@tries(30)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([15_000, 60_000, 3_600_000]))
def test_every_event_is_that_of_the_reference(made: Path, seed: int, delays: bool, forget: int) -> None:
    sites = Sites(made, random.Random(seed), forget)
    if delays:
        sites.delay_fences()
    events = sites.events()
    found = [event for event in events if event["event"] not in REPORTS]
    counts = differences(found, sites.reference(events))
    assert counts.pop("awaited") > 50
    assert counts == {"missing": 0, "extra": 0, "twice": 0, "wrong": 0}
    rejected = sum(event["event"] == "rejected" for event in events)
    assert rejected == sum(bool(message.get("malformed")) for message in sites.stream)


@pytest.mark.slow("10,000 real positions and 2,225 real polygons, of which most change")
@NEEDS_FLIGHTS
def test_every_event_of_real_flights_is_that_of_the_reference(tmp_path: Path) -> None:
    assert FLIGHTS is not None and MAPS is not None
    real.write(tmp_path, FLIGHTS, MAPS, limit=10_000)
    sites = Sites(tmp_path, random.Random(1), 3_600_000, largest_batch=2000)
    assert not any("rejected" in record for record in sites.records)
    events = sites.events()
    found = [event for event in events if event["event"] not in REPORTS]
    counts = differences(found, sites.reference(events))
    assert counts.pop("awaited") > 1000
    assert counts == {"missing": 0, "extra": 0, "twice": 0, "wrong": 0}


def test_the_generated_day_has_every_kind_of_event(made: Path) -> None:
    sites = Sites(made, random.Random(1), 60_000)
    sites.delay_fences()
    events = sites.events()
    assert {event["event"] for event in events} == {"enter", "exit", "dwell", *REPORTS}
    assert any(event.get("reason") == "silent" for event in events)
    assert any(event.get("first") for event in events)
    assert any(not event.get("first") for event in events if event["event"] == "enter")


def test_the_comparison_shows_each_kind_of_difference() -> None:
    def event(time: int, **more: object) -> Event:
        return {"mover": "m", "fence": "f", "event": "enter", "time": iso(time), **more}

    found = [event(1), event(2), event(2), event(3, site="A")]
    assert differences(found, [event(2), event(3, site="B"), event(4)]) == {
        "awaited": 3,
        "missing": 1,
        "extra": 1,
        "twice": 1,
        "wrong": 1,
    }


# --- the programs


def test_the_same_seed_gives_the_same_messages(made: Path, tmp_path: Path) -> None:
    options = ["--movers", "25", "--fences", "40", "--minutes", "5", "--seed", "7", "--out", str(tmp_path)]
    assert generate.main(options) == 0
    for name in ("fences.jsonl", "stream.jsonl"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()


@pytest.mark.parametrize(
    ("option", "value"), [("movers", "0"), ("fences", "9"), ("minutes", "0"), ("minutes", "nan")]
)
def test_a_size_out_of_range_is_named(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        generate.main([f"--{option}", value, "--out", str(tmp_path)])
    assert f"--{option} {value} is out of range (expected " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "options", "fault"),
    [
        ("no message\n", [], "line 1 is not a message (expected a JSON object with site, topic, text)"),
        ('{"site": "A", "topic": "t"}\n', [], "line 1 is not a message"),
        ("[]\n", [], "line 1 is not a message"),
        (
            '{"site": "A", "topic": "t", "text": ""}\n',
            [],
            "no broker for site 'A' (expected --broker A=tcp://",
        ),
        ('{"site": "A", "topic": "t", "text": ""}\n', ["--broker", "A=x"], "'x' is not a broker address"),
        (None, [], "No such file"),
    ],
)
def test_the_feeder_names_what_it_cannot_send(
    text: str | None, options: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stream.jsonl"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert feeder.main([str(path), *options]) == 1
    assert fault in capsys.readouterr().err
