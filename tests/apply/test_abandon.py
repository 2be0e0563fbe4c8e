"""A job moves off a site that does not answer, when the user says so, over engines in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from speck.apply.operation import Operation
from speck.coordinator import Coordinator, Queries, Services
from speck.core.job import Composition
from speck.core.runtime import State
from speck.core.split import Place, Split, expand
from speck.errors import InvalidInput, SpeckError
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job
from testbed.benches.sessions import named
from testbed.doubles.world import World
from testbed.servers.rest import RestServer, yaml_of

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, OTHER, BROKER = "sc://e1:1", "sc://e2:1", "tcp://b1:1883"
A, B = chain("a", "b")
MOVED = replace(B, spe_address=OTHER)


def carry_out(coordinator: Coordinator, desired: Composition, *leave_behind: str) -> Operation:
    return user.carry_out(coordinator, desired, leave_behind=leave_behind)


def test_without_the_word_nothing_leaves_a_silent_site(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    operation = carry_out(coordinator, composition(A, MOVED))
    assert operation.actions["b"].state == "waiting"
    assert OTHER not in world.where().values()


def test_a_copy_is_left_and_fenced_and_stopped_when_its_engine_answers(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    (old,) = world.running("b")
    world.down(ENGINE)
    operation = carry_out(coordinator, composition(A, MOVED), ENGINE)
    assert operation.actions["b"].state == "done"
    (new,) = world.running("b")
    assert (new.attempt.number, new.attempt.session) == (2, old.attempt.session)
    assert new.attempt.state is not None
    assert old.message == "taken over by attempt 2"
    assert queries.job("b")["left_behind"] == [{"address": ENGINE, "attempt": 1}]
    assert world.where()["b"] == OTHER

    carry_out(coordinator, composition(A, MOVED))  # it does not answer yet
    assert [copy.attempt.id for copy in coordinator.store.abandoned_attempts()] == [old.attempt.id]
    world.up(ENGINE)
    carry_out(coordinator, composition(A, MOVED))
    assert coordinator.store.abandoned_attempts() == []
    assert old.attempt.id not in world.engine(ENGINE).jobs
    assert [running.attempt.id for running in world.running("b")] == [new.attempt.id]


def test_a_session_that_its_broker_has_lost_is_filled_again_for_the_next_copy(
    coordinator: Coordinator, world: World
) -> None:
    """As after a power cut of the broker, which may be at the site whose engine stays away."""
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    del world.broker(BROKER).sessions[named("b")]
    assert carry_out(coordinator, composition(A, MOVED), ENGINE).actions["b"].state == "done"
    assert world.where()["b"] == OTHER
    assert world.broker(BROKER).refilled == ["t1"]


def test_each_part_of_a_split_is_fenced_as_any_job(coordinator: Coordinator, world: World) -> None:
    places = tuple(Place(spe_address=each) for each in (ENGINE, ENGINE))
    split = Split(combiners=places, partitioner="hash", window_us=1, slide_us=1)
    parts = expand(make_job("hot"), split)
    carry_out(coordinator, composition(*parts))
    old = [copy for part in parts for copy in world.running(part.job_name)]
    assert [world.broker(BROKER).fences[named(part.job_name)] for part in parts] == [1] * 4
    world.down(ENGINE)
    carry_out(coordinator, composition(*(replace(part, spe_address=OTHER) for part in parts)), ENGINE)
    assert [copy.message for copy in old] == ["taken over by attempt 2"] * 4
    assert world.where() == dict.fromkeys((part.job_name for part in parts), OTHER)


def test_the_loop_stops_a_copy_when_its_engine_answers(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    assert carry_out(coordinator, composition(A, MOVED), ENGINE).actions["b"].state == "done"
    coordinator.reconciler.round()
    assert len(coordinator.store.abandoned_attempts()) == 1  # it does not answer yet
    world.up(ENGINE)
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    assert [address for name, address in world.where().items() if name == "b"] == [OTHER]
    last = queries.events(1)[0]
    assert (last["kind"], last["composition"]) == ("stopped", queries.compositions()[0]["name"])


def test_its_broker_must_be_reached(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    world.down(BROKER)
    assert carry_out(coordinator, composition(A, MOVED), ENGINE).actions["b"].state == "waiting"
    assert len(world.running("b")) == 1
    assert coordinator.store.abandoned_attempts() == []


def test_a_state_that_the_new_place_cannot_read_is_refused_before_anything(
    coordinator: Coordinator, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    monkeypatch.setattr(world, "states", frozenset())
    monkeypatch.setattr("testbed.doubles.engine.InMemoryEngine.left_state", lambda self, handle: _elsewhere())
    operation = carry_out(coordinator, composition(A, MOVED), ENGINE)
    assert "cannot be read" in operation.actions["b"].error
    assert world.where()["b"] == ENGINE
    assert world.broker(BROKER).fences[named("b")] == 1
    stateless = replace(MOVED, upgrade="stateless")
    assert carry_out(coordinator, composition(A, stateless), ENGINE).actions["b"].state == "done"
    assert world.where()["b"] == OTHER


def _elsewhere() -> State:
    return State("spark-checkpoint", "memory:/elsewhere")


def test_a_job_that_goes_leaves_a_fence_until_its_copy_has_ended(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    assert carry_out(coordinator, composition(replace(A, spe_address=OTHER)), ENGINE).state == "succeeded"
    assert world.broker(BROKER).sessions == {named("a"): "t0"}
    assert world.broker(BROKER).fences == {named("a"): 2, named("b"): 3}
    world.up(ENGINE)
    carry_out(coordinator, composition(replace(A, spe_address=OTHER)))
    assert world.broker(BROKER).fences == {named("a"): 2}
    assert world.where() == {"a": OTHER}
    assert coordinator.store.abandoned_attempts() == []


def test_a_crash_in_between_forgets_nothing(
    begin: Callable[[], Services], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = begin().coordinator
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    hold = world.hold("submit", "b")
    operation, _ = user.apply(coordinator, composition(A, MOVED), leave_behind=[ENGINE])
    assert hold.reached.wait(30)
    assert operation.to_dict()["left_behind"] == [ENGINE]
    assert [copy.address for copy in coordinator.store.abandoned_attempts()] == [ENGINE]
    hold.release()
    assert operation.wait(30)
    coordinator = begin().coordinator
    assert [copy.address for copy in coordinator.store.abandoned_attempts()] == [ENGINE]


def test_what_is_left_behind_must_be_known(coordinator: Coordinator) -> None:
    with pytest.raises(InvalidInput, match="'nowhere' is not a site"):
        user.apply(coordinator, composition(A, B), leave_behind=["nowhere"])


def test_an_engine_that_has_forgotten_the_copy_ends_the_matter(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    carry_out(coordinator, composition(A, MOVED), ENGINE)
    world.restart(ENGINE)
    carry_out(coordinator, composition(replace(A, spe_address=OTHER), MOVED))
    assert coordinator.store.abandoned_attempts() == []
    assert ("stop", ENGINE, "b") not in world.changes()  # there was nothing to stop


def test_a_copy_outlives_its_composition_and_is_stopped_by_the_apply_of_another(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(B))
    world.down(ENGINE)
    carry_out(coordinator, composition(MOVED), ENGINE)
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert [copy.address for copy in coordinator.store.abandoned_attempts()] == [ENGINE]
    assert world.broker(BROKER).fences == {named("b"): 3}
    world.up(ENGINE)
    carry_out(coordinator, Composition("other", {"a": A}))
    assert coordinator.store.abandoned_attempts() == []
    assert world.broker(BROKER).fences == {named("a"): 1}


def test_the_word_is_given_over_rest(rest: RestServer) -> None:
    client, world = rest.client, rest.world
    client.apply(yaml_of("a t0 t1").encode(), "one", wait=30)
    world.down("sc://e1:15002")
    moved = yaml_of("a t0 t1").replace("sc://e1:15002", "sc://e2:15002").encode()
    operation = client.apply(moved, "one", wait=30, leave_behind=["sc://e1:15002"])
    assert (operation["state"], operation["left_behind"]) == ("succeeded", ["sc://e1:15002"])
    assert client.job("a")["left_behind"] == [{"address": "sc://e1:15002", "attempt": 1}]
    with pytest.raises(SpeckError, match="'e9' is not a site"):
        client.apply(moved, "one", leave_behind=["e9"])


def test_the_loop_goes_on_with_an_operation_that_waits(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    world.down(BROKER)
    assert carry_out(coordinator, composition(A, MOVED), ENGINE).state == "waiting"
    coordinator.reconciler.round()
    assert coordinator.operations.running() == []  # its broker does not answer yet
    world.up(BROKER)
    heal(coordinator)
    assert world.where()["b"] == OTHER
    assert [copy.address for copy in coordinator.store.abandoned_attempts()] == [ENGINE]
    head = coordinator.store.head("traffic")
    assert head is not None
    assert head.left_behind == (ENGINE,)
    world.up(ENGINE)
    coordinator.reconciler.round()
    head = coordinator.store.head("traffic")
    assert head is not None
    assert head.left_behind == ()  # the change is carried out: a later one must say so again


def test_a_later_apply_takes_the_word_back(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    world.down(ENGINE)
    world.down(BROKER)
    assert carry_out(coordinator, composition(A, MOVED), ENGINE).state == "waiting"
    assert carry_out(coordinator, composition(A, MOVED)).state == "waiting"
    world.up(BROKER)
    heal(coordinator)
    assert world.where()["b"] == ENGINE


def heal(coordinator: Coordinator) -> None:
    """One round of the loop, in which every job is due."""
    coordinator.backoff.forget(["a", "b"])
    coordinator.reconciler.round()
    for operation in coordinator.operations.running():
        assert operation.wait(30)
