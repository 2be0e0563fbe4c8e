"""A fence that names a number which no store gives, over engines and brokers in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.benches import user
from testbed.benches.jobs_by_hand import chain
from testbed.benches.reconciler import Bench
from testbed.benches.sessions import named
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

BROKER = "tcp://b1:1883"
(A,) = chain("a")
FORGED = 10**18 - 1


def forge(world: World) -> None:
    """Publish a fence as anybody may who may publish at the broker; no copy has read it yet."""
    world.broker(BROKER).fences.pop(named("a"), None)
    # The double's copies end as soon as they meet a fence.
    world.broker(BROKER).tombstones[named("a")] = FORGED


def remove(world: World) -> None:
    world.broker(BROKER).tombstones.pop(named("a"))


def number(bench: Bench) -> int:
    record = bench.store.job("a")
    assert record is not None
    return record.attempts


def test_an_update_is_refused_before_the_copy_is_stopped_and_nothing_is_stored(
    bench: Bench, world: World
) -> None:
    bench.apply(A)
    forge(world)
    operation = bench.apply(changed := replace(A, trigger="1 second"))
    assert operation.state == "failed"
    assert f"names attempt {FORGED} (expected at most" in operation.actions["a"].error
    assert ([each.attempt.number for each in world.running("a")], number(bench)) == ([1], 1)
    remove(world)
    assert bench.apply(changed).state == "succeeded"
    assert ([each.attempt.number for each in world.running("a")], number(bench)) == ([2], 2)


def test_a_job_that_died_starts_again_once_the_message_is_removed(bench: Bench, world: World) -> None:
    bench.apply(A)
    forge(world)
    world.crash("a")
    bench.round(3)
    assert (world.running("a"), number(bench)) == ([], 1)
    assert "remove the retained message" in str(bench.job("a")["error"])
    remove(world)
    bench.round(8, 20)
    assert ([each.attempt.number for each in world.running("a")], number(bench)) == ([2], 2)


def test_a_job_that_is_deleted_and_made_anew_does_not_get_the_number(bench: Bench, world: World) -> None:
    bench.apply(A)
    forge(world)
    user.delete_composition(bench.coordinator, "traffic").wait(30)
    assert bench.store.job("a") is None
    assert "remove the retained message" in bench.apply(A).actions["a"].error
    remove(world)
    assert bench.apply(A).state == "succeeded"
    assert number(bench) == 1
