"""Copies of a lost store are taken into another one, over the doubles."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.adoption import AdoptionPlan, Refusal
from speck.core.job import Composition, session_name
from speck.core.plan import Keep
from speck.errors import InvalidInput, JobsOfAnother, NotAdoptable, StaleRevision
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.doubles.stores import BROKER, ENGINE, Stores
from testbed.doubles.world import CHANGES, World

A, B, C = make_job("a", "t0", "t1"), make_job("b", "t1", "t2"), make_job("c", "t2", "t3")
TOUCHING = CHANGES | {"ensure_session", "delete_session", "fence", "claim_session", "name_writers"}


class Lost(Stores):
    """Stores of which one has deployed jobs, and is lost."""

    def adopt(self, desired: Composition, *names: str) -> AdoptionPlan:
        """Adopt with the store that is open, and await the end."""
        operation, found = user.adopt(self.coordinator, desired, names)
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()
        return found


@pytest.fixture
def stores(world: World, tmp_path: Path) -> Lost:
    return Lost(world, tmp_path)


def test_a_composition_of_a_lost_store_is_adopted_and_then_has_nothing_to_do(
    stores: Lost, world: World
) -> None:
    lost = stores.deploy("lost", A, B)
    before, copies = len(world.calls), {each.job.job_name: each.attempt for each in world.running()}
    with stores.open("new") as new:
        with pytest.raises(JobsOfAnother, match="speck adopt"):
            user.apply(new, composition(A, B))
        found = stores.adopt(composition(A, B))
        assert [(each.job, each.owner, each.attempt) for each in found.adoptions] == [
            (name, lost, copies[name].id) for name in ("a", "b")
        ]
        plan = user.plan(new, composition(A, B))
        assert [type(each) for each in plan.actions] == [Keep, Keep]
        assert plan.foreign == ()
        (record,) = new.store.attempts("a")
        assert replace(record.attempt, owner=lost) == copies["a"]
        assert [each.name for each in new.store.job("a").sessions] == [session_name("a", lost)]
        assert world.broker(BROKER).owners == dict.fromkeys(world.broker(BROKER).sessions, new.store.identity)
        assert {each.state for each in new.store.outcomes("traffic").values()} == {"applied"}
        events = [each.kind for each in new.store.events()]
        assert events == ["adopted", "adopted", "accepted", "succeeded"]
    assert [call for call in world.calls[before:] if call[0] in TOUCHING] == []


def test_an_adopted_job_is_updated_moved_and_healed_with_its_session_and_state(
    stores: Lost, world: World
) -> None:
    lost = stores.deploy("lost", A, B)
    session = session_name("a", lost)
    with stores.open("new") as new:
        stores.adopt(composition(A, B))
        for changed in (replace(A, trigger="2 seconds"), replace(A, spe_address="sc://e2:1")):
            operation, _ = user.apply(new, composition(changed, B))
            assert operation.wait(30)
            assert operation.state == "succeeded", operation.to_dict()
            (copy,) = world.running("a")
            assert (copy.attempt.session, copy.attempt.owner) == (session, new.store.identity)
            assert copy.attempt.state is not None
        assert copy.attempt.number == 3
        world.crash("b")
        new.reconciler.round()
        for each in new.operations.running():
            assert each.wait(30)
        (healed,) = world.running("b")
        assert (healed.attempt.session, healed.attempt.number) == (session_name("b", lost), 2)
        operation = user.delete_composition(new, "traffic")
        assert operation.wait(30)
        assert world.broker(BROKER).sessions == {}
    assert world.violations == []


def test_the_numbers_of_the_stamps_go_on(stores: Lost, world: World) -> None:
    """A new incarnation where the old one repeats its work would double what it had written."""
    stores.deploy("lost", A)
    changed = replace(A, trigger="2 seconds")
    stores.deploy("lost", changed)
    (copy,) = world.running("a")
    assert copy.attempt.incarnation == 2
    with stores.open("new") as new:
        stores.adopt(composition(changed))
        world.crash("a")
        new.reconciler.round()
        for each in new.operations.running():
            assert each.wait(30)
        (healed,) = world.running("a")
        assert (healed.attempt.incarnation, healed.attempt.origin) == (2, copy.attempt.origin)
        assert healed.attempt.number == 3


def test_other_compositions_change_while_a_broker_hands_over_a_session(stores: Lost, world: World) -> None:
    stores.deploy("lost", A)
    with stores.open("new") as new:
        hold = world.hold("adopt_session")
        adopting = threading.Thread(target=stores.adopt, args=(composition(A),))
        adopting.start()
        changed = threading.Event()

        def change() -> None:
            operation, _ = user.apply(new, composition(C, name="other"))
            operation.wait(30)
            changed.set()

        try:
            assert hold.reached.wait(10)
            changing = threading.Thread(target=change)
            changing.start()
            assert changed.wait(10)
        finally:
            hold.release()
            adopting.join()
            changing.join()
        assert new.deployments.composition("traffic").jobs == {"a": A}


def test_only_the_named_jobs_are_adopted(stores: Lost, world: World) -> None:
    stores.deploy("lost", A, B)
    with stores.open("new") as new:
        stores.adopt(composition(A, B, C), "a")
        assert new.deployments.composition("traffic").jobs == {"a": A}
        plan = user.plan(new, composition(A, B, C))
        assert [each.job for each in plan.foreign] == ["b"]
        found = stores.adopt(composition(A, B, C))
        assert ([each.job for each in found.adoptions], found.absent, found.own) == (["b"], ("c",), ("a",))
        assert new.deployments.composition("traffic").jobs == {"a": A, "b": B}
        operation, _ = user.apply(new, composition(A, B, C))
        assert operation.wait(30)
        assert sorted(world.where()) == ["a", "b", "c"]
        assert {name: each.state for name, each in operation.actions.items()} == {
            "a": "kept",
            "b": "kept",
            "c": "done",
        }


def test_a_crash_after_the_brokers_is_made_good_by_the_next_adoption(stores: Lost, world: World) -> None:
    lost = stores.deploy("lost", A, B)
    with stores.open("new") as new:
        found = user.plan_adoption(stores.coordinator, composition(A, B))
        stores.coordinator.changes.adoptions.take_sessions(found.adoptions)
        with pytest.raises(JobsOfAnother, match=lost):
            user.apply(new, composition(A, B))
        stores.adopt(composition(A, B))
        assert [type(each) for each in user.plan(new, composition(A, B)).actions] == [Keep, Keep]


def test_a_job_that_was_added_after_the_backup_is_adopted_by_the_restored_store(
    stores: Lost, world: World
) -> None:
    """It has the identity of this very store, which does not know it."""
    stores.deploy("lost", A)
    (copy,) = world.running("a")
    with stores.open("restored") as restored:
        copy.attempt = replace(copy.attempt, owner=restored.store.identity)
        world.broker(BROKER).owners[copy.attempt.session] = restored.store.identity
        stores.adopt(composition(A))
        assert [type(each) for each in user.plan(restored, composition(A)).actions] == [Keep]


def test_the_owner_that_a_reader_restores_at_an_emptied_broker_is_replaced(
    stores: Lost, world: World
) -> None:
    lost = stores.deploy("lost", A)
    session = session_name("a", lost)
    with stores.open("new") as new:
        stores.adopt(composition(A))
        world.broker(BROKER).owners[session] = lost  # as its reader had read it before the adoption
        operation, _ = user.apply(new, composition(replace(A, trigger="2 seconds")))
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()
        assert world.broker(BROKER).owners[session] == new.store.identity


# --- refusals


def _no_form(world: World) -> None:
    (copy,) = world.running("a")
    copy.unstamped = True


def _no_owner(world: World) -> None:
    (copy,) = world.running("a")
    copy.attempt = replace(copy.attempt, owner="")


def _no_marks(world: World) -> None:
    (copy,) = world.running("a")
    copy.foreign = True


def _twice(world: World) -> None:
    (copy,) = world.running("a")
    world.intrude(ENGINE, copy.job, replace(copy.attempt, id="f" * 32))


def _absurd_number(world: World) -> None:
    (copy,) = world.running("a")
    copy.attempt = replace(copy.attempt, number=10**18)


def _other_code(world: World) -> None:
    (copy,) = world.running("a")
    copy.job = replace(copy.job, code_hash="0" * 64)


def _other_arguments(world: World) -> None:
    (copy,) = world.running("a")
    copy.job = replace(copy.job, arguments={"least": 3})


def _superseded(world: World) -> None:
    (session,) = world.broker(BROKER).fences
    world.engine(ENGINE).jobs, jobs = {}, world.engine(ENGINE).jobs
    world.broker(BROKER).fences[session] = 7
    world.broker(BROKER).tombstones[session] = 7
    world.broker(BROKER).fences.pop(session)  # the double's copies end as soon as they meet a fence
    world.engine(ENGINE).jobs = jobs


def _third_owner(world: World) -> None:
    (session,) = world.broker(BROKER).owners
    world.broker(BROKER).owners[session] = "third"


def _no_session(world: World) -> None:
    for records in (world.broker(BROKER).owners, world.broker(BROKER).sessions):
        records.clear()


def _engine_lost_it(world: World) -> None:
    world.restart(ENGINE)


def _engine_down(world: World) -> None:
    world.down(ENGINE)


def _broker_down(world: World) -> None:
    world.down(BROKER)


@pytest.mark.parametrize(
    ("arrange", "reason"),
    [
        (_no_form, "has no mark of its stamps"),
        (_no_owner, "has no mark of its store"),
        (_no_marks, "lists its copy without any mark"),
        (_twice, "2 copies of it run"),
        (_absurd_number, "which no store assigns (expected less than 1000000000000000)"),
        (_other_code, "runs code 000000000000"),
        (_other_arguments, "runs in another form than the file's"),
        (_superseded, "names 7"),
        (_third_owner, "belongs to store third"),
        (_no_session, "has no record of the session"),
        (_engine_lost_it, "lists no copy of it that reads there"),
        (_engine_down, "cannot be reached"),
        (_broker_down, "cannot be reached"),
    ],
)
def test_a_job_that_is_not_adoptable_refuses_the_whole_adoption(
    stores: Lost, world: World, arrange: Callable[[World], None], reason: str
) -> None:
    stores.deploy("lost", A)
    elsewhere = replace(
        B, spe_address="sc://e2:1", source_broker="tcp://b2:1883", sink_broker="tcp://b2:1883"
    )
    stores.deploy("another", elsewhere)
    arrange(world)
    owners = {address: dict(each.owners) for address, each in world.brokers.items()}
    with stores.open("new") as new:
        (refused,) = user.plan_adoption(stores.coordinator, composition(A, elsewhere)).refusals
        assert (refused.job, reason in refused.reason) == ("a", True), refused
        before = len(world.calls)
        with pytest.raises(NotAdoptable) as raised:
            user.adopt(stores.coordinator, composition(A, elsewhere))
        for part in ("job 'a' cannot be adopted", reason, refused.remedy):
            assert part in str(raised.value)
        assert [call for call in world.calls[before:] if call[0] in TOUCHING | {"adopt_session"}] == []
        assert (new.store.heads(), new.store.jobs()) == ([], [])
        assert {address: dict(each.owners) for address, each in world.brokers.items()} == owners
        stores.adopt(composition(A, elsewhere), "b")


def test_jobs_that_do_not_run_are_not_adopted(stores: Lost) -> None:
    with stores.open("new"):
        assert user.plan_adoption(stores.coordinator, composition(A)) == AdoptionPlan(
            "traffic", 0, absent=("a",)
        )
        with pytest.raises(NotAdoptable, match="'traffic': no engine of its jobs runs a copy"):
            user.adopt(stores.coordinator, composition(A))
        (refused,) = user.plan_adoption(stores.coordinator, composition(A), ["a"]).refusals
        assert refused == Refusal("a", "no copy of it runs at its engine", "speck apply starts it")


def test_a_name_of_no_job_is_refused(stores: Lost) -> None:
    stores.deploy("lost", A)
    with stores.open("new"), pytest.raises(InvalidInput, match=r"job 'x': is not a job of .* one of a, b"):
        user.plan_adoption(stores.coordinator, composition(A, B), ["x"])


def test_a_stale_base_revision_is_refused(stores: Lost) -> None:
    stores.deploy("lost", A)
    with stores.open("new"), pytest.raises(StaleRevision):
        user.adopt(stores.coordinator, composition(A), base_revision=3)


def test_a_copy_that_ends_before_it_is_adopted(
    stores: Lost, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.deploy("lost", A)
    with stores.open("new"):
        found = user.plan_adoption(stores.coordinator, composition(A))
        world.restart(ENGINE)
        monkeypatch.setattr(type(stores.coordinator.changes.adoptions), "plan", lambda *arguments: found)
        with pytest.raises(NotAdoptable, match="has ended by now"):
            user.adopt(stores.coordinator, composition(A))
        assert "adopt_session" not in world.counts()


def test_a_copy_that_this_store_has_abandoned_is_not_adopted(stores: Lost, world: World) -> None:
    with stores.open("mine") as mine:
        operation, _ = user.apply(mine, composition(A))
        assert operation.wait(30)
        for place in (ENGINE, BROKER):
            world.down(place)
        operation = user.delete_composition(mine, "traffic", leave_behind=[ENGINE, BROKER])
        assert operation.wait(30)
        for place in (ENGINE, BROKER):
            world.up(place)
        assert user.plan_adoption(stores.coordinator, composition(A)).absent == ("a",)


def test_the_store_that_was_not_lost_is_kept_from_the_session(stores: Lost, world: World) -> None:
    """It may stop its copy, and starts no other."""
    lost = stores.deploy("lost", A)
    with stores.open("new"):
        stores.adopt(composition(A))
    with stores.open("lost") as former:
        operation, _ = user.apply(former, composition(replace(A, trigger="2 seconds")))
        assert operation.wait(30)
        assert operation.state == "failed"
        assert "belongs to another SpecK" in operation.actions["a"].error
    (copy,) = world.running("a")
    assert (copy.attempt.owner, copy.attempt.number) == (lost, 1)


def test_an_older_copy_of_the_same_store_touches_nothing_and_adopts_what_it_does_not_know(
    stores: Lost, world: World, tmp_path: Path
) -> None:
    """The directory as it was before a job was updated and another one added."""
    stores.deploy("store", A, B)
    shutil.copytree(tmp_path / "store", tmp_path / "older")
    updated = replace(A, trigger="2 seconds")
    identity = stores.deploy("store", updated, B, C)
    before = {each.attempt.id for each in world.running()}
    with stores.open("older") as older:
        assert older.store.identity == identity
        for _ in range(3):
            older.reconciler.round()
            for each in older.operations.running():
                assert each.wait(30)
        assert {each.attempt.id for each in world.running()} == before
        found = stores.adopt(composition(A, B, C))
        assert ([each.job for each in found.adoptions], found.own) == (["c"], ("a", "b"))
        assert {each.attempt.id for each in world.running()} == before
        actions = {each.job.job_name: type(each) for each in user.plan(older, composition(A, B, C)).actions}
        assert (actions["b"], actions["c"]) == (Keep, Keep)
