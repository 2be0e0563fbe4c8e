"""The outcomes of revisions, the operations that were replaced, and atomic applies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from speck.apply.executor import Executor
from speck.apply.operation import Operation
from speck.coordinator import Services
from speck.coordinator.changes import Changes
from speck.core.change import Change, Rollback
from speck.core.job import Composition
from speck.core.settings import HistoryBounds
from speck.errors import Conflict, Rejected
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition
from testbed.doubles.world import World
from tests.support.threads import without_threads

A, B, C = chain("a", "b", "c")
FASTER = replace(B, trigger="1 second")
ENGINE = A.spe_address
REFUSED = Rejected("no such function", address=ENGINE)

Begin = Callable[[], Services]


def carry_out(services: Services, desired: Composition, *, atomic: bool = False) -> Operation:
    return user.carry_out(services.coordinator, desired, atomic=atomic)


def heal(services: Services) -> None:
    services.coordinator.reconciler.round()
    services.coordinator.operations.join()


def outcomes(services: Services) -> list[tuple[str, int | None]]:
    return [(each["outcome"], each["by"]) for each in services.queries.revisions("traffic")]


def test_a_revision_is_pending_then_applied(begin: Begin, world: World) -> None:
    services = begin()
    hold = world.hold("submit", name="a")
    operation, _ = user.apply(services.coordinator, composition(A, B))
    assert outcomes(services) == [("pending", None)]
    hold.release()
    assert operation.wait(30)
    assert outcomes(services) == [("applied", None)]
    assert services.queries.revisions("traffic")[0]["operation"] == operation.id
    carry_out(services, composition(A, B))  # the same again
    assert outcomes(begin()) == [("applied", None)]


def test_a_revision_of_which_nothing_starts_has_failed(begin: Begin, world: World) -> None:
    services = begin()
    world.fail("submit", REFUSED, name="c")
    carry_out(services, composition(C))
    assert outcomes(services) == [("failed", None)]
    carry_out(services, composition(A))
    assert outcomes(services) == [("failed", None), ("applied", None)]


def test_a_revision_is_partly_applied_until_the_rest_is_healed(begin: Begin, world: World) -> None:
    services = begin()
    away = replace(C, spe_address="sc://e2:1", source_topic="t8", sink_topic="t9")
    world.down("sc://e2:1")
    assert carry_out(services, composition(A, away)).state == "waiting"
    assert outcomes(services) == [("partly applied", None)]
    heal(services)
    assert outcomes(services) == [("partly applied", None)]
    world.up("sc://e2:1")
    services.coordinator.backoff.forget(["c"])
    heal(services)
    assert outcomes(services) == [("applied", None)]


def test_a_later_change_supersedes_and_the_operation_says_so(begin: Begin, world: World) -> None:
    services = begin()
    world.down(ENGINE)
    first = carry_out(services, composition(A))
    assert outcomes(services) == [("pending", None)]
    world.up(ENGINE)
    second = carry_out(services, composition(A, B))
    assert outcomes(services) == [("superseded", 2), ("applied", None)]
    assert services.queries.operations.data(first.id)["replaced_by"] == second.id
    assert services.queries.operations.data(second.id)["replaced_by"] == ""
    again = begin()
    assert again.queries.operations.data(first.id)["replaced_by"] == second.id


def test_a_rollback_is_noted_at_the_revision_that_it_undoes(begin: Begin) -> None:
    services = begin()
    carry_out(services, composition(A, B))
    carry_out(services, composition(A, FASTER))
    back, _ = user.rollback(services.coordinator, "traffic")
    assert back.wait(30)
    assert outcomes(services) == [("applied", None), ("rolled back", 3), ("applied", None)]


# --- all or nothing


@pytest.mark.parametrize("harm", ["refused", "away"])
def test_an_atomic_apply_goes_back_when_a_job_fails_or_waits(begin: Begin, world: World, harm: str) -> None:
    services = begin()
    carry_out(services, composition(A, B))
    added = replace(C, spe_address="sc://e2:1", source_topic="t8", sink_topic="t9")
    if harm == "refused":
        world.fail("submit", REFUSED, name="c")
    else:
        world.down("sc://e2:1")
    operation = carry_out(services, composition(A, FASTER, added), atomic=True)
    assert operation.state == ("failed" if harm == "refused" else "waiting")
    back = services.coordinator.operations.live(operation.replaced_by)
    assert back is not None
    assert back.wait(30)
    assert (back.kind, back.state, back.revision) == ("rollback", "succeeded", 3)
    assert set(world.where()) == {"a", "b"}
    assert [each.job.trigger for each in world.running("b")] == [None]
    assert outcomes(services) == [("applied", None), ("rolled back", 3), ("applied", None)]


def test_an_atomic_apply_goes_back_to_a_revision_beyond_the_bound(begin: Begin, world: World) -> None:
    services = begin()
    services.coordinator.store.bounds = HistoryBounds(revisions=1)
    carry_out(services, composition(B))
    world.fail("submit", REFUSED, name="c")
    apart = replace(C, source_topic="t8", sink_topic="t9")
    operation = carry_out(services, composition(FASTER, apart), atomic=True)  # nothing runs the former form
    assert (operation.state, operation.error) == ("failed", "")
    services.coordinator.operations.join()
    assert [each.job.trigger for each in world.running("b")] == [None]
    assert [each["number"] for each in services.queries.revisions("traffic")] == [3]


def test_an_atomic_first_apply_leaves_nothing(begin: Begin, world: World) -> None:
    services = begin()
    world.fail("submit", REFUSED, name="c")
    operation = carry_out(services, composition(A, B, C), atomic=True)
    back = services.coordinator.operations.live(operation.replaced_by)
    assert back is not None
    assert back.wait(30)
    assert (back.kind, world.where(), services.queries.compositions()) == ("delete", {}, [])
    assert [each["name"] for each in services.queries.deleted_compositions()] == ["traffic"]


def test_an_atomic_apply_that_succeeds_stays(begin: Begin) -> None:
    services = begin()
    operation = carry_out(services, composition(A, B), atomic=True)
    assert (operation.state, operation.replaced_by) == ("succeeded", "")
    assert outcomes(services) == [("applied", None)]


def test_an_atomic_apply_is_taken_back_after_a_restart(begin: Begin, world: World) -> None:
    services = begin()
    carry_out(services, composition(A))
    hold = world.hold("submit", name="b")
    world.fail("submit", REFUSED, name="c")
    apart = replace(C, source_topic="t8", sink_topic="t9")
    operation, _ = user.apply(services.coordinator, composition(A, B, apart), atomic=True)
    services.coordinator.operations.refuse_new()  # as a shutdown does first
    hold.release()
    assert operation.wait(30)
    assert (operation.replaced_by, operation.error) == ("", "")
    assert set(world.where()) == {"a", "b"}
    services = begin()
    services.coordinator.operations.join()
    assert set(world.where()) == {"a"}
    assert outcomes(services) == [("applied", None), ("rolled back", 3), ("applied", None)]


@pytest.mark.parametrize("defect", ["amid", "no thread"])
def test_an_atomic_apply_with_an_error_of_its_own_is_taken_back_after_a_restart(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    services = begin()
    carry_out(services, composition(A))
    operations = services.coordinator.operations
    with monkeypatch.context() as patched:
        if defect == "amid":

            def broken(*_: object) -> None:
                operations.refuse_new()  # as a shutdown does first
                raise ValueError("a defect")

            patched.setattr(Executor, "run", broken)
        else:
            without_threads(patched, "operation-")
        operation = carry_out(services, composition(A, B), atomic=True)
    error = operation.error
    assert error.startswith("internal error" if defect == "amid" else "it did not begin")
    services = begin()
    services.coordinator.operations.join()
    found = services.queries.operations.data(operation.id)
    assert (found["error"], found["replaced_by"] != "") == (error, True)
    assert set(world.where()) == {"a"}
    assert outcomes(services)[1:] == [("rolled back", 3), ("applied", None)]


def test_a_way_back_that_was_refused_after_an_error_is_not_tried_again(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = begin()
    carry_out(services, composition(A))
    carry = Changes.carry_out

    def refused(changes: Changes, change: Change, *rest: Any) -> Any:
        if isinstance(change, Rollback):
            raise Conflict("its former state is gone")
        return carry(changes, change, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Changes, "carry_out", refused)
        patched.setattr(Executor, "run", lambda *_: 1 / 0)
        operation = carry_out(services, composition(A, B), atomic=True)
    assert operation.error.endswith("; not reverted: its former state is gone")
    found = begin().queries.operations.data(operation.id)
    assert (found["error"], found["replaced_by"]) == (operation.error, "")


def test_an_atomic_apply_is_taken_back_after_a_restart_that_began_while_that_was_planned(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, carry = begin(), Changes.carry_out
    carry_out(services, composition(A))
    world.fail("submit", REFUSED, name="c")
    apart = replace(C, source_topic="t8", sink_topic="t9")

    def closing(changes: Changes, change: Change, *rest: Any) -> Any:
        if isinstance(change, Rollback):
            services.coordinator.operations.refuse_new()
        return carry(changes, change, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Changes, "carry_out", closing)
        operation = carry_out(services, composition(A, B, apart), atomic=True)
    assert (operation.state, operation.replaced_by, operation.error) == ("failed", "", "")
    services = begin()
    services.coordinator.operations.join()
    assert set(world.where()) == {"a"}
    assert outcomes(services) == [("applied", None), ("rolled back", 3), ("applied", None)]


def test_an_atomic_apply_is_taken_back_once_if_it_fails_while_the_server_starts(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = begin()
    carry_out(services, composition(A))
    world.fail("submit", REFUSED, name="b")
    reached, carry_on, carry = threading.Event(), threading.Event(), Changes.carry_out

    def slow(changes: Changes, change: Change, *rest: Any) -> Any:
        if isinstance(change, Rollback) and not reached.is_set():
            reached.set()
            assert carry_on.wait(30)
        return carry(changes, change, *rest)

    monkeypatch.setattr(Changes, "carry_out", slow)
    operation, _ = user.apply(services.coordinator, composition(A, B), atomic=True)
    assert reached.wait(30)
    services.coordinator.reverts.resume()  # as a start does after it has resumed the operation
    carry_on.set()
    assert operation.wait(30)
    services.coordinator.operations.join()
    found = services.queries.operations.data(operation.id)
    assert (found["error"], found["replaced_by"] != "") == ("", True)
    assert outcomes(services)[1:] == [("rolled back", 3), ("applied", None)]


def test_an_atomic_apply_that_cannot_be_taken_back_after_a_restart_says_so_and_stays(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = begin()
    carry_out(services, composition(A))
    world.fail("submit", REFUSED, name="c")
    apart = replace(C, source_topic="t8", sink_topic="t9")
    hold = world.hold("submit", name="b")
    operation, _ = user.apply(services.coordinator, composition(A, B, apart), atomic=True)
    services.coordinator.operations.refuse_new()
    hold.release()
    assert operation.wait(30)
    with monkeypatch.context() as patched:

        def refused(*_: object) -> None:
            raise Conflict("its former state is gone")

        patched.setattr(Changes, "carry_out", refused)
        found = begin().queries.operations.data(operation.id)
        assert (found["error"], found["state"]) == ("not reverted: its former state is gone", "failed")
    services = begin()
    services.coordinator.operations.join()
    assert set(world.where()) == {"a", "b"}
    assert [outcome for outcome, _ in outcomes(services)] == ["applied", "partly applied"]
