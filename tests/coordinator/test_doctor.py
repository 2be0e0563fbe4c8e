"""The doctor finds what may lose messages, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import speck
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.runtime import Handle, JobMetrics, State
from speck.core.settings import Settings
from speck.errors import Rejected
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

ENGINE, BROKER = "sc://e1:1", "tcp://b1:1883"
SITES = Inventory({"north": one_site("north", ENGINE, BROKER)})


class Stateful(InMemoryEngine):
    """An engine whose jobs named ``lost-state`` have left nothing that can be found."""

    def left_state(self, handle: Handle) -> State | None:
        if handle.details["job"] == "lost-state":
            raise Rejected("checkpoint_dir /nowhere cannot be seen from here", address=self.address)
        return super().left_state(handle)


@pytest.fixture(name="services")
def services_fixture(tmp_path: Path, world: World) -> Iterator[Services]:
    kinds = double_kinds(world)
    registry = replace(
        kinds, engines=(replace(kinds.engines[0], connect=lambda address, _: Stateful(world, address)),)
    )
    with Store(tmp_path / "store") as store:
        services = build(store, registry, SITES, Settings(roots=(write_code(tmp_path),), period=0))
        operation, _ = user.apply(
            services.coordinator,
            composition(make_job("a"), make_job("lost-state", "t5", "t6"), make_job("b", "t7", "t8")),
        )
        assert operation.wait(30)
        assert operation.state == "succeeded"
        yield services
        services.coordinator.close()


def found(services: Services) -> dict[tuple[str, str], str]:
    """The messages of all findings, by kind and place."""
    return {(each["finding"], each["where"]): each["message"] for each in services.doctor.diagnose()}


def test_a_sound_composition_has_no_findings_but_its_unreadable_state(services: Services) -> None:
    assert found(services) == {
        ("state unreadable", "lost-state"): "checkpoint_dir /nowhere cannot be seen from here"
    }


def test_sessions_near_their_bound_and_dropped_messages(services: Services, world: World) -> None:
    world.broker(BROKER).backlog["speck-a"] = 600_000  # of 100 bytes each
    assert "keeps 60 MB" in found(services)["session near its limit", BROKER]
    world.broker(BROKER).backlog["speck-a"] = 0
    world.broker(BROKER).dropped = 2005
    assert "has dropped 2005 messages" in found(services)["session near its limit", BROKER]


def test_messages_that_no_process_sends(services: Services, world: World) -> None:
    world.broker(BROKER).stranded = 1450
    assert "no process sends 1,450 messages" in found(services)["messages stranded", BROKER]
    world.broker(BROKER).stranded = None  # it is not known
    assert ("messages stranded", BROKER) not in found(services)
    world.broker(BROKER).dropped = 7
    world.fail("stranded", Rejected("method is 'stranded'", address=BROKER), address=BROKER, times=9)
    assert [place for kind, place in found(services) if place == BROKER] == [BROKER]  # an earlier version


@pytest.mark.parametrize(("bound", "near"), [(20_000_000, True), (1_000_000_000, False), (0, False)])
def test_the_bound_of_a_brokers_sessions_is_the_inventorys(
    services: Services, world: World, bound: int, near: bool
) -> None:
    site = replace(SITES.sites["north"], max_queued_bytes=bound)
    doctor = replace(services.doctor, inventory=Inventory({"north": site}))
    world.broker(BROKER).backlog["speck-a"] = 120_000  # of 100 bytes each
    messages = [each["message"] for each in doctor.diagnose() if each["where"] == BROKER]
    assert any("keeps 12 MB" in each and "(20 MB, from the inventory" in each for each in messages) is near


def test_sessions_of_another_speck_are_no_finding(services: Services, world: World) -> None:
    before = found(services)
    world.broker(BROKER).owners["speck-theirs"] = "0123456789abcdef"
    assert found(services) == before


@pytest.mark.parametrize("version", ["", "7.1"])
def test_a_standby_of_another_version_is_named(services: Services, version: str) -> None:
    class Pair:
        def status(self) -> dict[str, Any]:
            return {"in_sync": True, "reason": "", "other_version": version}

    doctor = replace(services.doctor, primary=Pair())  # type: ignore[arg-type]
    messages = [each["message"] for each in doctor.diagnose() if each["where"] == "standby"]
    expected = f"the version of the standby is 7.1, that of this server {speck.__version__}"
    assert messages == ([expected] if version else [])


def test_sinks_readers_and_losses_of_jobs(services: Services, world: World) -> None:
    details = {
        "retainedDropped": 4,
        "throttledMillis": 9000,
        "connected": "false",
        "lostMessages": 3,
        "receivedQos0": 9,
        "badStamps": 1200,
    }
    world.metrics["a"] = JobMetrics(7.0, details=details)
    world.metrics["b"] = JobMetrics(
        7.0, details={"duplicatesDropped": 3, "connected": "true", "receivedQos0": 0}
    )
    services.coordinator.sampler.sample()
    services.coordinator.sampler.await_answers()
    of_a = [each for each in services.doctor.diagnose() if each["where"] == "a"]
    assert [each["finding"] for each in of_a] == [
        *("sink retains too much", "sink retains too much", "reader not connected"),
        *("messages at QoS 0", "stamps ignored", "messages lost", "messages lost"),
    ]
    assert found(services)["stamps ignored", "a"].startswith("1,200 messages had the stamp of a program")
    assert all(each["remedy"] for each in of_a)
    assert not [each for each in services.doctor.diagnose() if each["where"] == "b"]


def test_what_does_not_answer_is_a_finding_and_hides_no_other(services: Services, world: World) -> None:
    world.down(BROKER)
    all_found = found(services)
    assert "cannot be reached" in all_found["site", BROKER]
    assert ("state unreadable", "lost-state") in all_found
