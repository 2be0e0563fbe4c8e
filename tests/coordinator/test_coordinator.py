"""The coordinator and the apply protocol, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.coordinator import Coordinator, Queries, Services, build
from speck.coordinator.planning import planner
from speck.core.attempt_number import HIGHEST
from speck.core.placement import Expects
from speck.core.settings import Settings
from speck.core.split import Place, Split, expand
from speck.errors import Busy, InvalidInput, NotFound, OutcomeUnknown, Rejected, StaleRevision
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import CODE, chain, code_hash, composition, make_job, write_code
from testbed.benches.sessions import named
from testbed.benches.user import carry_out
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, OTHER, BROKER = "sc://e1:1", "sc://e2:1", "tcp://b1:1883"
A, B, C = chain("a", "b", "c")


def outcome(operation: Operation) -> dict[str, tuple[str, str]]:
    return {name: (each.kind, each.state) for name, each in operation.actions.items()}


def test_first_apply_starts_every_job_once(coordinator: Coordinator, world: World) -> None:
    operation = carry_out(coordinator, composition(A, B, C))
    assert operation.state == "succeeded"
    assert world.where() == {"a": ENGINE, "b": ENGINE, "c": ENGINE}
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b"): "t1", named("c"): "t2"}
    assert world.broker(BROKER).fences == {named("a"): 1, named("b"): 1, named("c"): 1}
    assert operation.calls == {"check": 3, "submit": 3}


def test_same_composition_again_touches_nothing(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    before = world.changes()
    operation = carry_out(coordinator, composition(B, A))
    assert outcome(operation) == {"a": ("keep", "kept"), "b": ("keep", "kept")}
    assert world.changes() == before
    assert [each["number"] for each in queries.revisions("traffic")] == [1]


def test_update_move_stop_and_start_touch_only_what_changed(coordinator: Coordinator, world: World) -> None:
    moved = make_job("m", "x", "y")
    carry_out(coordinator, composition(A, B, C, moved))
    before = len(world.changes())
    edited = composition(
        A, replace(B, trigger="1 second"), replace(moved, spe_address=OTHER), make_job("n", "p", "q")
    )
    operation = carry_out(coordinator, edited)
    assert outcome(operation) == {
        "a": ("keep", "kept"),
        "b": ("update", "done"),
        "c": ("stop", "done"),
        "m": ("move", "done"),
        "n": ("start", "done"),
    }
    assert world.where() == {"a": ENGINE, "b": ENGINE, "m": OTHER, "n": ENGINE}
    assert sorted(world.changes()[before:]) == [
        ("stop", ENGINE, "b"),
        ("stop", ENGINE, "c"),
        ("stop", ENGINE, "m"),
        ("submit", ENGINE, "b"),
        ("submit", ENGINE, "n"),
        ("submit", OTHER, "m"),
    ]
    assert sorted(world.broker(BROKER).sessions) == [named("a"), named("b"), named("m"), named("n")]


def test_state_is_carried_unless_stateless(coordinator: Coordinator, world: World) -> None:
    fresh = make_job("f", "x", "y", upgrade="stateless")
    carry_out(coordinator, composition(A, fresh))
    carry_out(coordinator, composition(replace(A, trigger="1 second"), replace(fresh, trigger="1 second")))
    (retained,), (renewed,) = world.running("a"), world.running("f")
    assert retained.attempt.number == 2
    assert retained.attempt.state is not None
    assert renewed.attempt.state is None


def test_labels_and_policies_touch_no_engine_and_are_kept(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A))
    before = world.changes()
    noted = composition(replace(A, labels={"team": "roads"}, restart="never"))
    assert carry_out(coordinator, noted).state == "succeeded"
    assert world.changes() == before
    assert queries.job("a")["job"]["labels"] == {"team": "roads"}
    assert queries.job("a")["up_to_date"]
    assert user.plan(coordinator, noted).changes == ()


def test_where_a_job_may_run_touches_no_engine_and_is_kept(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A))
    before = world.changes()
    movable = replace(
        A,
        sites=("any",),
        placed=("spe_address", "sink_broker"),
        with_job="b",
        apart=("c",),
        expects=Expects(rate=500.0),
    )
    assert carry_out(coordinator, composition(movable)).state == "succeeded"
    assert world.changes() == before
    stored = queries.job("a")["job"]
    assert stored["sites"] == ["any"]
    assert (stored["with"], stored["apart"], stored["expects"]) == ("b", ["c"], {"rate": 500.0})
    assert user.plan(coordinator, composition(movable)).changes == ()


def test_a_job_without_a_site_is_never_planned(coordinator: Coordinator, world: World) -> None:
    nowhere = replace(B, sites=("A", "D"), placed=("spe_address",), spe_address="")
    for change in (user.plan, user.apply):
        with pytest.raises(
            InvalidInput, match=r"job 'b': no site can run it: A is not a site of this inventory; D is no"
        ):
            change(coordinator, composition(A, nowhere))
    assert world.changes() == []


def test_a_channel_carries_messages_of_one_composition(coordinator: Coordinator, world: World) -> None:
    """Two compositions may have free topics of one name, but not at one broker."""
    free = ("spe_address", "source_broker", "sink_broker")
    writer = replace(make_job("w", "in", "clean"), sites=("any",), placed=free[::2])
    reader = replace(make_job("r", "clean", "out"), sites=("any",), placed=free)
    carry_out(coordinator, composition(writer, reader))
    other = make_job("other", "in", "clean")
    for job in (replace(other, sites=("any",), placed=free[::2]), other):
        with pytest.raises(
            InvalidInput, match=r"job 'other': sink_topic 'clean' at tcp://b1:1883 is placed by"
        ):
            user.plan(coordinator, composition(job, name="second"))
    with pytest.raises(
        InvalidInput, match=r"topic of job 'w' of composition 'traffic' there \(expected another"
    ):
        user.plan(coordinator, composition(replace(reader, job_name="second", sink_topic="z"), name="second"))
    away = replace(other, sink_broker="tcp://b2:1883", sites=("any",), placed=free[::2])
    tap = make_job("tap", "clean", "copy")
    carry_out(coordinator, composition(away, tap, name="second"))
    assert user.plan(coordinator, composition(writer, reader)).changes == ()


def test_new_source_is_a_new_session_and_the_old_one_is_deleted(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(A))
    carry_out(coordinator, composition(replace(A, source_topic="elsewhere")))
    assert world.broker(BROKER).sessions == {named("a", 2): "elsewhere"}
    assert [each.attempt.session for each in world.running()] == [named("a", 2)]
    carry_out(coordinator, composition(replace(A, source_broker="tcp://b2:1883")))
    assert world.broker(BROKER).sessions == {}
    assert world.broker("tcp://b2:1883").sessions == {named("a", 3): "t0"}


def test_every_session_stands_before_its_writer_starts(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B, C))
    calls = [(method, name) for method, _, name in world.calls]
    assert calls.index(("ensure_session", named("b"))) < calls.index(("submit", "a"))
    assert calls.index(("ensure_session", named("c"))) < calls.index(("submit", "b"))


def test_writer_does_not_start_when_its_reader_has_no_session(coordinator: Coordinator, world: World) -> None:
    alone = make_job("alone", "p", "q")
    world.fail("ensure_session", Rejected("quota exceeded", address=BROKER), name=named("b"), times=None)
    operation = carry_out(coordinator, composition(A, B, C, alone))
    assert operation.state == "failed"
    assert outcome(operation) == {
        "a": ("start", "skipped"),
        "alone": ("start", "done"),
        "b": ("start", "failed"),
        "c": ("start", "done"),
    }
    assert operation.actions["b"].error == "job 'b' at sc://e1:1: quota exceeded"
    assert operation.actions["a"].error == "depends on job 'b', which failed: quota exceeded"
    world.heal()
    assert carry_out(coordinator, composition(A, B, C, alone)).state == "succeeded"
    assert len(world.running()) == 4


def test_reader_goes_only_after_its_writer_was_switched(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    switched = replace(A, sink_topic="elsewhere")
    world.fail("submit", Rejected("no such topic", address=ENGINE), name="a")
    operation = carry_out(coordinator, composition(switched))
    assert outcome(operation) == {"a": ("update", "failed"), "b": ("stop", "skipped")}
    assert sorted(world.where()) == ["a", "b"]


def test_broker_that_is_down_fails_only_who_needs_it(coordinator: Coordinator, world: World) -> None:
    elsewhere = make_job("far", "x", "y", sink_broker="tcp://b2:1883")
    world.down("tcp://b2:1883")
    operation = carry_out(coordinator, composition(A, elsewhere))
    assert outcome(operation) == {"a": ("start", "done"), "far": ("start", "waiting")}
    assert "tcp://b2:1883 cannot be reached" in operation.actions["far"].error


def test_job_whose_broker_never_answered_can_be_deleted(coordinator: Coordinator, world: World) -> None:
    world.down(BROKER)
    assert carry_out(coordinator, composition(A)).state == "waiting"
    operation = user.delete_composition(coordinator, composition(A).name)
    assert operation.wait(30)
    assert outcome(operation) == {"a": ("stop", "done")}
    assert coordinator.store.job("a") is None


def test_update_that_fails_puts_the_old_version_back(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A))
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="a")
    other = {"job_path": "other.py", "code_hash": code_hash("other.py"), "source_topic": "other"}
    changed = composition(replace(A, **other))
    operation = carry_out(coordinator, changed)
    assert operation.actions["a"].error == (
        "job 'a' at sc://e1:1: NameError in jobs.py:3; the previous version was restored and runs"
    )
    (running,) = world.running("a")
    assert (running.job.code_hash, running.attempt.session) == (A.code_hash, named("a"))
    assert running.attempt.state is not None
    # What is written to the new source meanwhile is kept: it is wanted still.
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("a", 2): "other"}
    assert [each.job.job_name for each in user.plan(coordinator, changed).changes] == ["a"]
    assert carry_out(coordinator, changed).state == "succeeded"
    assert world.broker(BROKER).sessions == {named("a", 2): "other"}


def test_move_asks_the_new_engine_before_it_stops_the_old_copy(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(A))
    world.down(OTHER)
    operation = carry_out(coordinator, composition(replace(A, spe_address=OTHER)))
    assert "sc://e2:1 cannot be reached" in operation.actions["a"].error
    assert [call for call in world.changes() if call[0] == "stop"] == []
    assert world.where() == {"a": ENGINE}


def test_lost_answer_to_a_submit_starts_nothing_twice(coordinator: Coordinator, world: World) -> None:
    world.fail("submit", OutcomeUnknown("timed out", address=ENGINE), name="a", after=True)
    assert carry_out(coordinator, composition(A)).state == "succeeded"
    assert len(world.running("a")) == 1


def test_unknown_outcome_is_settled_by_the_next_apply(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    world.fail("submit", OutcomeUnknown("timed out", address=ENGINE), name="a", times=None, after=True)
    world.fail("find", OutcomeUnknown("timed out", address=ENGINE), name="a", times=None)
    operation = carry_out(coordinator, composition(A))
    assert "it may or may not have started" in operation.actions["a"].error
    assert queries.job("a")["state"] == "starting"
    world.heal()
    submits = world.counts()["submit"]
    assert carry_out(coordinator, composition(A)).state == "succeeded"
    assert len(world.running("a")) == 1
    assert world.counts()["submit"] == submits


def test_a_stateful_job_does_not_go_to_another_kind_of_engine(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A))
    before = world.changes()
    moved = replace(A, engine="flink", spe_address="http://e3:1/")
    for refused in (user.plan, user.apply):
        with pytest.raises(InvalidInput, match=r"engine .flink. cannot read .* on .spark. .*stateless"):
            refused(coordinator, composition(moved))
    assert world.changes() == before
    assert queries.job("a")["up_to_date"]


def test_a_stateless_job_goes_to_another_kind_of_engine_and_back(
    coordinator: Coordinator, world: World
) -> None:
    here = replace(A, upgrade="stateless")
    there = replace(here, engine="flink", spe_address="http://e3:1/", entry_class="Forward")
    carry_out(coordinator, composition(A))
    for desired, address in ((there, "http://e3:1/"), (here, ENGINE)):
        assert outcome(carry_out(coordinator, composition(desired))) == {"a": ("move", "done")}
        assert world.where() == {"a": address}
    assert world.running("a")[0].attempt.state is None
    # A stateful job goes on from its own state, not from that of before the way out.
    began = world.running("a")[0].attempt.id
    carry_out(coordinator, composition(replace(A, arguments={"n": 1})))
    (running,) = world.running("a")
    assert running.attempt.state is not None
    assert began in running.attempt.state.location


def test_job_lost_by_its_engine_is_started_again_from_its_state(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    world.restart(ENGINE)
    plan = user.plan(coordinator, composition(A, B))
    assert [each.reason for each in plan.changes] == ["is lost at sc://e1:1"] * 2
    assert carry_out(coordinator, composition(A, B)).state == "succeeded"
    assert [each.attempt.state is not None for each in world.running()] == [True, True]


def test_engine_that_is_down_is_unknown_and_nothing_is_started_elsewhere(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A))
    world.down(ENGINE)
    plan = user.plan(coordinator, composition(A))
    assert plan.changes == ()
    assert "does not answer" in plan.actions[0].reason
    assert queries.job("a")["state"] == "unknown"


def test_restart_in_the_midst_of_a_first_deployment(begin: Callable[[], Services], world: World) -> None:
    coordinator = begin().coordinator
    hold = world.hold("submit", "b")
    operation, _ = user.apply(coordinator, composition(A, B, C))
    assert hold.reached.wait(30)
    assert [each["state"] for each in coordinator.store.operations()] == ["running"]
    attempts = {each.attempt.job_name: each.phase for each in coordinator.store.attempts()}
    assert attempts["b"] == "intended"
    hold.release()
    assert operation.wait(30)
    assert begin().coordinator.operations.data(operation.id)["state"] == "succeeded"


@pytest.mark.parametrize("heard", [True, False], ids=["engine heard of it", "engine never heard of it"])
def test_intended_attempt_of_a_dead_coordinator_is_settled(
    begin: Callable[[], Services], world: World, heard: bool
) -> None:
    """The store is as a SIGKILL during a submit leaves it."""
    coordinator = begin().coordinator
    error = OutcomeUnknown("killed", address=ENGINE)
    world.fail("submit", error, name="a", times=None, after=heard)
    world.fail("find", error, name="a", times=None)
    operation, _ = user.apply(coordinator, composition(A))
    assert operation.wait(30)
    submits = world.counts()["submit"]
    stored = coordinator.store.operation(operation.id)
    assert stored is not None
    with coordinator.store.transaction() as transaction:
        transaction.put_operation(operation.id, stored | {"state": "running"})
    resumed = begin().coordinator.operations.live(operation.id)
    assert resumed is not None
    assert resumed.wait(30)
    assert resumed.state == "succeeded"
    assert len(world.running("a")) == 1
    assert world.counts()["submit"] - submits == (0 if heard else 1)


def test_stale_base_revision_is_refused(coordinator: Coordinator) -> None:
    carry_out(coordinator, composition(A))
    with pytest.raises(StaleRevision, match="base_revision 0 is stale, the last revision is 1"):
        user.apply(coordinator, composition(A, B), base_revision=0)
    user.apply(coordinator, composition(A, B), base_revision=1)


def test_second_apply_to_one_composition_is_refused_while_another_works(
    coordinator: Coordinator, world: World
) -> None:
    hold = world.hold("submit")
    operation, _ = user.apply(coordinator, composition(A))
    assert hold.reached.wait(30)
    with pytest.raises(Busy, match=operation.id):
        user.apply(coordinator, composition(A, B))
    other, _ = user.apply(coordinator, composition(make_job("z", "p", "q"), name="other"))
    hold.release()
    assert operation.wait(30)
    assert other.wait(30)
    assert sorted(world.where()) == ["a", "z"]


def test_job_name_of_another_composition_is_refused(coordinator: Coordinator) -> None:
    carry_out(coordinator, composition(A))
    with pytest.raises(InvalidInput, match="'a' is already a job of composition 'traffic'") as caught:
        user.plan(coordinator, composition(make_job("a", "p", "q"), name="other"))
    (fault,) = caught.value.faults
    assert "to change that composition, give this one its name: 'name: traffic'" in fault.message


def test_delete_stops_everything_and_forgets_it(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, B, C))
    operation = user.delete_composition(coordinator, "traffic")
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert world.running() == []
    assert world.broker(BROKER).sessions == {}
    assert queries.compositions() == []
    assert queries.jobs() == []
    with pytest.raises(NotFound):
        queries.composition("traffic")
    assert carry_out(coordinator, composition(A)).state == "succeeded"


def test_delete_with_an_engine_down_keeps_what_is_not_stopped(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, replace(B, spe_address=OTHER)))
    world.down(OTHER)
    operation = user.delete_composition(coordinator, "traffic")
    assert operation.wait(30)
    assert outcome(operation) == {"a": ("stop", "done"), "b": ("stop", "waiting")}
    assert operation.state == "waiting"
    assert [(each["job_name"], each["wanted"]) for each in queries.jobs()] == [("b", "stopped")]
    world.up(OTHER)
    again = user.delete_composition(coordinator, "traffic")
    assert again.wait(30)
    assert (queries.compositions(), world.running()) == ([], [])


def test_single_jobs_join_and_leave_a_composition(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    for job in (A, B):
        operation, _ = user.apply_job(coordinator, job, "jobs")
        assert operation.wait(30)
    assert sorted(world.where()) == ["a", "b"]
    assert user.delete_job(coordinator, "a").wait(30)
    assert sorted(world.where()) == ["b"]
    with pytest.raises(NotFound, match="there is no job 'a'"):
        queries.job("a")


def test_a_request_on_a_job_that_leaves_its_composition_meanwhile_is_refused(
    coordinator: Coordinator, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.apply_job(coordinator, A, "jobs")[0].wait(30)
    exclusive, waited = Operations.exclusive, list[str]()

    def slow(operations: Operations, name: str, *kind: str) -> AbstractContextManager[None]:
        waited.append(name)
        if len(waited) == 1:  # of the deletion: others come first
            assert user.delete_job(coordinator, "a").wait(30)
            assert user.apply_job(coordinator, A, "others")[0].wait(30)
        return exclusive(operations, name, *kind)

    monkeypatch.setattr(Operations, "exclusive", slow)
    with pytest.raises(Busy, match="its job was moved to composition 'others' meanwhile"):
        user.delete_job(coordinator, "a")
    assert waited == ["jobs", "jobs", "others"]
    assert sorted(world.where()) == ["a"]


def test_single_jobs_form_no_cycle(coordinator: Coordinator, world: World) -> None:
    operation, _ = user.apply_job(coordinator, make_job("p", "t0", "t1"), "jobs")
    assert operation.wait(30)
    with pytest.raises(InvalidInput, match="the jobs form a cycle through their topics: p -> q -> p"):
        user.apply_job(coordinator, make_job("q", "t1", "t0"), "jobs")
    assert sorted(world.where()) == ["p"]


def test_a_cycle_of_an_earlier_version_may_stay_and_be_reduced(
    coordinator: Coordinator, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, back = make_job("p", "t0", "t1"), make_job("q", "t1", "t0")
    with monkeypatch.context() as earlier:
        earlier.setattr(planner, "refused_cycles", lambda *_: [])
        carry_out(coordinator, composition(there, back))
    carry_out(coordinator, composition(there, back, make_job("k", "t5", "t6")))
    assert sorted(world.where()) == ["k", "p", "q"]
    assert user.delete_job(coordinator, "q").wait(30)
    assert sorted(world.where()) == ["k", "p"]


def test_a_part_of_a_split_is_not_deleted_by_itself(coordinator: Coordinator, world: World) -> None:
    places = Place(spe_address="sc://e1:1"), Place(spe_address="sc://e2:1")
    split = Split(combiners=places, partitioner="shuffle", window_us=60_000_000, slide_us=60_000_000)
    carry_out(coordinator, composition(*expand(make_job("hot"), split), A))
    with pytest.raises(InvalidInput, match=r"'hot.combiner-1': is one of the jobs of the key_split of 'hot'"):
        user.delete_job(coordinator, "hot.combiner-1")
    assert len(world.where()) == 5
    carry_out(coordinator, composition(A))
    assert sorted(world.where()) == ["a"]


def test_actions_on_one_engine_are_bounded(tmp_path: Path, world: World) -> None:
    with Store(tmp_path / "bounded") as store:
        coordinator = build(
            store, double_kinds(world, bound=2), settings=Settings(roots=(write_code(tmp_path),), period=0)
        ).coordinator
        hold = world.hold("submit")
        jobs = [make_job(f"j{number}", f"in{number}", f"out{number}") for number in range(6)]
        operation, _ = user.apply(coordinator, composition(*jobs))
        assert hold.reached.wait(30)
        assert world.counts()["submit"] <= 2
        hold.release()
        assert operation.wait(30)
        coordinator.close()
    assert len(world.running()) == 6


def test_hanging_starts_of_one_composition_hold_up_no_other(tmp_path: Path, world: World) -> None:
    with Store(tmp_path / "shared") as store:
        coordinator = build(
            store, double_kinds(world, bound=2), settings=Settings(roots=(write_code(tmp_path),), period=0)
        ).coordinator
        jobs = [make_job(f"j{number}", f"in{number}", f"out{number}") for number in range(6)]
        holds = [world.hold("submit", each.job_name) for each in jobs]
        stuck, _ = user.apply(coordinator, composition(*jobs, name="stuck"))
        assert any(hold.reached.wait(5) for hold in holds)
        other, _ = user.apply(coordinator, composition(make_job("b", "t", "u"), name="other"))
        ended = other.wait(20)
        state = stuck.state
        for hold in holds:
            hold.release()
        assert (ended, other.state, state) == (True, "succeeded", "running")
        assert stuck.wait(30)
        coordinator.close()


def test_jobs_run_the_code_that_was_accepted(coordinator: Coordinator, world: World, tmp_path: Path) -> None:
    carry_out(coordinator, composition(A))
    (tmp_path / "jobs.py").write_text("changed, and not applied")
    world.restart(ENGINE)
    carry_out(coordinator, composition(A))
    (running,) = world.running("a")
    assert Path(running.job.job_path).read_text() == CODE["jobs.py"]
    assert Path(running.job.job_path).name == "jobs.py"
    with pytest.raises(InvalidInput, match="was changed while it was being read"):
        user.apply(coordinator, composition(replace(A, code_hash="00" * 32)))
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert Path(running.job.job_path).exists()  # a rollback brings the composition back


def test_audit_log_tells_what_was_done(coordinator: Coordinator, queries: Queries) -> None:
    carry_out(coordinator, composition(A))
    carry_out(coordinator, composition())
    assert [(each["kind"], each["job"]) for each in queries.events()] == [
        ("accepted", ""),
        ("intended", "a"),
        ("started", "a"),
        ("succeeded", ""),
        ("accepted", ""),
        ("intended", "a"),
        ("stopped", "a"),
        ("succeeded", ""),
    ]


def test_what_is_asked_for_of_no_composition_leaves_nothing_in_memory(coordinator: Coordinator) -> None:
    for number in range(20):
        with pytest.raises(NotFound):
            user.rollback(coordinator, f"none-{number}")
        with pytest.raises(NotFound):
            user.delete_composition(coordinator, f"none-{number}")
    assert not coordinator.operations._planning
    assert not coordinator.operations._users


def test_what_was_started_is_seen_at_once(coordinator: Coordinator, queries: Queries) -> None:
    assert carry_out(coordinator, composition(A, B)).state == "succeeded"
    assert {job["job_name"]: job["state"] for job in queries.jobs()} == {
        "a": "running",
        "b": "running",
    }


def test_a_number_is_above_those_that_an_agent_has_ended(coordinator: Coordinator, world: World) -> None:
    """As of a job of this name that was deleted and had another session."""
    world.ended_numbers["a"] = 7
    carry_out(coordinator, composition(A, B))
    assert world.broker(BROKER).fences == {named("a"): 8, named("b"): 1}


def test_a_number_that_an_agent_invents_does_not_stay_with_the_job(
    coordinator: Coordinator, world: World
) -> None:
    world.ended_numbers["a"] = HIGHEST - 1
    operation = carry_out(coordinator, composition(A))
    assert "names attempt 999999999999999 of it as ended" in operation.actions["a"].error
    world.ended_numbers.clear()  # as at an engine of another site
    assert carry_out(coordinator, composition(A)).state == "succeeded"
    assert world.broker(BROKER).fences == {named("a"): 1}
