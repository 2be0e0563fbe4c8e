"""A job whose state is gone is not started without it, unless its user says so; over engines in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.apply.operation import Operation
from speck.coordinator import Coordinator
from speck.core.job import Job
from speck.errors import Rejected, StateLost
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.sessions import named
from testbed.doubles.world import World, checkpoint

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE = "sc://e1:1"
A = make_job("a")
CHANGED = replace(A, trigger="1 second")


def carry_out(coordinator: Coordinator, job: Job) -> Operation:
    return user.carry_out(coordinator, composition(job))


def lose_state(world: World) -> None:
    """The engine was restarted, and its disk is empty."""
    world.lose_states("a")
    world.restart(ENGINE)
    world.states.clear()


def test_a_job_is_not_started_without_its_state(coordinator: Coordinator, world: World) -> None:
    assert carry_out(coordinator, A).state == "succeeded"
    lose_state(world)
    for job in (A, CHANGED):
        operation = carry_out(coordinator, job)
        assert "is gone" in operation.actions["a"].error
        assert world.running("a") == []


def test_a_job_that_is_to_start_without_its_state_does(coordinator: Coordinator, world: World) -> None:
    assert carry_out(coordinator, A).state == "succeeded"
    lose_state(world)
    assert carry_out(coordinator, A).state == "failed"
    assert carry_out(coordinator, replace(A, upgrade="stateless")).state == "succeeded"
    (running,) = world.running("a")
    assert running.attempt.state is None


def test_a_running_job_is_updated_without_its_state_if_that_is_meant(
    coordinator: Coordinator, world: World
) -> None:
    assert carry_out(coordinator, A).state == "succeeded"
    world.lose_states("a")
    assert "is gone" in carry_out(coordinator, CHANGED).actions["a"].error
    assert len(world.running("a")) == 1
    assert carry_out(coordinator, replace(CHANGED, upgrade="stateless")).state == "succeeded"
    (running,) = world.running("a")
    assert running.job.trigger == "1 second"


def test_a_form_without_its_state_is_not_put_back(coordinator: Coordinator, world: World) -> None:
    assert carry_out(coordinator, A).state == "succeeded"
    world.lose_states("a")
    world.fail("submit", StateLost("no such class", address=ENGINE), name="a")
    operation = carry_out(coordinator, replace(CHANGED, upgrade="stateless"))
    assert "no such class" in operation.actions["a"].error
    assert "restored" not in operation.actions["a"].error
    assert world.running("a") == []


REJECTED = Rejected("no such class", address=ENGINE)
STATELESS = replace(A, upgrade="stateless")


@pytest.mark.parametrize("before", [A, STATELESS], ids=["stateful", "stateless"])
def test_a_form_that_is_put_back_continues_with_its_state_whatever_upgrade_says(
    coordinator: Coordinator, world: World, before: Job
) -> None:
    carry_out(coordinator, before)
    (old,) = world.running("a")
    world.fail("submit", REJECTED, name="a")
    operation = carry_out(coordinator, replace(STATELESS, trigger="1 second"))
    assert "the previous version was restored and runs" in operation.actions["a"].error
    (back,) = world.running("a")
    assert back.job.trigger is None
    assert back.attempt.state is not None and back.attempt.state.location == checkpoint(old.attempt)


def test_a_stateless_update_that_comes_up_begins_without_a_state(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, STATELESS)
    assert carry_out(coordinator, replace(STATELESS, trigger="1 second")).state == "succeeded"
    (running,) = world.running("a")
    assert running.attempt.state is None
    record = coordinator.store.job("a")
    assert record is not None and (record.state, record.rollback_state) == (None, None)


def test_a_job_without_its_state_may_go(coordinator: Coordinator, world: World) -> None:
    other = make_job("b", "p", "q")
    operation, _ = user.apply(coordinator, composition(A, other))
    assert operation.wait(30)
    lose_state(world)
    operation, _ = user.apply(coordinator, composition(other))
    assert operation.wait(30)
    assert operation.actions["a"].state == "done"
    assert named("a") not in world.broker("tcp://b1:1883").sessions


def test_a_job_with_its_state_is_updated(coordinator: Coordinator, world: World) -> None:
    assert carry_out(coordinator, A).state == "succeeded"
    assert carry_out(coordinator, CHANGED).state == "succeeded"
    (running,) = world.running("a")
    assert running.attempt.state is not None
