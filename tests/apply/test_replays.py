"""Jobs that begin at a place in their source, and jobs that read again from there, over the doubles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.operation import Operation
from speck.coordinator import Coordinator, build
from speck.core.job import Job, is_replay, owner_in, replay_name, session_name
from speck.core.lifecycle import EventKind
from speck.core.plan import destructions
from speck.core.settings import Settings
from speck.errors import BinderError, InvalidInput, Unreachable
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.logs import with_logs
from testbed.doubles.world import RunningJob, World

pytestmark = pytest.mark.usefixtures("known_owner")

LOG = "log://k:1"
JOB = make_job("a", "t", source_broker=LOG)
AGAIN = replace(JOB, start="earliest")
LATER = replace(JOB, start="2026-01-01T00:00:00Z")


@pytest.fixture(name="world")
def world_fixture() -> Iterator[World]:
    world = World()
    world.broker(LOG).kept["t"] = 1_204_332
    yield world
    assert world.violations == []


@pytest.fixture(name="coordinator")
def coordinator_fixture(tmp_path: Path, world: World) -> Iterator[Coordinator]:
    with ExitStack() as stack:
        store = stack.enter_context(Store(tmp_path / "store"))
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        made = build(store, with_logs(double_kinds(world), world), settings=settings).coordinator
        stack.callback(made.close)
        made.start()
        yield made


Applied = Callable[..., Operation]


@pytest.fixture(name="apply")
def apply_fixture(coordinator: Coordinator) -> Applied:
    def apply(job: Job, give_up: bool = False) -> Operation:
        operation, _ = user.apply(coordinator, composition(job), give_up=give_up)
        assert operation.wait(30)
        return operation

    return apply


def running(world: World) -> RunningJob:
    (found,) = world.running("a")
    return found


def number(session: str) -> str:
    """The number in a session's name, with ``r`` before it for one that begins at a start."""
    return session.rpartition(":")[2]


def test_names_of_sessions_say_if_they_begin_at_a_start() -> None:
    again = replay_name("a", "f00", 7)
    assert again == "speck-a:f00:r7"
    assert owner_in(again) == "f00"
    assert is_replay(again)
    assert not any(map(is_replay, (session_name("a", "f00", 7), session_name("a:r7", "f00"), "speck-r7")))


def test_a_new_job_begins_at_its_start_and_its_plan_counts_the_messages(
    world: World, coordinator: Coordinator, apply: Applied
) -> None:
    plan = user.plan(coordinator, composition(AGAIN))
    assert plan.consequences["a"] == "reads 't' from its beginning: 1,204,332 messages"
    assert destructions(plan) == ()
    apply(AGAIN)
    assert number(running(world).attempt.session) == "r1"
    assert world.broker(LOG).backlog[running(world).attempt.session] == 1_204_332
    assert world.counts()["begin_session"] == 1
    assert user.plan(coordinator, composition(AGAIN)).consequences == {}


def test_messages_that_cannot_be_counted_keep_no_job_from_its_plan(
    world: World, coordinator: Coordinator
) -> None:
    world.fail("count_from", BinderError("no"), times=None)
    plan = user.plan(coordinator, composition(LATER))
    assert plan.consequences["a"] == "reads 't' from 2026-01-01T00:00:00Z: an unknown number of messages"


def test_a_job_reads_again_without_its_state_under_new_names(
    world: World, coordinator: Coordinator, apply: Applied
) -> None:
    apply(JOB)
    before = running(world).attempt
    world.broker(LOG).backlog[before.session] = 7
    plan = user.plan(coordinator, composition(AGAIN))
    text = "reads 't' again from its beginning: 1,204,332 messages; its results are written again under new "
    assert text in plan.consequences["a"]
    assert [each.text for each in destructions(plan)] == ["reads again, without its present state (start)"]
    apply(AGAIN)
    after = running(world).attempt
    assert (number(after.session), after.state) == ("r2", None)
    assert (after.incarnation, after.origin) == (after.number, after.number)
    assert list(world.broker(LOG).sessions) == [after.session]
    kinds = {each.kind for each in coordinator.store.events()}
    assert EventKind.STARTED in kinds
    assert EventKind.DROPPED not in kinds  # what waited is read again
    # From then on its state and its session are its own.
    apply(replace(AGAIN, arguments={"x": 1}))
    assert (running(world).attempt.session, bool(running(world).attempt.state)) == (after.session, True)


def test_a_start_that_is_the_latest_place_or_the_former_one_changes_no_place(
    world: World, coordinator: Coordinator, apply: Applied
) -> None:
    apply(AGAIN)
    session = running(world).attempt.session
    for job in (JOB, AGAIN, JOB):
        assert "reads" not in user.plan(coordinator, composition(job)).consequences.get("a", "")
        apply(job)
        assert (running(world).attempt.session, bool(running(world).attempt.state)) == (session, True)
    apply(LATER)
    assert (number(running(world).attempt.session), running(world).attempt.state) == ("r5", None)


def test_a_form_that_does_not_start_gives_its_place_up(world: World, apply: Applied) -> None:
    apply(JOB)
    before = running(world).attempt
    world.fail("submit", BinderError("no"), times=1)
    assert "the previous version was restored" in apply(AGAIN).actions["a"].error
    restored = running(world).attempt
    assert (restored.session, bool(restored.state)) == (before.session, True)
    apply(AGAIN)
    after = running(world).attempt
    assert (number(after.session), after.state) == ("r3", None)
    assert list(world.broker(LOG).sessions) == [after.session]
    assert world.broker(LOG).backlog[after.session] == 1_204_332


def test_a_job_whose_place_was_noted_alone_begins_there(world: World, apply: Applied) -> None:
    apply(JOB)
    for method, session in (("begin_session", ""), ("stop", "r2"), ("submit", "r2"), ("fence", "r3")):
        world.fail(method, Unreachable("no", address=LOG), times=None)
        apply(AGAIN)
        world.heal()
        assert session in "".join(world.broker(LOG).sessions)
    apply(AGAIN)
    after = running(world).attempt
    assert (number(after.session), after.state) == ("r4", None)
    assert list(world.broker(LOG).sessions) == [after.session]
    assert world.broker(LOG).backlog[after.session] == 1_204_332


def test_messages_that_a_start_lies_behind_are_given_up_on_request_only(world: World, apply: Applied) -> None:
    apply(JOB)
    world.broker(LOG).skipped[running(world).attempt.session] = 12
    with pytest.raises(InvalidInput, match=r"12 messages .* its start skips them .*--give-up"):
        apply(LATER)
    apply(LATER, give_up=True)
    assert number(running(world).attempt.session) == "r2"


def test_a_job_that_changes_its_source_begins_where_its_writers_do(world: World, apply: Applied) -> None:
    apply(AGAIN)
    world.broker(LOG).backlog.clear()
    apply(replace(AGAIN, source_topic="u"))
    found = running(world).attempt
    assert re.fullmatch(r"\d+", number(found.session))
    assert found.state is not None
    with pytest.raises(InvalidInput, match=r"start '2026.*' changes together with the source"):
        apply(replace(LATER, source_topic="t"))
