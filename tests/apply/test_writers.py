"""The writers whose stamps a session's reader believes: found in the store, named before a job writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.writers import Topics
from speck.coordinator import Coordinator, build
from speck.core.settings import Settings
from speck.errors import Rejected, Unreachable
from speck.store import SessionRecord, Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job, write_code
from testbed.benches.sessions import named as session_named
from testbed.benches.user import carry_out
from testbed.doubles import kinds
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

BROKER = "tcp://b1:1883"
A, B, C = chain("a", "b", "c")

pytestmark = pytest.mark.usefixtures("known_owner")


# --- the decision ---------------------------------------------------------------------------------

FORMS = [
    *chain("a", "b", "c"),
    make_job("a2", "x", "t1"),
    make_job("d", "t0", "t/1"),
    make_job("away", "t0", "t1", sink_broker="tcp://b2:1883"),
]


@pytest.mark.parametrize(
    ("broker", "topic", "expected"),
    [
        (BROKER, "t1", {"a", "a2"}),
        (BROKER, "t0", set()),
        (BROKER, "t/+", {"d"}),
        (BROKER, "#", {"a", "a2", "b", "c", "d"}),
        ("tcp://b2:1883", "#", {"away"}),
        ("tcp://b3:1883", "#", set()),
    ],
)
def test_writers_of_a_session(broker: str, topic: str, expected: set[str]) -> None:
    assert Topics.of(FORMS).writers(SessionRecord(broker, "s", topic)) == expected


def test_a_job_of_unknown_form_may_write_anywhere() -> None:
    assert Topics.of(FORMS, ["left"]).writers(SessionRecord(BROKER, "s", "t1")) == {"a", "a2", "left"}
    assert Topics.of([], ["left"]).writers(SessionRecord(BROKER, "s", "#")) == {"left"}


# --- the doing ------------------------------------------------------------------------------------


@pytest.fixture
def coordinator(tmp_path: Path, world: World) -> Iterator[Coordinator]:
    with ExitStack() as last:
        store = last.enter_context(Store(tmp_path / "store"))
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        made = build(store, double_kinds(world), settings=settings).coordinator
        last.callback(made.close)
        made.start()
        yield made


@pytest.fixture
def named(world: World) -> Callable[[], dict[str, list[str]]]:
    return lambda: world.broker(BROKER).writers


Named = Callable[[], dict[str, list[str]]]


def calls_of(world: World) -> list[tuple[str, str]]:
    return [(method, name) for method, _, name in world.calls]


def test_each_reader_gets_its_writers(coordinator: Coordinator, named: Named) -> None:
    carry_out(coordinator, composition(A, B, C))
    assert named() == {session_named("a"): [], session_named("b"): ["a"], session_named("c"): ["b"]}


def test_a_writer_is_named_before_it_starts(coordinator: Coordinator, world: World, named: Named) -> None:
    carry_out(coordinator, composition(A, B))
    world.calls.clear()
    carry_out(coordinator, composition(A, B, make_job("a2", "x", "t1")))
    assert named()[session_named("b")] == ["a", "a2"]
    calls = calls_of(world)
    assert calls.index(("name_writers", session_named("b"))) < calls.index(("submit", "a2"))


def test_a_writer_that_goes_is_named_until_it_has_gone(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    carry_out(coordinator, composition(A, B, make_job("a2", "x", "t1")))
    world.calls.clear()
    carry_out(coordinator, composition(A, B))
    assert named()[session_named("b")] == ["a"]
    assert session_named("a2") not in named()
    calls = calls_of(world)
    assert calls.index(("stop", "a2")) < calls.index(("name_writers", session_named("b")))


def test_a_rewired_writer_is_named_at_both_ends_meanwhile(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    reader = make_job("r", "#", "out/r", sink_broker="tcp://b2:1883")
    carry_out(coordinator, composition(A, B, reader))
    carry_out(coordinator, composition(replace(A, sink_topic="x1"), replace(B, source_topic="x1"), reader))
    assert named() == {session_named("a"): [], session_named("b", 2): ["a"], session_named("r"): ["a", "b"]}


def test_writers_of_other_compositions_count(coordinator: Coordinator, named: Named) -> None:
    carry_out(coordinator, composition(B))
    assert named()[session_named("b")] == []
    carry_out(coordinator, composition(A, name="other"))
    assert named()[session_named("b")] == ["a"]
    carry_out(coordinator, composition(replace(B, trigger="1 second")))
    assert named()[session_named("b")] == ["a"]
    operation = user.delete_composition(coordinator, "other")
    assert operation.wait(30)
    assert named()[session_named("b")] == []


def test_operations_side_by_side_name_each_others_writers(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    reader = make_job("r", "t", "out/r")
    carry_out(coordinator, composition(reader))
    slow = world.hold("check", "w2")
    operation, _ = user.apply(coordinator, composition(make_job("w2", "in/2", "t"), name="second"))
    assert slow.reached.wait(30)
    carry_out(coordinator, composition(make_job("w3", "in/3", "t"), name="third"))
    assert named()[session_named("r")] == ["w2", "w3"]
    start = world.hold("submit", "w2")
    slow.release()
    assert start.reached.wait(30)
    assert named()[session_named("r")] == ["w2", "w3"]
    start.release()
    assert operation.wait(30)
    assert named()[session_named("r")] == ["w2", "w3"]


def test_a_form_that_may_be_put_back_is_named_by_another_operation(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    carry_out(coordinator, composition(A, B))
    carry_out(coordinator, composition(make_job("k", "in/k", "out/k"), name="other"))
    start = world.hold("submit", "a")
    operation, _ = user.apply(coordinator, composition(replace(A, sink_topic="x1"), B))
    assert start.reached.wait(30)
    carry_out(coordinator, composition(make_job("k", "in/k", "t1"), name="other"))
    assert named()[session_named("b")] == ["a", "k"]
    start.release()
    assert operation.wait(30)
    assert named()[session_named("b")] == ["k"]


def test_a_writer_that_fails_to_start_may_still_write(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    carry_out(coordinator, composition(A, B))
    world.fail("submit", Rejected("no", address="sc://e1:1"), name="a", times=1)
    elsewhere = replace(A, sink_topic="x1")
    assert carry_out(coordinator, composition(elsewhere, B)).state == "failed"
    assert [each.job.sink_topic for each in world.running("a")] == ["t1"]
    assert named()[session_named("b")] == ["a"]


def test_a_broker_that_refuses_the_list_is_noted(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    world.fail(
        "name_writers", Rejected("not authorized", address=BROKER), name=session_named("b"), times=None
    )
    operation = carry_out(coordinator, composition(A, B))
    assert operation.state == "succeeded"
    notes = "".join(each.note for each in operation.actions.values())
    assert "readers of 't1' accept the stamps of any publisher: not authorized" in notes
    assert named() == {session_named("a"): []}


def test_a_broker_away_at_the_end_leaves_the_wider_list(
    coordinator: Coordinator, world: World, named: Named
) -> None:
    carry_out(coordinator, composition(A, B, make_job("a2", "x", "t1")))
    world.fail("name_writers", Unreachable("away", address=BROKER), name=session_named("b"), times=None)
    assert carry_out(coordinator, composition(A, B)).state == "succeeded"
    assert named()[session_named("b")] == ["a", "a2"]


def test_a_binder_without_stamps_is_not_asked(
    coordinator: Coordinator, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = {name: each for name, each in vars(InMemoryBroker).items() if not name.startswith("__")}
    del methods["name_writers"]
    plain = type("PlainBroker", (), {**methods, "__init__": InMemoryBroker.__init__})
    monkeypatch.setattr(kinds, "InMemoryBroker", plain)
    assert carry_out(coordinator, composition(A, B)).state == "succeeded"
    assert world.counts()["ensure_session"] == 2
    assert world.counts()["name_writers"] == 0
