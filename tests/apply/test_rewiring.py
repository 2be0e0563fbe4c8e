"""The order in which a plan that changes the topics between jobs is carried out, over the doubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply import draining
from speck.apply.operation import Operation
from speck.coordinator import Coordinator, build
from speck.core.job import Job
from speck.core.plan import plan_data
from speck.core.runtime import JobState
from speck.core.settings import Settings
from speck.core.split import Place, Split, expand
from speck.errors import InvalidInput, OutcomeUnknown, Rejected
from speck.store import Store, auditlog
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job, write_code
from testbed.benches.sessions import named
from testbed.benches.user import carry_out
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, BROKER = "sc://e1:1", "tcp://b1:1883"
A, B, C = chain("a", "b", "c")

A_ELSEWHERE = replace(A, sink_topic="x1")
B_ELSEWHERE = replace(B, source_topic="x1")


Begin = Callable[..., Coordinator]


@pytest.fixture
def begin(tmp_path: Path, world: World) -> Iterator[Begin]:
    """Starts a coordinator on the one store; a former one is closed."""
    with ExitStack() as last:

        def start(drain: float = 30.0, startup: float = 0.0) -> Coordinator:
            last.close()
            store = last.enter_context(Store(tmp_path / "store"))
            kinds = double_kinds(world, startup=startup)
            made = build(
                store, kinds, settings=Settings(roots=(write_code(tmp_path),), period=0, drain=drain)
            ).coordinator
            last.callback(made.close)
            made.start()
            return made

        yield start


def states(operation: Operation) -> dict[str, str]:
    return {name: each.state for name, each in operation.actions.items()}


def order(world: World, *desired: tuple[str, str]) -> list[tuple[str, str]]:
    """The calls of these kinds, in the order in which they came last."""
    calls = [(method, name) for method, _, name in world.calls]
    last = {call: number for number, call in enumerate(calls) if call in desired}
    return sorted(last, key=lambda call: last[call])


def test_reader_drains_after_its_writer_was_switched_and_before_it_stops(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B, C))
    world.calls.clear()
    assert carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE, C)).state == "succeeded"
    desired = [
        ("ensure_session", named("b", 2)),
        ("stop", "a"),
        ("submit", "a"),
        ("drained", named("b")),
        ("stop", "b"),
        ("submit", "b"),
        ("delete_session", named("b")),
    ]
    assert order(world, *desired) == desired


def test_a_branch_that_goes_drains_from_its_source_on(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B, C, make_job("k", "p", "q")))
    world.calls.clear()
    assert carry_out(coordinator, composition(make_job("k", "p", "q"))).state == "succeeded"
    drained, stopped = [
        [(call, name) for name in names]
        for call, names in (
            ("drained", (named("a"), named("b"), named("c"))),
            ("stop", ("a", "b", "c")),
        )
    ]
    desired = [each for pair in zip(drained, stopped, strict=True) for each in pair]
    assert order(world, *desired) == desired
    assert sorted(world.broker(BROKER).sessions) == [named("k")]


def test_delete_of_all_waits_for_nothing(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 7
    operation = user.delete_composition(coordinator, "traffic")
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert world.counts()["drained"] == 0


def test_combiners_take_the_rows_of_the_former_class_before_they_change(begin: Begin, world: World) -> None:
    coordinator = begin(drain=0.3)
    split = Split(combiners=(Place(), Place()), partitioner="hash", window_us=60_000_000, slide_us=60_000_000)
    hot = make_job("hot", "t0", "t1")
    carry_out(coordinator, composition(*expand(hot, split)))
    world.broker(BROKER).backlog[named("hot.combiner-1")] = 7
    world.calls.clear()
    edited = composition(*expand(replace(hot, entry_class="Other"), split))
    operation = carry_out(coordinator, edited)
    assert states(operation) == {
        "hot.partitioner": "done",
        "hot.combiner-0": "done",
        "hot.combiner-1": "waiting",
        "hot.reducer": "done",
    }
    assert "were not drained in 0.3 s: the job stays as it is" in operation.actions["hot.combiner-1"].error
    expected = [
        ("submit", "hot.partitioner"),
        ("drained", named("hot.combiner-0")),
        ("stop", "hot.combiner-0"),
    ]
    assert order(world, *expected) == expected
    assert (
        states(carry_out(coordinator, edited))["hot.combiner-1"] == "waiting"
    )  # its partitioner is kept now
    world.broker(BROKER).backlog.clear()
    assert carry_out(coordinator, edited).state == "succeeded"


def test_combiners_keep_the_former_class_if_their_partitioner_does(begin: Begin, world: World) -> None:
    coordinator = begin(drain=0.3)
    split = Split(combiners=(Place(),), partitioner="hash", window_us=60_000_000, slide_us=60_000_000)
    hot = make_job("hot", "t0", "t1")
    carry_out(coordinator, composition(*expand(hot, split)))
    world.fail("submit", Rejected("no such class", address=hot.spe_address), name="hot.partitioner")
    operation = carry_out(coordinator, composition(*expand(replace(hot, entry_class="Other"), split)))
    assert states(operation)["hot.partitioner"] == "failed"
    assert states(operation)["hot.combiner-0"] == "skipped"
    assert {each.job.entry_class for each in world.running("hot.combiner-0")} == {hot.entry_class}


def test_job_that_does_not_drain_in_time_goes_on_and_loses_nothing(begin: Begin, world: World) -> None:
    coordinator = begin(drain=0.3)
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 7
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    operation = carry_out(coordinator, edited)
    assert states(operation) == {"a": "done", "b": "waiting"}
    assert "the messages at 't1' of tcp://b1:1883 were not drained in 0.3 s" in (operation.actions["b"].error)
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b"): "t1", named("b", 2): "x1"}
    assert [each.attempt.session for each in world.running("b")] == [named("b")]
    world.broker(BROKER).backlog.clear()
    again = carry_out(coordinator, edited)
    assert states(again) == {"a": "kept", "b": "done"}
    assert "given up" not in again.actions["b"].note
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b", 2): "x1"}


def test_job_that_is_edited_on_while_it_drains_processes_what_was_sent_for_each_edit(
    begin: Begin, world: World
) -> None:
    coordinator = begin(drain=0.3)
    broker = world.broker(BROKER)
    carry_out(coordinator, composition(A, B))
    broker.backlog[named("b")] = 7
    assert carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE)).state == "waiting"
    broker.backlog = {named("b", 2): 3}
    edited = composition(replace(A, sink_topic="x2"), replace(B, source_topic="x2"))
    (session,) = user.plan(coordinator, edited).leaves
    assert (session.topic, session.waiting, session.lossless) == ("x1", 3, True)
    world.calls.clear()
    drains = world.hold("drained", named("b", 2))
    operation, _ = user.apply(coordinator, edited)
    assert drains.reached.wait(30)
    assert [each.job.source_topic for each in world.running("b")] == ["x1"]
    broker.backlog.clear()
    drains.release()
    assert operation.wait(30)
    assert states(operation) == {"a": "done", "b": "done"}
    assert [each.job.source_topic for each in world.running("b")] == ["x2"]
    assert broker.sessions == {named("a"): "t0", named("b", 3): "x2"}
    desired = [("submit", "a"), ("drained", named("b", 2)), ("submit", "b")]
    assert order(world, *desired) == desired


@pytest.mark.parametrize("refused", [False, True], ids=["died", "start refused"])
def test_a_job_that_dies_leaves_alone_what_was_sent_for_a_change_that_was_taken_back(
    begin: Begin, world: World, refused: bool
) -> None:
    coordinator = begin(drain=0.3)
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 7
    carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    world.broker(BROKER).backlog = {named("b", 2): 3}
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    if refused:
        world.fail("submit", Rejected("no room", address=ENGINE), name="b")
        assert carry_out(coordinator, composition(A, B)).state == "failed"
    assert carry_out(coordinator, composition(A, B)).state == "succeeded"
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    assert world.broker(BROKER).backlog == {named("b", 2): 3}
    elsewhere = composition(replace(A, sink_topic="x2"), replace(B, source_topic="x2"))
    assert user.plan(coordinator, elsewhere).leaves == ()
    assert carry_out(coordinator, elsewhere).state == "succeeded"
    assert world.broker(BROKER).backlog == {named("b", 2): 3}


def test_job_that_is_not_waited_for_needs_leave_to_give_up_what_waits(begin: Begin, world: World) -> None:
    coordinator = begin(drain=0)
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 7
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    with pytest.raises(InvalidInput, match=r"at 't1' .*--drain 0\), so they are discarded \(use --give-up"):
        user.apply(coordinator, edited)
    assert world.broker(BROKER).backlog == {named("b"): 7}
    operation = carry_out(coordinator, edited, give_up=True)
    reported = "discarded: at most 7 messages that waited at 't1' of tcp://b1:1883"
    assert operation.actions["b"].note.endswith(reported)
    assert operation.to_dict()["actions"][1]["note"].endswith(reported)
    assert "job 'b': the messages that wait at 't1' of tcp://b1:1883" in operation.warnings[0]
    assert f"job 'b': {reported}" in [
        each["message"] for each in auditlog.entries(coordinator.store, 100, auditlog.Filter())
    ]


def test_job_that_cannot_tell_is_let_go_when_it_reads_no_more(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_STILL", 0.2)
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).deaf = True
    operation = carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert states(operation) == {"a": "done", "b": "done"}


@pytest.mark.parametrize("desired", [[A_ELSEWHERE, B_ELSEWHERE], [A]], ids=["rewired", "goes"])
def test_job_that_cannot_tell_is_put_back_when_messages_wait(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch, desired: list[Job]
) -> None:
    """Its connector may be SpecK's, and have not reached its broker yet."""
    monkeypatch.setattr(draining, "_STILL", 0.2)
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).deaf = True
    world.broker(BROKER).backlog[named("b")] = 24118
    operation = carry_out(coordinator, composition(*desired))
    error = operation.actions["b"].error
    assert (
        "wait at 't1' of tcp://b1:1883, which job 'b' leaves; they would be lost: no copy confirmed" in error
    )
    assert "the previous version was restored and runs" in error
    assert [each.attempt.session for each in world.running("b")] == [named("b")]
    assert world.broker(BROKER).backlog[named("b")] == 24118
    operation = carry_out(coordinator, composition(*desired), give_up=True)
    assert operation.actions["b"].state == "done"
    assert "discarded: at most 24118 messages" in operation.actions["b"].note
    assert named("b") not in world.broker(BROKER).sessions


def test_job_that_does_not_come_to_run_is_not_taken_for_drained(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "_STILL", 0.2)
    coordinator = begin(drain=1)
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).deaf = True
    world.crash("b", "its tasks wait for slots", JobState.STARTING)
    operation = carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert states(operation) == {"a": "done", "b": "waiting"}


def test_broker_that_fails_for_a_moment_is_asked_again(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.fail("drained", Rejected("busy", address=BROKER), times=2)
    assert carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE)).state == "succeeded"
    assert world.counts()["drained"] == 3


def test_copy_that_dies_while_it_drains_runs_once_more_as_it_was(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 1
    drains = world.hold("drained", named("b"))
    operation, _ = user.apply(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert drains.reached.wait(30)
    starts = world.hold("submit", "b")
    world.crash("b")
    drains.release()
    assert starts.reached.wait(30)
    world.broker(BROKER).backlog.clear()  # it is counted, and processed by the copy that starts now
    starts.release()
    assert operation.wait(30)
    assert states(operation) == {"a": "done", "b": "done"}
    assert "given up" not in operation.actions["b"].note
    assert world.calls.count(("submit", ENGINE, "b")) == 3


def test_copy_that_dies_again_while_it_drains_leaves_nothing(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    world.broker(BROKER).backlog[named("b")] = 7
    world.doomed = lambda job: job.source_topic == "t1"
    operation = carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert states(operation) == {"a": "done", "b": "failed"}
    assert "it was restarted in its old form to process them, and failed" in operation.actions["b"].error
    assert world.broker(BROKER).backlog[named("b")] == 7
    second = carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE), give_up=True)
    assert second.state == "succeeded"
    assert "discarded: at most 7 messages that waited at 't1' of tcp://b1:1883" in second.actions["b"].note


def test_what_a_dead_job_leaves_is_said_in_the_plan(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    world.broker(BROKER).backlog[named("b")] = 7
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    (session,) = user.plan(coordinator, edited).leaves
    assert (session.job, session.topic, session.waiting, session.lossless) == ("b", "t1", 7, True)
    assert "restarted in its old form" in session.fate
    (session,) = user.plan(coordinator, edited, give_up=True).leaves
    assert (session.waiting, session.lossless) == (7, False)
    assert plan_data(user.plan(coordinator, edited))["leaves"][0]["waiting"] == 7


def test_dead_writer_writes_no_more_before_its_reader_is_drained(begin: Begin, world: World) -> None:
    """A dead reader waits for its writer to be switched: what that writes until then must be processed."""
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    world.broker(BROKER).backlog[named("b")] = 1
    switched = world.hold("submit", "a")
    operation, _ = user.apply(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert switched.reached.wait(30)
    counts = world.hold("waiting", named("b"))
    assert not counts.reached.wait(0.5)
    switched.release()
    assert counts.reached.wait(30)
    world.broker(BROKER).backlog.clear()
    counts.release()
    assert operation.wait(30)
    assert operation.state == "succeeded"


def test_job_whose_start_was_not_answered_leaves_nothing(begin: Begin, world: World) -> None:
    coordinator = begin()
    silence = OutcomeUnknown("its main method gave no answer and may still start it", address=ENGINE)
    world.fail("submit", silence, name="b", times=3)
    world.fail("find", silence, name="b", times=3)
    assert carry_out(coordinator, composition(A, B)).actions["b"].state == "waiting"
    assert [each.phase for each in coordinator.store.attempts("b")] == ["intended"]
    world.broker(BROKER).backlog[named("b")] = 24118
    starts = world.hold("drained", named("b"))
    operation, _ = user.apply(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert starts.reached.wait(30)
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    world.broker(BROKER).backlog.clear()
    starts.release()
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert [each.job.source_topic for each in world.running("b")] == ["x1"]


def test_job_that_was_never_started_leaves_nothing(begin: Begin, world: World) -> None:
    coordinator = begin()
    world.fail("submit", Rejected("no", address=ENGINE), name="b")
    assert carry_out(coordinator, composition(A, B)).actions["b"].state == "failed"
    assert coordinator.store.attempts("b") == []
    world.broker(BROKER).backlog[named("b")] = 5
    (session,) = user.plan(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE)).leaves
    assert (session.job, session.waiting) == ("b", 5)
    starts = world.hold("drained", named("b"))
    operation, _ = user.apply(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert starts.reached.wait(30)
    world.broker(BROKER).backlog.clear()
    starts.release()
    assert operation.wait(30)
    assert operation.state == "succeeded"


def test_nothing_can_drain_where_the_engine_is_left_behind(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, replace(B, spe_address="sc://e2:1")))
    world.down("sc://e2:1")
    world.broker(BROKER).backlog[named("b")] = 7
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    with pytest.raises(InvalidInput, match=r"7 messages wait .* its engine is treated as lost"):
        user.apply(coordinator, edited, leave_behind=["sc://e2:1"])
    operation, _ = user.apply(coordinator, edited, leave_behind=["sc://e2:1"], give_up=True)
    assert operation.wait(30)
    assert operation.state == "succeeded"


def test_the_loop_goes_on_with_the_word_to_give_up(begin: Begin, world: World) -> None:
    coordinator = begin(drain=0.3)
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    world.broker(BROKER).backlog[named("b")] = 7
    world.down(BROKER)
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    assert carry_out(coordinator, edited, give_up=True).state == "waiting"
    world.up(BROKER)
    coordinator.backoff.forget(["a", "b"])
    coordinator.reconciler.round()
    for operation in coordinator.operations.running():
        assert operation.wait(30)
    assert [each.job.source_topic for each in world.running("b")] == ["x1"]


def test_copy_that_died_before_it_had_drained_runs_once_more_to_do_so(begin: Begin, world: World) -> None:
    coordinator = begin(drain=0.3)
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 7
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    assert states(carry_out(coordinator, edited)) == {"a": "done", "b": "waiting"}
    world.restart(ENGINE)
    again = carry_out(coordinator, edited)
    assert states(again) == {"a": "done", "b": "waiting"}
    assert "were not drained in 0.3 s" in again.actions["b"].error
    (running,) = world.running("b")
    assert (running.attempt.session, running.attempt.state is not None) == (named("b"), True)
    world.crash("b")
    hold = world.hold("drained", named("b"))
    operation, _ = user.apply(coordinator, edited)
    assert hold.reached.wait(30)
    assert [each.attempt.session for each in world.running("b")] == [named("b")]
    world.broker(BROKER).backlog.clear()
    hold.release()
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b", 2): "x1"}
    (running,) = world.running("b")
    assert (running.attempt.session, running.attempt.state is not None) == (named("b", 2), True)


def test_session_that_its_broker_lost_is_filled_again_before_the_job_leaves_it(
    begin: Begin, world: World
) -> None:
    """Its writers retain what its broker lost with it; no message waits until they are asked for these."""
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    state = world.broker(BROKER)
    del state.sessions[named("b")]
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    (session,) = user.plan(coordinator, edited).leaves
    assert (session.waiting, session.lossless) == (None, True)
    hold = world.hold("drained", named("b"))
    operation, _ = user.apply(coordinator, edited)
    assert hold.reached.wait(30)
    assert state.refilled == ["t1"]
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    hold.release()
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert state.sessions == {named("a"): "t0", named("b", 2): "x1"}


@pytest.mark.parametrize("desired", [[A_ELSEWHERE, B_ELSEWHERE], [A]], ids=["rewired", "goes"])
def test_session_that_its_broker_lost_is_given_up_with_leave_alone(
    begin: Begin, world: World, desired: list[Job]
) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    del world.broker(BROKER).sessions[named("b")]
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="b")
    error = carry_out(coordinator, composition(*desired)).actions["b"].error
    lost = (
        "tcp://b1:1883 has lost the session at 't1', which job 'b' leaves; messages that its writers retain"
    )
    assert f"{lost} would be lost: " in error and "NameError in jobs.py:3" in error
    world.broker(BROKER).sessions.pop(named("b"), None)  # the start had asked its writers
    operation = carry_out(coordinator, composition(*desired), give_up=True)
    text = "discarded: messages at 't1' of tcp://b1:1883, which had lost the job's session (number unknown)"
    assert (operation.actions["b"].state, operation.actions["b"].note.endswith(text)) == ("done", True)
    events = auditlog.entries(coordinator.store, 100, auditlog.Filter())
    assert f"job 'b': {text}" in [each["message"] for each in events]


def test_session_that_was_never_made_is_left_as_one_without_messages(begin: Begin, world: World) -> None:
    coordinator = begin()
    world.fail("ensure_session", Rejected("no right", address=BROKER), name=named("a"), times=None)
    assert carry_out(coordinator, composition(A)).state == "failed"
    world.heal()
    operation = carry_out(coordinator, composition(replace(A, source_topic="x0")))
    assert (operation.state, operation.actions["a"].note) == ("succeeded", "")
    assert [each.job.source_topic for each in world.running("a")] == ["x0"]


def test_dead_copy_that_cannot_run_again_leaves_nothing(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.crash("b")
    world.broker(BROKER).backlog[named("b")] = 7
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="b")
    operation = carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert states(operation) == {"a": "done", "b": "failed"}
    error = operation.actions["b"].error
    assert "7 messages wait at 't1' of tcp://b1:1883, which job 'b' leaves; they would be lost" in error
    assert "NameError in jobs.py:3" in error
    assert "--give-up" in error
    assert world.broker(BROKER).backlog[named("b")] == 7


def test_engine_that_is_down_is_not_waited_for(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, replace(B, spe_address="sc://e2:1")))
    world.down("sc://e2:1")
    operation = carry_out(coordinator, composition(A))
    assert "sc://e2:1 cannot be reached" in operation.actions["b"].error
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b"): "t1"}


def test_reader_stays_when_its_writer_is_put_back(begin: Begin, world: World) -> None:
    coordinator = begin(startup=0.2)
    carry_out(coordinator, composition(A, B))
    world.doomed = lambda job: job.sink_topic == "x1"
    operation = carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE))
    assert states(operation) == {"a": "failed", "b": "skipped"}
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    assert world.counts()["drained"] == 0


def test_a_reader_stays_until_a_writer_whose_start_was_not_observed_has_come_up(
    begin: Begin, world: World
) -> None:
    """The writer may be put back yet, and writes again where the reader was to leave."""
    coordinator = begin(drain=0.2, startup=0.2)
    carry_out(coordinator, composition(A, B))
    world.broker(BROKER).backlog[named("b")] = 7
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    assert states(carry_out(coordinator, edited)) == {"a": "done", "b": "waiting"}
    world.broker(BROKER).backlog.clear()
    record = coordinator.store.job("a")
    assert record is not None
    with coordinator.store.transaction() as transaction:  # as if the coordinator had been killed meanwhile
        transaction.put_job(replace(record, rollback_revision=1))
    world.doomed = lambda job: job.sink_topic == "x1"
    world.crash("a")
    assert states(carry_out(coordinator, edited)) == {"a": "failed", "b": "skipped"}
    assert [each.job.sink_topic for each in world.running("a")] == ["t1"]
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    assert world.broker(BROKER).sessions[named("b")] == "t1"


def test_new_copy_that_dies_at_once_is_replaced_by_the_old_one(begin: Begin, world: World) -> None:
    coordinator = begin(startup=0.2)
    carry_out(coordinator, composition(A))
    world.doomed = lambda job: job.trigger is not None
    operation = carry_out(coordinator, composition(replace(A, trigger="1 second")))
    assert operation.actions["a"].error == (
        "job 'a' at sc://e1:1: it was started, but is failed: it died at once; "
        "the previous version was restored and runs"
    )
    (running,) = world.running("a")
    assert running.job.trigger is None
    assert running.attempt.state is not None
    assert running.attempt.number == 3


def test_session_that_was_noted_and_not_made_is_made_by_the_next_apply(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A, B))
    world.fail("ensure_session", Rejected("quota exceeded", address=BROKER), name=named("b", 2))
    edited = composition(A_ELSEWHERE, B_ELSEWHERE)
    assert carry_out(coordinator, edited).state == "failed"
    world.calls.clear()
    assert carry_out(coordinator, edited).state == "succeeded"
    desired = [("ensure_session", named("b", 2)), ("submit", "a"), ("submit", "b")]
    assert order(world, *desired) == desired


def test_a_job_on_trial_whose_next_change_is_taken_back_keeps_the_session_it_reads(
    begin: Begin, world: World
) -> None:
    coordinator = begin(drain=0.2)
    carry_out(coordinator, composition(A, B))
    faster = replace(B, trigger="1 second")
    carry_out(coordinator, composition(A, faster))
    record = coordinator.store.job("b")
    assert record is not None
    with coordinator.store.transaction() as transaction:  # as if its start had not been observed to its end
        transaction.put_job(replace(record, rollback_revision=1))
    world.broker(BROKER).backlog[named("b")] = 7
    waiting = carry_out(coordinator, composition(A_ELSEWHERE, replace(faster, source_topic="x1")))
    assert states(waiting) == {"a": "done", "b": "waiting"}
    world.broker(BROKER).backlog.clear()
    back = carry_out(coordinator, composition(A, faster))
    assert states(back) == {"a": "done", "b": "kept"}
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b"): "t1"}


@pytest.mark.parametrize("by", ["put back", "not drained"])
def test_a_change_that_is_taken_back_keeps_what_was_sent_for_it(begin: Begin, world: World, by: str) -> None:
    coordinator = begin(drain=0.2, startup=0.2)
    carry_out(coordinator, composition(A, B))
    if by == "put back":
        world.doomed = lambda job: job.source_topic == "x1"
    else:
        world.broker(BROKER).backlog[named("b")] = 7
    assert carry_out(coordinator, composition(A_ELSEWHERE, B_ELSEWHERE)).state in ("failed", "waiting")
    world.broker(BROKER).backlog[named("b", 2)] = 3
    back = carry_out(coordinator, composition(A, B))
    assert states(back) == {"a": "done", "b": "kept"}
    assert "kept: 3 messages wait at 'x1' of tcp://b1:1883, which the job no longer reads" in (
        back.actions["b"].note
    )
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b"): "t1", named("b", 2): "x1"}
    back = carry_out(coordinator, composition(A, B), give_up=True)
    assert states(back) == {"a": "kept", "b": "kept"}
    assert "discarded: at most 3 messages that waited at 'x1' of tcp://b1:1883" in back.actions["b"].note
    assert world.broker(BROKER).sessions == {named("a"): "t0", named("b"): "t1"}
    assert [each.attempt.session for each in world.running("b")] == [named("b")]
