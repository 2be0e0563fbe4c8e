"""The loop that keeps it true, over engines and brokers in memory and a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from graphlib import CycleError
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from speck.apply.operation import Operation
from speck.controller.backoff import FIRST, JITTER, LONGEST, WELL, exponential
from speck.controller.reconciler import NEVER
from speck.coordinator import build
from speck.core.plan import Plan
from speck.core.runtime import Drift, JobState
from speck.core.schedule import Leftovers, Step, schedule
from speck.core.settings import Settings
from speck.errors import (
    Busy,
    NoCapacity,
    OutcomeUnknown,
    Rejected,
    SpeckError,
    StoreFull,
    Unreachable,
)
from speck.observe.observer import Observation
from speck.store import Store, kinds
from speck.store.deployments import Deployment
from speck.store.leveldb.database import Database
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, code_hash, composition, make_job
from testbed.benches.reconciler import WAITS, Bench, copy_of
from testbed.benches.sessions import named
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

ENGINE, OTHER, BROKER, FAR = "sc://e1:1", "sc://e2:1", "tcp://b1:1883", "tcp://b2:1883"
A, B, C = chain("a", "b", "c")


# --- each kind of drift


@pytest.mark.parametrize(
    ("state", "drift", "rounds"),
    [
        (JobState.FAILED, Drift.DIED, 1),
        (JobState.FINISHED, Drift.FINISHED, 1),
        (JobState.STOPPED, Drift.STOPPED, 1),
    ],
)
def test_what_ended_is_named_and_started_again_from_its_state(
    bench: Bench, world: World, state: JobState, drift: Drift, rounds: int
) -> None:
    bench.apply(A, B)
    world.crash("a", "no such street", state)
    bench.round()
    (running,) = world.running("a")
    assert (running.attempt.number, running.attempt.state is not None) == (2, True)
    bench.round()
    assert bench.reported() == [("drift", "a"), ("healed", "a")]
    event = next(each for each in bench.queries.events() if each["kind"] == "drift")
    assert event["message"] == f"job 'a': {drift.value}: no such street"
    assert bench.job("a")["drift"] is None
    assert bench.heals() == 1


def test_a_drift_that_the_store_did_not_take_is_reported_by_the_next_round(
    bench: Bench, world: World
) -> None:
    bench.apply(A)
    world.crash("a")
    with bench.full_disk(), pytest.raises(StoreFull):
        bench.round()
    assert bench.reported() == []
    bench.round(2)
    assert bench.reported() == [("drift", "a"), ("healed", "a")]


def test_a_composition_that_cannot_be_ordered_keeps_no_other_from_healing(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.apply(A)
    operation, _ = user.apply(bench.coordinator, composition(B, name="other"))
    assert operation.wait(30)
    world.crash("a")
    world.crash("b")

    def cyclic(plan: Plan, *leftovers: Leftovers, **options: Any) -> tuple[Step, ...]:
        if "a" in {each.job.job_name for each in plan.actions}:
            raise CycleError("nodes are in a cycle", ["a", "a"])
        return schedule(plan, *leftovers, **options)

    monkeypatch.setattr("speck.controller.reconciler.schedule", cyclic)
    with monkeypatch.context() as patched:
        reaped: list[object] = []
        patched.setattr(bench.coordinator.reconciler.reaper, "round", reaped.append)
        bench.round(3)
    assert (len(reaped), [each.attempt.number for each in world.running()]) == (3, [2])
    assert world.running("b")
    assert str(bench.job("a")["waits"]).startswith("internal error: CycleError(")
    failures = bench.services.metrics.registry.get_sample_value("speck_round_failures_total")
    logged = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert (failures, bench.coordinator.unready_reasons()) == (3, [])
    assert logged == [f"composition {composition(A).name!r} could not be reconciled, and is tried again"]
    monkeypatch.undo()
    bench.round(2)
    assert world.running("a") and bench.job("a")["drift"] is None


def test_a_composition_without_its_revision_is_logged_once_and_holds_up_no_other(
    bench: Bench, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bench.apply(A)
    name = composition(A).name
    operation, _ = user.apply(bench.coordinator, composition(B, name="other"))
    assert operation.wait(30)
    bench.close()
    with closing(Database(bench.store.directory)) as database:
        database.write([(kinds.REVISION.key(name, 1), None)])
    bench.move_to(bench.store.directory)
    world.crash("b")
    bench.round(2)
    assert world.running("b")
    logged = [each.getMessage() for each in caplog.records if "is left out" in each.getMessage()]
    reason = f"composition {name!r} has no revision 1 (see speck store check)"
    assert logged == [
        f"composition {name!r} is left out, and none of its jobs is observed or healed: {reason}"
    ]
    operation, _ = user.apply(bench.coordinator, composition(replace(B, trigger="1 second"), name="other"))
    assert operation.wait(30)
    assert (operation.state, [each.job.trigger for each in world.running("b")]) == ("succeeded", ["1 second"])
    bench.services.adaptation.round()


def test_the_failure_of_a_job_that_is_accepted_during_a_round_is_remembered(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.apply(A)
    observer = bench.coordinator.observer
    poll = observer.poll

    def slow(deployed: Sequence[Deployment]) -> Observation:
        found = poll(deployed)
        world.fail("submit", Rejected("no such class", address=ENGINE), name="b")
        once = composition(replace(B, restart="never"), name="other")
        operation, _ = user.apply(bench.coordinator, once)
        assert operation.wait(30)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(observer, "poll", slow)
        bench.round()
    assert "no such class" in (bench.coordinator.backoff.suspended("b") or "")
    bench.round(3)
    assert world.running("b") == []


def test_a_reader_waits_for_a_silent_writer_that_may_be_put_back_yet(bench: Bench, world: World) -> None:
    writer = replace(A, spe_address=OTHER)
    switched = replace(writer, sink_topic="x1")
    bench.apply(writer, B)
    bench.apply(switched, B)
    world.fail("check", Unreachable("no route", address=ENGINE), name="b", times=None)
    assert bench.apply(switched, replace(B, source_topic="x1")).state == "waiting"
    world.heal()
    record = bench.store.job("a")
    assert record is not None
    with bench.store.transaction() as transaction:  # as if its start had not been observed to its end
        transaction.put_job(replace(record, rollback_revision=1))
    world.down(OTHER)
    bench.round()
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    assert bench.job("b")["waits"] == "waits for job 'a', which is not running yet"
    world.up(OTHER)
    bench.round(2)
    assert [each.job.source_topic for each in world.running("b")] == ["x1"]
    confirmed = bench.store.job("a")
    assert confirmed is not None and confirmed.rollback_revision == 0


def test_what_an_engine_lost_is_missed_twice_before_it_is_started_again(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    world.restart(ENGINE)
    bench.round()
    assert (bench.job("a")["drift"], bench.job("a")["waits"]) == ("missing", "waits for a second observation")
    assert world.running() == []
    bench.round()
    assert [each.attempt.state is not None for each in world.running()] == [True, True]
    bench.round()
    assert sorted(bench.reported()) == [("drift", "a"), ("drift", "b"), ("healed", "a"), ("healed", "b")]


def test_a_foreign_job_of_our_name_is_told_and_not_touched(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.intrude(ENGINE, A, copy_of(A, world), foreign=True)
    bench.round(3)
    assert len(world.running("a")) == 2
    assert bench.job("a")["drift"] == "foreign job of this name"
    assert (bench.reported(), bench.heals()) == ([("drift", "a")], 0)


def test_other_code_than_asked_for_is_named(bench: Bench, world: World) -> None:
    bench.apply(A)
    (running,) = world.running("a")
    running.job = replace(A, code_hash=code_hash("other.py"))
    bench.round(2)
    assert bench.job("a")["drift"] == "running old code"
    assert code_hash("other.py")[:12] in str(bench.job("a")["drift_message"])
    assert bench.reported() == [("drift", "a")]


def test_what_was_not_started_is(bench: Bench, world: World) -> None:
    world.fail("submit", Rejected("quota exceeded", address=ENGINE), name="a")
    assert bench.apply(A).state == "failed"
    bench.round(1, seconds=1)
    assert (bench.job("a")["state"], bench.job("a")["drift"]) == ("failed", "not started")
    assert bench.job("a")["next_try"] == bench.clock.now - 1 + WAITS
    bench.round(2)
    assert len(world.running("a")) == 1
    assert bench.reported() == [("drift", "a"), ("healed", "a")]


def see_readers(bench: Bench) -> None:
    """Have each job's reader seen, which is looked for once."""
    bench.round()
    bench.services.queries.readers.await_answers()


def test_nothing_is_done_while_all_is_as_wanted(bench: Bench, world: World) -> None:
    bench.apply(A, B, C)
    see_readers(bench)
    before, calls = world.changes(), len(world.calls)
    bench.round(5)
    assert world.changes() == before
    assert [call[:2] for call in world.calls[calls:]] == [("statuses", ENGINE), ("running", ENGINE)] * 5
    assert (bench.reported(), bench.heals()) == ([], 0)


# --- policy and back-off


def test_never_only_tells(bench: Bench, world: World) -> None:
    bench.apply(replace(A, restart="never"), B)
    world.crash("a")
    bench.round(5)
    assert sorted(world.where()) == ["b"]
    job = bench.job("a")
    assert (job["state"], job["drift"], job["waits"], job["next_try"]) == ("failed", "died", NEVER, None)
    assert bench.reported() == [("drift", "a")]
    bench.apply(replace(A, restart="never"), B)
    assert sorted(world.where()) == ["a", "b"]


def test_who_keeps_dying_waits_longer_each_time(bench: Bench, world: World) -> None:
    bench.apply(A)
    started = []
    for second in range(120):
        for _ in world.running("a"):
            started.append(second)
            world.crash("a", "no such street")
        bench.round(1, seconds=1)
        assert bench.job("a")["drift"] in ("died", None)
    assert started[:2] == [0, 1]  # the first healing is at once
    assert [later - sooner for sooner, later in pairwise(started[1:])] == [10, 20, 40]
    job = bench.job("a")
    assert (job["state"], job["message"], job["waits"]) == (
        "failed",
        "no such street",
        "waits for its next attempt",
    )
    assert job["next_try"] == pytest.approx(1_000_000 + started[-1] + 80, abs=1)


def test_back_off_begins_anew_after_running_well(bench: Bench, world: World) -> None:
    bench.apply(A)
    for _ in range(2):
        world.crash("a")
        bench.round(1)
        bench.round(int(WELL / 10) + 2)
    assert bench.heals() == 2
    assert bench.coordinator.backoff.next_try("a") is None


def test_an_apply_tries_at_once_what_waits_for_its_next_try(bench: Bench, world: World) -> None:
    bench.apply(A)
    for _ in range(3):
        world.crash("a")
        bench.round(1, seconds=1)
    assert world.running("a") == []
    assert bench.apply(A).state == "succeeded"
    assert len(world.running("a")) == 1
    world.crash("a")
    bench.round(1, seconds=1)
    assert len(world.running("a")) == 1  # and what was tried before counts no more


def test_waits_double_up_to_a_bound() -> None:
    waits = [exponential(tries) for tries in range(1, 12)]
    for tries, seconds in enumerate(waits):
        least = min(FIRST * 2**tries, LONGEST)
        assert least <= seconds <= min(least + JITTER, LONGEST)
    assert len({exponential(1) for _ in range(20)}) > 1  # by chance, so that not all come at once


def test_an_update_that_was_refused_is_not_tried_again_by_itself(bench: Bench, world: World) -> None:
    bench.apply(A)
    other = replace(A, job_path="other.py", code_hash=code_hash("other.py"))
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="a")
    assert bench.apply(other).state == "failed"
    before = world.changes()
    bench.round(20, seconds=60)
    assert world.changes() == before  # the copy that was put back runs on undisturbed
    assert bench.job("a")["drift"] == "not updated"
    assert "NameError" in str(bench.job("a")["waits"])
    assert bench.job("a")["next_try"] is None
    assert bench.apply(other).state == "succeeded"
    bench.round()
    assert bench.job("a")["drift"] is None


def test_a_copy_that_dies_after_its_update_was_refused_is_healed(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="a")
    bench.apply(replace(A, job_path="other.py", code_hash=code_hash("other.py")))
    world.crash("a")
    bench.round()
    assert [each.job.code_hash for each in world.running("a")] == [code_hash("other.py")]
    [heal] = [each for each in bench.store.operations() if each["kind"] == "heal"]
    assert "may be delivered twice" in heal["actions"][0]["consequence"]


def test_never_does_not_try_again_what_was_refused(bench: Bench, world: World) -> None:
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="a")
    bench.apply(replace(A, restart="never"))
    before = len(world.changes())
    bench.round(10, seconds=60)
    assert len(world.changes()) == before
    assert "NameError" in str(bench.job("a")["waits"])


def test_no_room_is_waited_for(bench: Bench, world: World) -> None:
    world.fail("check", NoCapacity("no slot is free", address=ENGINE), name="a", times=2)
    operation = bench.apply(A)
    assert (operation.state, operation.actions["a"].state) == ("waiting", "waiting")
    bench.round(4)
    assert len(world.running("a")) == 1


# --- sites out of reach


def test_an_unreachable_site_is_unknown_and_started_nowhere_else(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    world.down(ENGINE)
    bench.round(5)
    assert bench.job("a")["state"] == "unknown"
    assert (world.where(), bench.reported(), bench.heals()) == ({"a": ENGINE, "b": ENGINE}, [], 0)
    world.up(ENGINE)
    bench.round()
    assert bench.job("a")["state"] == "running"
    assert len(world.changes()) == 2


def test_what_was_asked_for_while_a_site_was_away_is_done_on_its_return(bench: Bench, world: World) -> None:
    here, gone = make_job("here", "p", "q"), replace(B, spe_address=OTHER)
    bench.apply(replace(A, spe_address=OTHER), gone, here)
    world.down(OTHER)
    moved, new = replace(A, spe_address=ENGINE), make_job("new", "x", "y", spe_address=OTHER)
    operation = bench.apply(moved, new, replace(here, trigger="1 second"))
    assert {name: each.state for name, each in operation.actions.items()} == {
        "a": "waiting",
        "b": "waiting",
        "here": "done",
        "new": "waiting",
    }
    assert operation.state == "waiting"
    bench.round(6)
    assert world.where() == {"a": OTHER, "b": OTHER, "here": ENGINE}
    assert bench.heals() == 0
    for name in ("a", "b", "new"):
        assert str(bench.job(name)["waits"]).startswith(f"waits for {OTHER}: ")
    world.up(OTHER)
    bench.round(2)
    assert world.where() == {"a": ENGINE, "here": ENGINE, "new": OTHER}
    assert sorted(each["job_name"] for each in bench.queries.jobs()) == ["a", "here", "new"]


def test_a_broker_out_of_reach_is_waited_for(bench: Bench, world: World) -> None:
    far = make_job("far", "x", "y", sink_broker=FAR)
    world.down(FAR)
    assert bench.apply(A, far).state == "waiting"
    bench.round(3)
    assert str(bench.job("far")["waits"]).startswith(f"waits for {FAR}: ")
    world.up(FAR)
    bench.round()
    assert sorted(world.where()) == ["a", "far"]


def test_a_session_that_a_change_could_not_delete_is_deleted_later(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    world.fail("delete_session", Unreachable("cut off", address=BROKER), name=named("b"), times=2)
    rewired = bench.apply(replace(A, sink_topic="x1"), replace(B, source_topic="x1"))
    assert (rewired.state, rewired.actions["b"].state) == ("waiting", "waiting")
    world.broker(BROKER).backlog[named("b")] = 7  # from a writer outside of the composition
    bench.round(3)
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b", 2): "x1"}
    assert (bench.heals(), bench.reported()) == (2, [])
    world.crash("b")
    world.fail("submit", Rejected("no room", address=ENGINE), name="b")
    bench.round(3)
    assert [each.job.source_topic for each in world.running("b")] == ["x1"]


def test_a_job_that_waits_to_be_confirmed_is_confirmed_by_the_loop(bench: Bench, world: World) -> None:
    bench.apply(A)
    bench.apply(replace(A, trigger="1 second"))
    record = bench.store.job("a")
    assert record is not None
    with bench.store.transaction() as transaction:  # as if its engine had not responded when it was observed
        transaction.put_job(replace(record, rollback_revision=1))
    bench.round(3)
    assert (bench.store.job("a"), bench.heals()) == (record, 1)


def test_a_deletion_is_carried_to_its_end(bench: Bench, world: World) -> None:
    bench.apply(A, replace(B, spe_address=OTHER))
    world.down(OTHER)
    operation = user.delete_composition(bench.coordinator, "traffic")
    assert operation.wait(30)
    assert operation.state == "waiting"
    bench.round(3)
    assert (bench.job("b")["wanted"], bench.job("b")["drift"]) == ("stopped", "not stopped")
    bench.restart()
    world.up(OTHER)
    bench.round()
    assert (bench.queries.compositions(), bench.queries.jobs(), world.running()) == (
        [],
        [],
        [],
    )
    assert world.broker(BROKER).sessions == {}


def test_a_writer_waits_while_its_reader_has_no_session(bench: Bench, world: World) -> None:
    reader = replace(B, sink_broker=FAR)
    world.down(FAR)
    world.down(ENGINE)
    bench.apply(A, reader)
    world.up(ENGINE)
    bench.round(3)
    assert world.running() == []
    assert str(bench.job("a")["waits"]).startswith("waits for job 'b', which waits for tcp://b2:1883")
    world.up(FAR)
    bench.round()
    assert sorted(world.where()) == ["a", "b"]


def test_a_reader_stays_while_its_writer_that_leaves_it_waits(bench: Bench, world: World) -> None:
    writer = replace(A, spe_address=OTHER)
    bench.apply(writer, B)
    world.down(OTHER)
    bench.apply(replace(writer, sink_topic="elsewhere"), replace(B, source_topic="elsewhere"))
    bench.round(3)
    assert [each.job.source_topic for each in world.running("b")] == [B.source_topic]
    assert str(bench.job("b")["waits"]).startswith(f"waits for job 'a', which waits for {OTHER}")
    world.up(OTHER)
    bench.round(2)
    assert [each.job.source_topic for each in world.running("b")] == ["elsewhere"]
    assert [each.job.sink_topic for each in world.running("a")] == ["elsewhere"]


def test_a_writer_is_healed_while_its_reader_that_has_a_session_waits(bench: Bench, world: World) -> None:
    bench.apply(A, replace(B, spe_address=OTHER))
    world.crash("a")
    world.crash("b")
    bench.coordinator.backoff.record_attempt("b", bench.clock.now + 1000)
    bench.round()
    assert sorted(world.where()) == ["a"]


def test_one_job_of_which_nothing_is_known_is_not_dead(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    (running,) = world.running("a")
    world.silent_jobs.add(running.attempt.id)
    bench.round(4)
    assert bench.job("a")["state"] == "unknown"
    assert (bench.reported(), bench.heals(), len(world.running("a"))) == ([], 0, 1)


def test_an_outcome_that_is_not_known_is_settled(bench: Bench, world: World) -> None:
    error = OutcomeUnknown("timed out", address=ENGINE)
    world.fail("submit", error, name="a", times=None, after=True)
    world.fail("find", error, name="a", times=None)
    assert bench.apply(A).state == "waiting"
    world.heal()
    bench.round(2)
    assert len(world.running("a")) == 1
    assert [each.phase for each in bench.store.attempts("a")] == ["running"]
    assert bench.job("a")["state"] == "running"


def test_an_engine_that_does_not_answer_holds_up_nobody(bench: Bench, world: World) -> None:
    bench.coordinator.observer.patience = 0.2
    bench.apply(A, replace(B, spe_address=OTHER))
    hold, before = world.hold("statuses", address=OTHER), len(world.calls)
    world.crash("a")
    bench.round()
    assert bench.job("b")["state"] == "unknown"
    assert sorted(world.where()) == ["a", "b"]
    bench.round(2)
    asked = [call for call in world.calls[before:] if call[:2] == ("statuses", OTHER)]
    assert asked == [("statuses", OTHER, "")]
    hold.release()
    eventually(lambda: bench.round() or bench.job("b")["state"], lambda state: state == "running")


# --- users first


def test_an_apply_waits_for_a_healing_at_work(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    world.crash("a")
    hold = world.hold("submit", "a")
    bench.coordinator.reconciler.round()
    assert hold.reached.wait(30)
    done: list[Operation] = []
    thread = threading.Thread(target=lambda: done.append(bench.apply(A, B, C)))
    thread.start()
    eventually(lambda: bench.coordinator.operations._users["traffic"], lambda count: count == 1)
    assert thread.is_alive()
    hold.release()
    thread.join(30)
    assert [each.state for each in done] == ["succeeded"]
    assert sorted(world.where()) == ["a", "b", "c"]


def test_an_apply_is_refused_when_a_healing_takes_too_long(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.crash("a")
    hold = world.hold("submit", "a")
    bench.coordinator.reconciler.round()
    assert hold.reached.wait(30)
    operations = bench.coordinator.operations
    operations.settings = replace(operations.settings, heal_patience=0.1)
    with pytest.raises(Busy, match="heal"):
        user.apply(bench.coordinator, composition(A, B))
    hold.release()
    bench.finish()
    assert sorted(world.where()) == ["a"]


def test_nothing_is_healed_while_a_user_is_at_work(bench: Bench, world: World) -> None:
    bench.apply(A)
    hold = world.hold("submit", "b")
    operation, _ = user.apply(bench.coordinator, composition(A, B))
    assert hold.reached.wait(30)
    world.crash("a")
    bench.coordinator.reconciler.round()
    assert bench.heals() == 0
    hold.release()
    assert operation.wait(30)
    bench.round()
    assert sorted(world.where()) == ["a", "b"]


# --- restarts, and the thread


def test_after_a_restart_the_first_round_comes_at_once(tmp_path: Path, world: World) -> None:
    bench = Bench.begin(world, tmp_path)
    bench.apply(A)
    bench.close()
    world.crash("a")
    with Store(tmp_path / "store") as store:
        coordinator = build(
            store, double_kinds(world), settings=Settings(roots=(tmp_path,), period=3600)
        ).coordinator
        coordinator.start()
        eventually(lambda: len(world.running("a")), lambda count: count == 1)
        coordinator.close()


def test_a_healing_that_a_crash_broke_off_leaves_the_others_alone(bench: Bench, world: World) -> None:
    never = replace(C, restart="never")
    bench.apply(A, never)
    world.crash("a")
    world.crash("c")
    hold = world.hold("submit", "a")
    bench.coordinator.reconciler.round()
    assert hold.reached.wait(30)
    (heal,) = [each for each in bench.store.operations() if each["kind"] == "heal"]
    hold.release()
    bench.finish()
    with bench.store.transaction() as transaction:
        transaction.put_operation(heal["id"], heal | {"state": "running"})
    world.crash("a")
    bench.restart()
    bench.finish()
    assert world.running() == []  # what was tried just now is not tried again at once
    bench.round(2)
    assert sorted(world.where()) == ["a"]


def test_a_round_that_fails_is_not_the_last(
    bench: Bench, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bench.apply(A)
    world.fail("statuses", SpeckError("unheard of"), times=None)  # type: ignore[arg-type]
    bench.coordinator.reconciler.start(0.05)
    world.crash("a")
    eventually(lambda: world.counts()["statuses"], lambda count: count >= 2)
    world.heal()
    eventually(lambda: len(world.running("a")), lambda count: count == 1)


# --- many jobs


@pytest.mark.slow("a hundred jobs at four engines")
def test_many_jobs_are_one_question_an_engine(bench: Bench, world: World) -> None:
    jobs = [
        make_job(f"j{number}", f"in{number}", f"out{number}", spe_address=f"sc://e{number % 4}:1")
        for number in range(100)
    ]
    bench.apply(*jobs)
    see_readers(bench)
    before = len(world.calls)
    bench.round()
    calls = sorted(call[:2] for call in world.calls[before:])
    engines = [f"sc://e{number}:1" for number in range(4)]
    assert calls == [(method, each) for method in ("running", "statuses") for each in engines]
    world.crash("j7")
    bench.round()
    assert len(world.running("j7")) == 1
    assert bench.reported() == [("drift", "j7")]
