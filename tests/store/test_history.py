"""Revisions, what differs between them, the way back, and the audit log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from speck.apply.operation import Operation
from speck.client import RequestRefused
from speck.coordinator import Coordinator, Queries, Services, build
from speck.coordinator.queries import compositions
from speck.core.change import Request, Rollback
from speck.core.graph import Endpoint
from speck.core.placement import PlacementOptions
from speck.core.settings import HistoryBounds, Settings
from speck.errors import Busy, InvalidInput, NotFound, Rejected, StaleRevision
from speck.store import Head, Revision, Store
from speck.store.history import History, count, differences, surplus
from speck.store.maintenance import repair
from speck.store.maintenance.integrity import Finding
from speck.store.transaction import Record
from testbed.benches import user
from testbed.benches.jobs_by_hand import CODE, chain, code_hash, composition, make_job, write_code
from testbed.benches.user import carry_out
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.rest import RestServer, yaml_of

A, B, C = chain("a", "b", "c")
FASTER = replace(B, trigger="1 second")


@pytest.fixture
def begin(tmp_path: Path, world: World) -> Iterator[Callable[..., Services]]:
    """Starts a coordinator on the same store; the one before is closed, as at a restart."""
    running: list[Coordinator] = []

    def end() -> None:
        while running:
            coordinator = running.pop()
            coordinator.close()
            coordinator.store.close()

    def start(bounds: HistoryBounds | None = None) -> Services:
        end()
        store = Store(tmp_path / "store", bounds or HistoryBounds())
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        services = build(store, double_kinds(world), settings=settings)
        running.append(services.coordinator)
        services.coordinator.start()
        return services

    yield start
    end()


@pytest.fixture
def services(begin: Callable[..., Services]) -> Services:
    return begin()


@pytest.fixture
def coordinator(services: Services) -> Coordinator:
    return services.coordinator


@pytest.fixture
def queries(services: Services) -> Queries:
    return services.queries


def roll_back(coordinator: Coordinator, number: int | None = None) -> Operation:
    operation, _ = user.rollback(coordinator, "traffic", number)
    assert operation.wait(30)
    return operation


# --- what differs


def test_differences_name_each_job_and_each_field() -> None:
    before = {"a": A, "b": B, "c": C}
    after = {"a": A, "b": replace(B, trigger="1 second", arguments={"k": 1}), "d": make_job("d", "x", "y")}
    found = differences(before, after)
    assert [(each.job, each.kind) for each in found] == [("b", "changed"), ("c", "removed"), ("d", "added")]
    assert [(each.field, each.before, each.after) for each in found[0].changes] == [
        ("arguments", {}, {"k": 1}),
        ("trigger", None, "1 second"),
    ]
    assert ("source_topic", "x") in [(each.field, each.after) for each in found[2].changes]
    assert count(found) == {"added": 1, "removed": 1, "changed": 1}


@pytest.mark.parametrize(
    ("numbers", "bound", "needed", "gone"),
    [
        ([1, 2, 3], 3, set(), []),
        ([1, 2, 3, 4], 3, set(), [1]),
        ([1, 2, 3, 4, 5], 2, {1, 3}, [2]),
        ([1, 2], 0, {2}, [1]),
        ([], 5, set(), []),
    ],
)
def test_surplus_is_the_oldest_but_for_what_is_needed(
    numbers: list[int], bound: int, needed: set[int], gone: list[int]
) -> None:
    assert surplus(numbers, bound, needed) == gone


@pytest.mark.parametrize(
    ("read", "source", "running", "expected"),
    [
        (["t1", "x1"], "x1", "t1", False),  # the last one
        (["t1", "x1", "x2"], "x1", "t1", False),  # edited on
        (["t1", "x1", "x1", "", "x2"], "x1", "t1", False),  # "": without the job
        (["t1", "x1", "t1"], "x1", "t1", True),
        (["t1", "x1", "t1", "x2"], "x1", "", True),
        (["t1", "x1", "t1", "x1", "x2"], "x1", "t1", False),  # applied again
        (["x1", "t1", "x2"], "x1", "", False),  # the revision before is not kept any more
        (["x1", "t1", "x2"], "x1", "t1", True),
        (["t1", "x1", "x2", "t1"], "x2", "x1", True),
        (["t1"], "x1", "t1", False),
    ],
)
def test_a_change_of_a_source_is_reverted_by_the_way_back(
    tmp_path: Path, read: list[str], source: str, running: str, expected: bool
) -> None:
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            for number, topic in enumerate(read, 1):
                jobs = composition(replace(B, source_topic=topic)).jobs if topic else {}
                transaction.put_revision(Revision("traffic", number, 0.0, jobs))
        at = partial(Endpoint, B.source_broker)
        assert History(store).is_reverted("traffic", "b", at(source), at(running)) == expected


# --- revisions


def test_revisions_tell_who_when_why_and_what_changed(coordinator: Coordinator, queries: Queries) -> None:
    carry_out(coordinator, composition(A, B), author="ann@edge", message="the first")
    carry_out(coordinator, composition(A, FASTER, C), author="bob", message="faster\nby far")
    first, second = queries.revisions("traffic")
    assert (first["number"], first["author"], first["message"], first["jobs"]) == (
        1,
        "ann@edge",
        "the first",
        2,
    )
    assert first["changes"] == {"added": 2, "removed": 0, "changed": 0}
    assert second["changes"] == {"added": 1, "removed": 0, "changed": 1}
    assert second["at"] >= first["at"]
    assert [each["job_name"] for each in queries.revision("traffic", 1)["jobs"]] == ["a", "b"]
    with pytest.raises(NotFound, match="has no revision 7"):
        queries.revision("traffic", 7)


def test_argument_of_another_kind_is_another_revision(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(replace(A, arguments={"k": 1})))
    carry_out(coordinator, composition(replace(A, arguments={"k": 1.0})))
    assert [each["number"] for each in queries.revisions("traffic")] == [1, 2]
    before = world.changes()
    carry_out(coordinator, composition(replace(A, arguments={"k": 1.0})))
    assert world.changes() == before


def test_options_of_placement_are_a_revision_of_their_own_and_touch_no_engine(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A))
    before = world.changes()
    auto = replace(composition(A), placement=PlacementOptions(mode="auto", utilisation=0.6))
    for _ in range(2):
        carry_out(coordinator, auto)
    assert world.changes() == before
    assert queries.revision("traffic", 2)["placement"] == {"mode": "auto", "utilisation": 0.6}
    difference = queries.difference("traffic")
    assert (difference["counts"], difference["jobs"]) == ({"added": 0, "removed": 0, "changed": 0}, [])
    assert difference["placement"] == [
        {"field": "mode", "before": "advise", "after": "auto"},
        {"field": "utilisation", "before": 0.7, "after": 0.6},
    ]
    assert [each["number"] for each in queries.revisions("traffic")] == [1, 2]
    user.delete_job(coordinator, "a").wait(30)  # the options stay with the composition
    assert queries.revision("traffic", 3)["placement"] == {"mode": "auto", "utilisation": 0.6}
    user.rollback(coordinator, "traffic", 1)[0].wait(30)
    assert "placement" not in queries.revision("traffic", 4)


def test_declared_topics_are_a_revision_of_their_own_and_touch_no_engine(
    coordinator: Coordinator, queries: Queries, world: World, begin: Callable[..., Services]
) -> None:
    declared = {"sources": {"t0": "readings"}, "sinks": {"t2": ""}}
    carry_out(coordinator, composition(A, B))
    calls = world.changes()
    carry_out(coordinator, replace(composition(A, B), declared=declared))
    carry_out(coordinator, replace(composition(A, B), declared=declared))
    assert world.changes() == calls
    assert [each["number"] for each in queries.revisions("traffic")] == [1, 2]
    again = begin()
    assert again.queries.compositions()[0]["declared"] == declared
    assert again.coordinator.deployments.composition("traffic").declared == declared


def test_difference_is_by_default_of_the_last_two(coordinator: Coordinator, queries: Queries) -> None:
    carry_out(coordinator, composition(A))
    with pytest.raises(NotFound, match="no revision before 1"):
        queries.difference("traffic")
    carry_out(coordinator, composition(A, B))
    carry_out(coordinator, composition(A, FASTER))
    assert queries.difference("traffic")["jobs"] == [
        {
            "job": "b",
            "kind": "changed",
            "changes": [{"field": "trigger", "before": None, "after": "1 second"}],
        }
    ]
    assert queries.difference("traffic", 3, 1)["counts"] == {"added": 0, "removed": 1, "changed": 0}
    assert queries.difference("traffic", 0, 1)["counts"] == {"added": 1, "removed": 0, "changed": 0}


def test_name_of_a_deleted_composition_goes_on_with_its_history(
    coordinator: Coordinator, queries: Queries
) -> None:
    carry_out(coordinator, composition(A), message="old")
    assert user.delete_composition(coordinator, "traffic", "ann", "enough").wait(30)
    (deleted,) = queries.deleted_compositions()
    assert [deleted[each] for each in ("name", "revision", "author", "message")] == [
        "traffic",
        1,
        "ann",
        "enough",
    ]
    assert [each["message"] for each in queries.revisions("traffic")] == ["old"]
    with pytest.raises(NotFound, match="'traffic' is deleted"):
        queries.composition("traffic")
    carry_out(coordinator, composition(B), message="new")
    known = [(each["number"], each["message"]) for each in queries.revisions("traffic")]
    assert known == [(1, "old"), (2, "new")]
    assert queries.deleted_compositions() == []
    assert queries.difference("traffic")["counts"] == {"added": 1, "removed": 1, "changed": 0}


def test_a_deleted_composition_comes_back_with_new_jobs(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    carry_out(coordinator, composition(A, FASTER))
    sessions = set(world.broker("tcp://b1:1883").sessions)
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert (world.where(), world.broker("tcp://b1:1883").sessions) == ({}, {})
    plan, restored = user.plan_rollback(coordinator, "traffic")
    assert (restored, [type(each).__name__ for each in plan.actions]) == (2, ["Start", "Start"])
    (warning,) = user.rollback_warnings(coordinator, "traffic")
    assert warning.endswith("their former state and unprocessed messages are gone")
    operation = roll_back(coordinator)
    assert (operation.state, operation.revision, operation.warnings) == ("succeeded", 3, [warning])
    assert set(world.where()) == {"a", "b"}
    assert set(world.broker("tcp://b1:1883").sessions) == sessions
    assert all(each.attempt.state is None for each in (*world.running("a"), *world.running("b")))
    assert (queries.deleted_compositions(), user.rollback_warnings(coordinator, "traffic")) == ([], [])


def test_a_deletion_that_a_healing_ends_has_its_own_author(
    coordinator: Coordinator, queries: Queries, services: Services, world: World
) -> None:
    carry_out(coordinator, composition(A))
    world.down("sc://e1:1")
    deletion = user.delete_composition(coordinator, "traffic", "ann", "enough")
    assert deletion.wait(30)
    assert (deletion.state, queries.deleted_compositions()) == ("waiting", [])
    world.up("sc://e1:1")
    coordinator.reconciler.round()
    coordinator.operations.join()
    (deleted,) = queries.deleted_compositions()
    assert (deleted["author"], deleted["operation"]) == ("ann", deletion.id)


# --- the way back


def test_rollback_is_a_new_revision_with_the_state_carried(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    carry_out(coordinator, composition(A, FASTER, C))
    before = len(world.changes())
    operation = roll_back(coordinator)
    assert (operation.kind, operation.state, operation.revision) == ("rollback", "succeeded", 3)
    assert {name: each.kind for name, each in operation.actions.items()} == {
        "a": "keep",
        "b": "update",
        "c": "stop",
    }
    assert sorted(method for method, _, _ in world.changes()[before:]) == ["stop", "stop", "submit"]
    (back,) = world.running("b")
    assert (back.job.trigger, back.attempt.state is not None) == (None, True)
    last = queries.revisions("traffic")[-1]
    assert (last["restored"], last["message"]) == (1, "rollback to revision 1")
    assert last["changes"] == {"added": 0, "removed": 1, "changed": 1}
    assert queries.revision("traffic", 3)["jobs"] == queries.revision("traffic", 1)["jobs"]


def test_rollback_can_itself_be_taken_back(coordinator: Coordinator, queries: Queries) -> None:
    carry_out(coordinator, composition(A))
    carry_out(coordinator, composition(A, B))
    roll_back(coordinator)
    roll_back(coordinator)
    assert [each["restored"] for each in queries.revisions("traffic")] == [None, None, 1, 2]
    assert sorted(each["job_name"] for each in queries.jobs()) == ["a", "b"]


def test_rollback_brings_back_the_very_code(coordinator: Coordinator, world: World, tmp_path: Path) -> None:
    carry_out(coordinator, composition(A))
    carry_out(coordinator, composition(replace(A, job_path="other.py", code_hash=code_hash("other.py"))))
    for name in CODE:
        (tmp_path / name).unlink()
    assert roll_back(coordinator).state == "succeeded"
    (running,) = world.running("a")
    assert Path(running.job.job_path).read_text() == CODE["jobs.py"]


@pytest.mark.parametrize("harm", ["gone", "changed"])
def test_rollback_to_code_that_is_kept_no_more_is_refused(
    coordinator: Coordinator, queries: Queries, world: World, tmp_path: Path, harm: str
) -> None:
    carry_out(coordinator, composition(A, B))
    (running, _) = world.running()
    retained = Path(running.job.job_path)
    carry_out(coordinator, composition(B))
    (tmp_path / "jobs.py").write_text("something else")
    retained.unlink() if harm == "gone" else retained.write_text("harmed")
    calls = world.changes()
    for call in (coordinator.changes.plan, coordinator.changes.carry_out):
        with pytest.raises(InvalidInput, match=r"the code of job_path 'jobs.py' in that revision \(\w{12}\)"):
            call(Rollback("traffic", 1), Request())
    assert (world.changes(), len(queries.revisions("traffic"))) == (calls, 2)
    if harm == "gone":  # found again where it was taken from
        (tmp_path / "jobs.py").write_text(CODE["jobs.py"])
        assert roll_back(coordinator, 1).state == "succeeded"


def test_rollback_of_state_to_another_kind_of_engine_is_refused(
    coordinator: Coordinator, world: World
) -> None:
    flink = replace(A, engine="flink", spe_address="http://f1:8081", upgrade="stateless")
    carry_out(coordinator, composition(A))
    carry_out(coordinator, composition(flink))
    with pytest.raises(InvalidInput, match="cannot read the state"):
        user.rollback(coordinator, "traffic", 1)
    assert world.where() == {"a": "http://f1:8081"}


def test_rollback_with_nothing_before_is_refused(coordinator: Coordinator) -> None:
    with pytest.raises(NotFound, match="no composition 'traffic'"):
        user.rollback(coordinator, "traffic")
    carry_out(coordinator, composition(A))
    with pytest.raises(NotFound, match="no revision before 1"):
        user.rollback(coordinator, "traffic")
    with pytest.raises(NotFound, match="no revision 9"):
        user.rollback(coordinator, "traffic", 9)


# --- bounds


def test_history_is_bounded_and_keeps_what_runs(begin: Callable[..., Services], world: World) -> None:
    services = begin(HistoryBounds(revisions=3, operations=4, events=10))
    coordinator, queries = services.coordinator, services.queries
    other = make_job("o", "x", "y", job_path="other.py", code_hash=code_hash("other.py"))
    carry_out(coordinator, composition(A, other))
    (retained,) = (Path(each.job.job_path) for each in world.running("o"))
    for number in range(2, 8):
        desired = [replace(B, arguments={"k": number})] + [other] * (number < 4)
        carry_out(coordinator, composition(A, *desired))
    # A runs the form of the first revision, so that one stays; of the others the last three.
    assert [each["number"] for each in queries.revisions("traffic")] == [1, 5, 6, 7]
    assert retained.exists()
    carry_out(coordinator, composition(replace(A, trigger="1 second")))
    assert [each["number"] for each in queries.revisions("traffic")] == [6, 7, 8]
    assert not retained.parent.exists()
    assert len(coordinator.store.operations()) == 4
    assert len(coordinator.store.events(100)) == 10
    begin()
    assert world.where() == {"a": "sc://e1:1"}


def test_revisions_that_nothing_runs_are_not_kept_in_memory(services: Services, world: World) -> None:
    coordinator, store = services.coordinator, services.coordinator.store
    other = make_job("o", "x", "y")
    for number in range(12):
        carry_out(coordinator, composition(replace(A, labels={"n": str(number)})))
    assert (store.head("traffic"), store.decoded_revisions("traffic")) == (Head("traffic", 12), 1)
    for number in range(4):
        carry_out(coordinator, composition(replace(A, arguments={"k": number}), other))
    # The other job runs the form of a former revision, which is the same in the last one.
    first, last = (store.revision("traffic", number) for number in (13, 16))
    assert store.decoded_revisions("traffic") == 2
    assert first.jobs["o"] is last.jobs["o"]
    assert first.jobs["a"] != last.jobs["a"]
    user.delete_composition(coordinator, "traffic").wait(30)
    assert store.decoded_revisions("traffic") == 0


def test_deleted_compositions_are_bounded_with_their_code(
    begin: Callable[..., Services], world: World
) -> None:
    services = begin(HistoryBounds(deleted=2, revisions=2))
    coordinator, queries = services.coordinator, services.queries
    other = make_job("o", "x", "y", job_path="other.py", code_hash=code_hash("other.py"))
    carry_out(coordinator, composition(other, name="first"))
    (code,) = (Path(each.job.job_path) for each in world.running("o"))
    for name in ("first", "second", "third"):
        if name != "first":
            carry_out(coordinator, composition(A, name=name))
            carry_out(coordinator, composition(replace(A, trigger="1 second"), name=name))
            carry_out(coordinator, composition(replace(A, trigger="2 seconds"), name=name))
        assert code.exists()
        assert user.delete_composition(coordinator, name).wait(30)
    assert [each["name"] for each in queries.deleted_compositions()] == ["third", "second"]
    assert not code.exists()
    assert [each["number"] for each in queries.revisions("second")] == [2, 3]
    with pytest.raises(NotFound, match="there is no composition 'first'"):
        queries.revisions("first")
    assert coordinator.store.revision_numbers("first") == []
    again = begin(HistoryBounds(deleted=2))
    assert [each["name"] for each in again.queries.deleted_compositions()] == ["third", "second"]
    assert again.queries.check_store() == []


def test_a_revision_that_is_forgotten_meanwhile_is_left_out(
    begin: Callable[..., Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = begin(HistoryBounds(revisions=1))
    for trigger in ("1 second", "2 seconds"):
        carry_out(services.coordinator, composition(replace(A, trigger=trigger)))
    monkeypatch.setattr(Store, "revision_numbers", lambda *_: [1, 2])  # as before the first one was forgotten
    history = services.coordinator.deployments.history
    assert [each["number"] for each in history.revisions("traffic")] == [2]
    assert history.last_form_of("traffic", "a", "of no revision") is None


def test_code_that_is_forgotten_during_a_check_is_no_fault(
    begin: Callable[..., Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = begin(HistoryBounds(revisions=1))
    other = replace(A, job_path="other.py", code_hash=code_hash("other.py"))
    carry_out(services.coordinator, composition(other))

    def check(records: Sequence[Record], directory: Path) -> list[Finding]:
        carry_out(services.coordinator, composition(A))
        return repair.check(records, directory)

    monkeypatch.setattr(compositions, "check", check)
    assert services.queries.check_store() == []
    carry_out(services.coordinator, composition(replace(A, trigger="1 second")))
    kept = services.coordinator.store.directory / "artifacts"
    assert [each.name for each in kept.iterdir()] == [A.code_hash]  # the other code is forgotten afterwards


# --- the audit log


def test_audit_log_tells_intent_outcome_and_cause(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    world.fail("check", Rejected("no such function"), name="b")
    carry_out(coordinator, composition(A, B, C), author="ann", message="the first")
    said = [(each["kind"], each["job"]) for each in queries.events()]
    assert said[:4] == [("accepted", ""), ("intended", "a"), ("intended", "b"), ("intended", "c")]
    assert sorted(said[4:-1]) == [("failed", "b"), ("skipped", "a"), ("started", "c")]
    assert said[-1] == ("failed", "")
    assert {(each["author"], each["cause"]) for each in queries.events()} == {("ann", "the first")}
    (intended, failed) = queries.events(job="b")
    assert intended["message"] == "job 'b' to start: new in the composition"
    assert "no such function" in failed["message"]
    (skipped,) = queries.events(job="a")[1:]
    assert "depends on job 'b', which failed" in skipped["message"]


def test_audit_log_is_filtered(coordinator: Coordinator, queries: Queries) -> None:
    first = carry_out(coordinator, composition(A))
    second = carry_out(coordinator, composition(make_job("z", "x", "y"), name="other"))
    both = queries.events()
    assert {each["operation"] for each in queries.events(composition="other")} == {second.id}
    assert {each["composition"] for each in queries.events(operation=first.id)} == {"traffic"}
    assert [each["kind"] for each in queries.events(job="z")] == ["intended", "started"]
    assert queries.events(since=both[-1]["at"] + 1) == []
    assert queries.events(since=both[0]["at"]) == both
    assert queries.events(2) == both[-2:]


# --- several at once


def test_two_applies_to_one_composition_at_once(rest: RestServer) -> None:
    """One is accepted; the others are told which operation, and which revision, to look at."""
    hold = rest.world.hold("submit")
    texts = [yaml_of("a t0 t1", f"b t1 t2 trigger: {number} seconds").encode() for number in range(1, 7)]
    together = threading.Barrier(len(texts))

    def send(text: bytes) -> dict[str, Any] | RequestRefused:
        together.wait(30)
        try:
            return rest.client.apply(text, "demo")
        except RequestRefused as refused:
            return refused

    with ThreadPoolExecutor(len(texts)) as threads:
        answers = list(threads.map(send, texts))
    accepted = [each for each in answers if isinstance(each, dict)]
    refused = [each for each in answers if isinstance(each, RequestRefused)]
    assert (len(accepted), {each.status for each in refused}) == (1, {409})
    expected = f"operation {accepted[0]['id']} (apply, revision 1) is in progress"
    assert all(expected in str(each) for each in refused)
    hold.release()
    assert list(rest.client.follow(accepted[0]["id"]))[-1]["state"] == "succeeded"
    assert len(rest.client.revisions("demo")) == 1


def test_stale_plan_is_refused_however_many_come_with_it(rest: RestServer) -> None:
    rest.client.apply(yaml_of("a t0 t1").encode(), "demo", wait=30)
    done: list[dict[str, Any]] = []
    refused: list[str] = []

    def send(number: int) -> None:
        text = yaml_of(f"a t0 t1 trigger: {number} seconds").encode()
        try:
            done.append(rest.client.apply(text, "demo", base_revision=1, wait=30))
        except RequestRefused as error:
            assert error.status == 409
            refused.append(str(error))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send, range(1, 5)))
    with pytest.raises(RequestRefused, match="base_revision 1 is stale, the last revision is 2"):
        rest.client.apply(yaml_of("a t0 t9").encode(), "demo", base_revision=1)
    assert ([each["state"] for each in done], len(refused)) == (["succeeded"], 3)
    assert all("is stale" in each or "is in progress" in each for each in refused)


def test_compositions_are_worked_on_side_by_side(coordinator: Coordinator, world: World) -> None:
    """Not even the planning of one, which asks its engines, holds up another."""
    slow = make_job("slow", "p", "q", spe_address="sc://e2:1")
    carry_out(coordinator, composition(slow, name="slow"))
    hold = world.hold("statuses", address="sc://e2:1")
    with ThreadPoolExecutor(1) as threads:
        planning = threads.submit(user.apply, coordinator, composition(name="slow"))
        assert hold.reached.wait(30)
        assert carry_out(coordinator, composition(A), message="meanwhile").state == "succeeded"
        hold.release()
        operation, _ = planning.result(30)
    assert operation.wait(30)
    assert world.where() == {"a": "sc://e1:1"}


def test_name_that_two_compositions_want_at_once_goes_to_one(coordinator: Coordinator, world: World) -> None:
    together = threading.Barrier(2)

    def send(name: str) -> Operation | InvalidInput:
        together.wait(30)
        try:
            return user.apply(coordinator, composition(A, name=name))[0]
        except InvalidInput as error:
            return error

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(send, ("one", "two"))
    refused, accepted = sorted((first, second), key=lambda each: isinstance(each, Operation))
    assert isinstance(accepted, Operation)
    assert "is already a job of composition" in str(refused)
    assert accepted.wait(30)


def test_name_that_is_taken_between_two_reads_of_store_is_refused_with_its_owner(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tuple(coordinator.store.jobs())
    assert carry_out(coordinator, composition(A, name="one")).state == "succeeded"
    monkeypatch.setattr(type(coordinator.store), "jobs", lambda _: before)
    with pytest.raises(InvalidInput, match="job_name 'a' is already a job of composition 'one'"):
        user.apply(coordinator, composition(A, name="two"))


def test_busy_and_stale_are_told_of_a_rollback_too(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A))
    carry_out(coordinator, composition(A, B))
    with pytest.raises(StaleRevision):
        user.rollback(coordinator, "traffic", 1, base_revision=1)
    hold = world.hold("stop")
    operation, _ = user.rollback(coordinator, "traffic", 1, base_revision=2)
    with pytest.raises(Busy, match=rf"operation {operation.id} \(rollback, revision 3\) is in progress"):
        user.rollback(coordinator, "traffic", 2)
    hold.release()
    assert operation.wait(30)
