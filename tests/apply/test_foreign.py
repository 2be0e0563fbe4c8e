"""Jobs of another store are recognised before anything starts, over the doubles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.job import client_id, session_name
from speck.core.plan import ForeignJob, plan_data
from speck.errors import JobsOfAnother, Rejected
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.stores import BROKER, ENGINE, Stores
from testbed.doubles.world import CHANGES, World

A, B, C = make_job("a", "t0", "t1"), make_job("b", "t1", "t2"), make_job("c", "t2", "t3")


@pytest.fixture
def stores(world: World, tmp_path: Path) -> Stores:
    return Stores(world, tmp_path)


def assert_untouched(world: World, before: int) -> None:
    """Since the first ``before`` calls, nothing was changed at an engine or a broker."""
    changing = CHANGES | {"ensure_session", "delete_session", "fence", "claim_session", "name_writers"}
    assert [call for call in world.calls[before:] if call[0] in changing] == []


def test_the_jobs_of_a_lost_store_stop_the_whole_apply(stores: Stores, world: World) -> None:
    lost = stores.deploy("lost", A, B)
    before = len(world.calls)
    with stores.open("new") as new:
        with pytest.raises(JobsOfAnother) as raised:
            user.apply(new, composition(A, B, C))
        assert new.store.heads() == []
        assert new.store.jobs() == []
    first, second = str(raised.value).splitlines()
    for part in ("job 'a'", ENGINE, lost, new.store.identity, "backup", "rename the job"):
        assert part in first
    assert "job 'b'" in second
    assert_untouched(world, before)


def test_each_engine_and_broker_is_asked_once(stores: Stores, world: World) -> None:
    stores.deploy("lost", A, B, C)
    before = len(world.calls)
    with stores.open("new") as new, pytest.raises(JobsOfAnother):
        user.apply(new, composition(A, B, C))
    asked = [call[0] for call in world.calls[before:]]
    assert asked.count("running") == 1
    assert asked.count("foreign_sessions") == 1


def test_a_plan_lists_them(stores: Stores) -> None:
    lost = stores.deploy("lost", A)
    with stores.open("new") as new:
        plan = user.plan(new, composition(A, B))
        (found,) = plan.foreign
        session = session_name("a", lost)
        assert (found.job, found.owner, found.address) == ("a", lost, ENGINE)
        assert (found.broker, found.session) == (BROKER, session)
        assert plan_data(plan)["foreign"][0]["attempt"] == found.attempt != ""


def test_a_session_alone_stops_the_apply(stores: Stores, world: World) -> None:
    """Messages wait there, for a copy that ended with its engine."""
    lost = stores.deploy("lost", A)
    world.restart(ENGINE)
    with stores.open("new") as new:
        assert user.plan(new, composition(A)).foreign == (
            ForeignJob("a", lost, broker=BROKER, session=session_name("a", lost)),
        )
        with pytest.raises(JobsOfAnother, match=f"has session 'speck-a:{lost}' at {BROKER}"):
            user.apply(new, composition(A))


@pytest.mark.parametrize("session", ["speck-b:0123456789abcdef", "speck-a.2:0123456789abcdef", "sensor"])
def test_sessions_of_other_jobs_stop_nothing(stores: Stores, world: World, session: str) -> None:
    world.broker(BROKER).sessions[session] = "t0"
    world.broker(BROKER).owners[session] = "0123456789abcdef"
    stores.deploy("new", A)


def test_a_session_of_another_topic_stops_nothing(stores: Stores, world: World) -> None:
    world.broker(BROKER).sessions["speck-a:0123456789abcdef"] = "elsewhere"
    world.broker(BROKER).owners["speck-a:0123456789abcdef"] = "0123456789abcdef"
    stores.deploy("new", A)


def test_a_copy_whose_marks_name_no_store_stops_the_apply(stores: Stores, world: World) -> None:
    stores.deploy("lost", A)
    (copy,) = world.running("a")
    copy.attempt = replace(copy.attempt, owner="", session=client_id("a"))
    world.brokers.clear()
    with (
        stores.open("new") as new,
        pytest.raises(JobsOfAnother, match="by an unknown store"),
    ):
        user.apply(new, composition(A))


def test_a_job_that_nobody_marked_is_foreign_only_beside_a_session(stores: Stores, world: World) -> None:
    stores.deploy("lost", A)
    (copy,) = world.running("a")
    copy.foreign = True  # as an engine that keeps no marks lists it
    with stores.open("new") as new, pytest.raises(JobsOfAnother, match=f"runs at {ENGINE} and has session"):
        user.apply(new, composition(A))
    world.brokers.clear()
    with stores.open("new") as new:
        assert user.plan(new, composition(A)).foreign == ()


def test_a_job_that_this_store_has_run_is_not_held_up(stores: Stores, world: World) -> None:
    """Its copy is healed although another store runs a job of its name by now."""
    stores.deploy("mine", A)
    (copy,) = world.running("a")
    other = replace(copy.attempt, id="f" * 32, owner="another")
    world.restart(ENGINE)
    world.intrude(ENGINE, A, other)
    with stores.open("mine") as mine:
        assert user.plan(mine, composition(A)).foreign == ()


def test_a_job_that_an_engine_out_of_reach_hid_is_recognised_before_its_start(
    stores: Stores, world: World
) -> None:
    """The plan could not see it; the next one does, and nothing was started in between."""
    stores.deploy("lost", A)
    world.brokers.clear()
    world.down(ENGINE)
    with stores.open("new") as new:
        running, _ = user.apply(new, composition(A))
        assert running.wait(30)
        assert running.state == "waiting"
        world.up(ENGINE)
        with pytest.raises(JobsOfAnother):
            user.apply(new, composition(A))
    assert len(world.running("a")) == 1


def test_the_step_before_a_start_looks_for_itself(
    stores: Stores, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store may have started the job since the plan was made."""
    lost = stores.deploy("lost", A)
    monkeypatch.setattr("speck.coordinator.planning.planner.ForeignJobs.of", lambda self, jobs: ())
    before = len(world.calls)
    with stores.open("new") as new:
        operation, _ = user.apply(new, composition(A))
        assert operation.wait(30)
        assert lost in operation.actions["a"].error
        assert operation.state == "failed"
    assert_untouched(world, before)


def test_an_engine_without_a_list_is_passed_over(stores: Stores, world: World) -> None:
    world.fail("running", Rejected("it has no list"), times=None)
    stores.deploy("new", A)


def test_a_binder_without_a_list_goes_on_working(
    stores: Stores, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listless(InMemoryEngine):
        running = None  # type: ignore[assignment]

    monkeypatch.setattr("testbed.doubles.kinds.InMemoryEngine", Listless)
    stores.deploy("new", A)
    assert len(world.running("a")) == 1
