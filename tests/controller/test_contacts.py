"""The agent of a site connects: what was abandoned there ends first, whatever else is silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from speck.controller import contacts, reaper
from speck.controller.contacts import Contacts
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.reconciler import Bench
from testbed.doubles.world import World

GOOD = make_job("good", "in", "mid")
SITES = {"A": "sc://a:1", "B": "sc://b:1"}
LOST = [make_job(f"of-{name}", f"in-{name}", f"mid-{name}", spe_address=SITES[name]) for name in SITES]
MOVED = [make_job(each.job_name, each.source_topic, each.sink_topic) for each in LOST]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contacts, "GATHERING", 0.0)
    monkeypatch.setattr(reaper, "PATIENCE", 0.3)


@pytest.fixture(name="left")
def left_fixture(bench: Bench, world: World) -> Iterator[Bench]:
    """A bench whose jobs were moved off two sites that are away."""
    bench.apply(GOOD, *LOST)
    for address in SITES.values():
        world.down(address)
    moved, _ = user.apply(bench.coordinator, composition(GOOD, *MOVED), leave_behind=[*SITES.values()])
    assert moved.wait(30)
    yield bench
    bench.coordinator.reaper.close()


def contacts_of(bench: Bench) -> Contacts:
    coordinator = bench.coordinator
    return Contacts(coordinator.reaper, lambda site: {SITES[site]}, coordinator.reconciler.round)


def abandoned(bench: Bench) -> set[str]:
    return {each.address for each in bench.store.abandoned_attempts()}


def come_back(bench: Bench, world: World, site: str) -> list[str]:
    """Have a site come back; returns the calls that its engine got at the contact."""
    world.up(SITES[site])
    world.calls.clear()
    found = contacts_of(bench)
    found.note(site)
    found.round()
    return [method for method, address, _ in world.calls if address == SITES[site]]


def test_abandoned_copies_end_before_anything_else_is_asked(left: Bench, world: World) -> None:
    assert abandoned(left) == set(SITES.values())
    calls = come_back(left, world, "A")
    assert calls[:2] == ["status", "stop"]
    assert abandoned(left) == {SITES["B"]}
    first = next(method for method, _, _ in world.calls)
    assert first == "status"  # that of the copy: no other engine or broker was asked before


def test_they_end_while_a_pass_waits_for_another_site(left: Bench, world: World) -> None:
    world.up(SITES["B"])
    hold = world.hold("status", address=SITES["B"])
    try:
        left.coordinator.reaper.round()
        eventually(hold.reached.is_set, bool)
        come_back(left, world, "A")
        assert abandoned(left) == {SITES["B"]}
    finally:
        hold.release()
    eventually(lambda: abandoned(left), lambda found: found == set())


def test_a_copy_that_another_pass_is_ending_is_stopped_once(left: Bench, world: World) -> None:
    world.up(SITES["A"])
    hold = world.hold("stop", address=SITES["A"])
    try:
        left.coordinator.reaper.round()
        eventually(hold.reached.is_set, bool)
        assert "stop" not in come_back(left, world, "A")
    finally:
        hold.release()
    eventually(lambda: SITES["A"] in abandoned(left), lambda found: not found)


def test_a_defect_at_one_site_keeps_no_other_one_from_being_reaped(left: Bench, world: World) -> None:
    for address in SITES.values():
        world.up(address)
    defect = RuntimeError("a defect")
    world.fail("status", defect, address=SITES["A"], times=None)  # type: ignore[arg-type]
    assert left.coordinator.reaper.reap() == {SITES["A"]}
    assert abandoned(left) == {SITES["A"]}
    world.heal()
    assert left.coordinator.reaper.reap() == set()
    assert abandoned(left) == set()


def test_an_engine_that_was_away_for_long_is_asked_in_each_round_again(left: Bench, world: World) -> None:
    left.coordinator.reaper._missed.update(dict.fromkeys(SITES.values(), reaper.EAGER))
    contact = contacts_of(left)
    contact.note("A")
    contact.round()  # its engine does not answer yet
    world.calls.clear()
    left.coordinator.reaper._rounds = 0
    left.coordinator.reaper.round()
    left.coordinator.reaper.close()
    asked = {address for _, address, _ in world.calls}
    assert SITES["A"] in asked
    assert SITES["B"] not in asked


def test_fences_are_raised_and_copies_have_the_time_to_read_them(bench: Bench, world: World) -> None:
    """A session is deleted two passes after its fence was raised, though one may follow a contact at once."""
    there, away = make_job("b", "t1", "t2"), "tcp://b2:1883"
    moved = replace(there, spe_address=SITES["B"], source_broker=away, sink_broker=away)
    bench.apply(there)
    lost = (there.spe_address, there.source_broker)
    for address in lost:
        world.down(address)
    operation, _ = user.apply(bench.coordinator, composition(moved), leave_behind=[*lost])
    assert operation.wait(30)
    world.up(there.source_broker)
    (session,) = bench.store.abandoned_sessions()
    bench.coordinator.reaper.end_at(lost)
    broker = world.broker(there.source_broker)
    assert broker.fences == {session.name: 2}
    assert [each.fenced for each in bench.store.abandoned_sessions()] == [False]
    bench.coordinator.reaper.reap()
    assert set(broker.sessions) == {session.name}
    bench.coordinator.reaper.reap()
    assert bench.store.abandoned_sessions() == []


def test_many_contacts_are_followed_by_one_round(left: Bench) -> None:
    rounds: list[int] = []
    contact = Contacts(left.coordinator.reaper, lambda site: (), lambda: rounds.append(1))
    for number in range(100):
        contact.note(f"s{number}")
    contact.round()
    contact.round()
    assert rounds == [1]
