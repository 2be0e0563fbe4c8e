"""Sessions of other owners and of none, over the doubles: refused, adopted, kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.foreign import ForeignJobs
from speck.apply.operation import Operation
from speck.apply.sessions import Sessions, _NamesOfOthers, session_for
from speck.coordinator import Coordinator
from speck.core.job import Job, client_id, session_name
from speck.store import JobRecord, SessionRecord
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.stores import BROKER, Stores
from testbed.doubles.world import World

A = make_job("a", "t0", "t1")
DOTTED = make_job("a.2", "u0", "u1")


class Versions(Stores):
    """Stores that keep owners, or none."""

    @contextmanager
    def open_without_owners(self, name: str) -> Iterator[Coordinator]:
        """Without owners, and with names that two jobs can share."""

        def dotted(job_name: str, owner: str, number: int = 0) -> str:
            return f"{client_id(job_name)}.{number}" if number else client_id(job_name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("speck.apply.sessions.session_name", dotted)
            patch.setattr(InMemoryBroker, "take_owner", lambda self, owner: None)
            patch.setattr(Sessions, "_names_of_others", lambda self, job: set())
            patch.setattr(ForeignJobs, "of", lambda self, jobs: ())
            patch.setattr(ForeignJobs, "refuse", lambda self, job: None)
            with self.open(name) as coordinator:
                yield coordinator


@pytest.fixture
def world() -> World:
    """One that is not checked: two stores run a job of one name, which breaks the rules of one store."""
    return World()


@pytest.fixture
def stores(world: World, tmp_path: Path) -> Versions:
    return Versions(world, tmp_path)


def carry_out(coordinator: Coordinator, *jobs: Job) -> Operation:
    return user.carry_out(coordinator, composition(*jobs))


def succeeded(coordinator: Coordinator, *jobs: Job) -> Operation:
    operation = carry_out(coordinator, *jobs)
    errors = {name: each.error for name, each in operation.actions.items()}
    assert operation.state == "succeeded", errors
    return operation


def read_by(world: World, job: str) -> list[str]:
    return [each.attempt.session for each in world.running(job)]


# --- names


def test_a_new_session_is_named_after_its_job_and_its_store() -> None:
    record = JobRecord("a", "traffic")
    first = session_for(A, record, "f00", 1)
    assert first == SessionRecord(BROKER, "speck-a:f00", "t0")
    record = replace(record, sessions=(first,))
    assert session_for(A, record, "f00", 5) == first
    elsewhere = replace(A, source_topic="x")
    assert session_for(elsewhere, record, "f00", 5).name == "speck-a:f00:5"
    third = session_for(elsewhere, record, "f00", 5, {"speck-a:f00:5"}, {"speck-a:f00:6"})
    assert third.name == "speck-a:f00:7"


def test_no_two_jobs_or_stores_have_one_name() -> None:
    assert session_name("a", "f00", 2) != session_name("a.2", "f00")
    assert session_name("a", "f00") != session_name("a", "f01")


def test_a_session_of_before_is_kept_by_name() -> None:
    before = SessionRecord(BROKER, "speck-a.2", "t0")
    assert session_for(A, JobRecord("a", "traffic", sessions=(before,)), "f00", 5) == before


# --- two jobs of one store


def test_the_names_of_other_jobs_sessions_are_not_listed_for_each_job() -> None:
    """A change of a hundred jobs among a hundred thousand looks up a hundred names."""

    class Unlisted(dict[tuple[str, str], set[str]]):
        def __iter__(self) -> Iterator[tuple[str, str]]:
            raise AssertionError("all sessions were looked at")

        items = values = __iter__  # type: ignore[assignment]

    names = _NamesOfOthers(Unlisted({("b", "x"): {"a"}, ("b", "y"): {"a", "c"}, ("d", "z"): {"c"}}), "b", "a")
    assert [each in names for each in ("x", "y", "z")] == [False, True, False]


def test_a_later_session_of_one_job_is_not_that_of_another(stores: Versions, world: World) -> None:
    with stores.open("store") as coordinator:
        succeeded(coordinator, A, DOTTED)
        succeeded(coordinator, replace(A, source_topic="x"), DOTTED)  # revision 2
        assert read_by(world, "a") != read_by(world, "a.2")
        succeeded(coordinator, DOTTED)
        assert world.broker(BROKER).sessions == {read_by(world, "a.2")[0]: "u0"}


@pytest.mark.parametrize("first", ["a", "a.2"])
def test_a_session_that_two_jobs_of_before_share_is_given_up_by_the_next_that_changes(
    stores: Versions, world: World, first: str
) -> None:
    moved = replace(A, source_topic="x")
    with stores.open_without_owners("store") as coordinator:
        succeeded(coordinator, A, DOTTED)
        succeeded(coordinator, moved, DOTTED)
        assert read_by(world, "a") == read_by(world, "a.2") == ["speck-a.2"]
    changed = {job.job_name: replace(job, trigger="5 seconds") for job in (moved, DOTTED)}
    with stores.open("store") as coordinator:
        now = {"a": moved, "a.2": DOTTED, first: changed[first]}
        succeeded(coordinator, *now.values())
        other = "a.2" if first == "a" else "a"
        assert read_by(world, first) == [session_name(first, coordinator.store.identity, 3)]
        assert read_by(world, other) != read_by(world, first)
        assert {*read_by(world, "a"), *read_by(world, "a.2")} <= world.broker(BROKER).sessions.keys()
        succeeded(coordinator, *changed.values())
        sessions = {*read_by(world, "a"), *read_by(world, "a.2")}
        assert len(sessions) == 2
        assert world.broker(BROKER).sessions.keys() == sessions


# --- two stores


def test_two_stores_with_one_job_name_do_not_touch_each_other(stores: Versions, world: World) -> None:
    with stores.open("one") as one, stores.open("two") as two:
        succeeded(one, A)
        (mine,) = read_by(world, "a")
        succeeded(two, replace(A, spe_address="sc://e2:1", source_topic="elsewhere"))
        assert user.delete_composition(two, "traffic").wait(30)
        assert read_by(world, "a") == [mine]
        assert world.broker(BROKER).sessions == {mine: "t0"}
        assert world.broker(BROKER).fences == {mine: 1}


@pytest.fixture
def shared(stores: Versions, world: World) -> Versions:
    """Two stores without owners whose jobs read through one session; the first has adopted it."""
    for name in ("one", "two"):
        with stores.open_without_owners(name) as coordinator:
            succeeded(coordinator, A)
    with stores.open("one") as coordinator:
        succeeded(coordinator, replace(A, trigger="5 seconds"))
    return stores


CHANGES: dict[str, Callable[[Job], Job]] = {
    "update": lambda job: replace(job, trigger="7 seconds"),
    "move": lambda job: replace(job, spe_address="sc://e2:1"),
    "same again": lambda job: replace(job, parallelism=2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_session_that_another_store_has_adopted_is_refused_before_anything_is_touched(
    shared: Versions, world: World, change: Callable[[Job], Job]
) -> None:
    before, changes = dict(world.broker(BROKER).sessions), len(world.changes())
    with shared.open("two") as two:
        operation = carry_out(two, change(A))
        error = operation.actions["a"].error
        assert "session 'speck-a' at broker tcp://b1:1883 belongs to another SpecK, with store" in error
        assert two.store.identity in error
        assert world.broker(BROKER).owners["speck-a"] in error
        assert operation.actions["a"].state == "failed"
    assert world.broker(BROKER).sessions == before
    assert len(world.changes()) == changes


def test_a_job_whose_session_is_anothers_can_be_deleted_and_the_session_stays(
    shared: Versions, world: World
) -> None:
    with shared.open("two") as two:
        deletion = user.delete_composition(two, "traffic")
        assert deletion.wait(30)
        assert deletion.state == "succeeded"
        events = [each.message for each in two.store.events()]
        assert any("not deleted: session 'speck-a'" in each for each in events)
        assert two.store.jobs() == []
    assert world.broker(BROKER).sessions == {"speck-a": "t0"}


def test_a_job_under_another_name_replaces_one_whose_session_is_anothers(
    shared: Versions, world: World
) -> None:
    with shared.open("two") as two:
        succeeded(two, replace(A, job_name="b"))
        assert read_by(world, "b") == [session_name("b", two.store.identity)]


def test_the_checkup_lists_the_sessions_of_other_stores(stores: Versions) -> None:
    with stores.open("one") as one, stores.open("two") as two:
        succeeded(one, A, DOTTED)
        (broker,) = (each for each in stores.checkups() if each["role"] == "broker")
        (wrong,) = broker["wrong"]
        names = [session_name(name, one.store.identity) for name in ("a", "a.2")]
        assert wrong["message"] == (
            f"2 sessions of another SpecK, with store {one.store.identity}: {names[1]} (u0); {names[0]} (t0)"
        )
        assert "docs/mqtt.md" in wrong["remedy"]
        assert wrong["remark"]
        assert two  # open, without a session of its own


# --- made anew


def test_a_job_made_anew_reads_above_the_copies_of_the_deleted_one(stores: Versions, world: World) -> None:
    with stores.open("store") as coordinator:
        for trigger in ("1 second", "2 seconds", "3 seconds"):
            succeeded(coordinator, replace(A, trigger=trigger))
        (session,) = read_by(world, "a")
        assert user.delete_composition(coordinator, "traffic").wait(30)
        assert world.broker(BROKER).tombstones[session] > 3
        succeeded(coordinator, A)
        (running,) = world.running("a")
        assert running.attempt.session == session
        assert running.attempt.number > 4  # of a copy of the deleted job, or of what shut it out
        assert world.broker(BROKER).fences[session] == running.attempt.number


def test_a_broker_that_lost_the_fence_has_a_tombstone_above_all_attempts(
    stores: Versions, world: World
) -> None:
    with stores.open("store") as coordinator:
        for trigger in ("1 second", "2 seconds"):
            succeeded(coordinator, replace(A, trigger=trigger))
        (session,) = read_by(world, "a")
        world.broker(BROKER).fences.clear()
        assert user.delete_composition(coordinator, "traffic").wait(30)
        assert world.broker(BROKER).tombstones[session] > 2
