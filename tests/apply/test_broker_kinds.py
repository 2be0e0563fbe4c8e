"""Jobs at brokers of several kinds, over the doubles: topics that are made, and states of another kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from speck.coordinator import Coordinator, build
from speck.core.job import Job
from speck.core.settings import Settings
from speck.errors import InvalidInput, Unreachable
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.logs import with_logs
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

LOG = "log://k:1"
(JOB,) = chain("a")


@pytest.fixture(name="coordinator")
def coordinator_fixture(tmp_path: Path, world: World) -> Iterator[Coordinator]:
    registry = with_logs(double_kinds(world), world)
    with ExitStack() as stack:
        store = stack.enter_context(Store(tmp_path / "store"))
        settings = Settings(roots=(write_code(tmp_path),), period=0, drain=30.0)
        made = build(store, registry, settings=settings).coordinator
        stack.callback(made.close)
        made.start()
        yield made


Applied = Callable[[Job], str]


@pytest.fixture(name="apply")
def apply_fixture(coordinator: Coordinator) -> Applied:
    def apply(job: Job) -> str:
        operation, _ = user.apply(coordinator, composition(job))
        assert operation.wait(30)
        return str(operation.to_dict())

    return apply


def calls(world: World, method: str) -> list[str]:
    return [str(each) for each in world.calls if method in str(each)]


def test_the_topic_of_a_sink_is_made_before_the_job_starts(world: World, apply: Applied) -> None:
    apply(replace(JOB, sink_broker=LOG, sink_topic="made"))
    made = [place for place, each in enumerate(world.calls) if "ensure_topic" in str(each)]
    started = [place for place, each in enumerate(world.calls) if "submit" in str(each)]
    assert len(made) == 1
    assert "made" in str(world.calls[made[0]])
    assert made < started


PARTED = replace(
    JOB,
    source_broker=LOG,
    source_topic="in",
    sink_broker=LOG,
    sink_topic="out",
    partitions={"in": 4, "out": 2},
)


def test_topics_are_made_with_their_partitions_and_the_plan_names_them(
    world: World, apply: Applied, coordinator: Coordinator
) -> None:
    assert user.plan(coordinator, composition(PARTED)).consequences == {
        "a": f"topic 'out' is created at {LOG} with 2 partitions; "
        f"topic 'in' is created at {LOG} with 4 partitions"
    }
    assert world.broker(LOG).partitions == {}
    assert "succeeded" in apply(PARTED)
    assert world.broker(LOG).partitions == {"in": 4, "out": 2}
    changed = replace(PARTED, parallelism=2)
    assert "is made" not in str(user.plan(coordinator, composition(changed)).consequences)


@pytest.mark.parametrize("deployed", [False, True])
def test_a_topic_with_another_number_of_partitions_is_refused_before_anything_is_touched(
    world: World, apply: Applied, coordinator: Coordinator, deployed: bool
) -> None:
    if deployed:
        apply(PARTED)
    else:
        world.broker(LOG).partitions |= {"in": 4, "out": 2}
    before = len(world.calls)
    with pytest.raises(InvalidInput) as found:
        apply(replace(PARTED, partitions={"in": 4, "out": 8}))
    (fault,) = found.value.faults
    assert fault.message.startswith(f"topics: 'out' has 2 partitions at {LOG} (expected partitions: 2; ")
    assert {method for method, _, _ in world.calls[before:]} <= {"topic_partitions"}


def test_a_broker_that_cannot_be_asked_refuses_later(world: World, apply: Applied) -> None:
    world.broker(LOG).partitions |= {"in": 4, "out": 1}
    world.fail("topic_partitions", Unreachable("away"), times=None)
    assert "topic 'out' has 1 partitions (expected 2)" in apply(PARTED)
    assert world.running("a") == []


def test_a_job_continues_from_its_state_at_a_broker_of_another_kind(world: World, apply: Applied) -> None:
    apply(JOB)
    for broker in (LOG, JOB.source_broker):
        apply(replace(JOB, source_broker=broker))
        (running,) = world.running("a")
        assert running.job.source_broker == broker
        assert running.attempt.state is not None


def test_brokers_of_jobs_are_asked_to_delete_what_nobody_needs(
    world: World, apply: Applied, coordinator: Coordinator
) -> None:
    apply(replace(JOB, sink_broker=LOG, sink_topic="made"))
    assert coordinator.keeping.round() == 60.0
    assert len(calls(world, "purge")) == 1
    world.down(LOG)
    coordinator.keeping.round()  # one that does not answer is asked again later
