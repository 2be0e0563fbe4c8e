"""Cycles of jobs through several compositions, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

SITES = Inventory({"north": one_site("north", "sc://e1:1", "tcp://b1:1883")})
PATH = "a (there) -> b (back) -> a (there)"
THERE = composition(make_job("a", "t1", "t2"), make_job("beside", "t2", "t9"), name="there")
BACK = composition(make_job("b", "t2", "t1"), make_job("other", "t8", "t7"), name="back")


@pytest.fixture(name="services")
def services_fixture(tmp_path: Path) -> Iterator[Services]:
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        services = build(store, double_kinds(World()), SITES, settings)
        operation, _ = user.apply(services.coordinator, THERE)
        assert operation.wait(30)
        yield services
        services.coordinator.close()


def test_a_plan_names_the_cycle_that_a_job_closes(services: Services) -> None:
    assert user.plan(services.coordinator, THERE).consequences == {}
    notes = user.plan(services.coordinator, BACK).consequences
    assert list(notes) == ["b"]
    assert PATH in notes["b"]


def test_an_apply_and_the_doctor_name_it_too(services: Services) -> None:
    operation, _ = user.apply(services.coordinator, BACK)
    assert operation.wait(30)
    actions = services.coordinator.operations.data(operation.id)["actions"]
    assert [each["job"] for each in actions if PATH in each["consequence"]] == ["b"]
    assert user.plan(services.coordinator, BACK).consequences == {}, "nothing changes"
    (finding,) = [each for each in services.doctor.diagnose() if each["finding"] == "cycle of jobs"]
    assert (finding["where"], PATH in finding["message"]) == ("a", True)


def test_jobs_that_only_feed_one_another_are_no_cycle(services: Services) -> None:
    feeding = composition(make_job("b", "t2", "t3"), make_job("c", "t0", "t1"), name="back")
    assert user.plan(services.coordinator, feeding).consequences == {}
    operation, _ = user.apply(services.coordinator, feeding)
    assert operation.wait(30)
    assert not [each for each in services.doctor.diagnose() if each["finding"] == "cycle of jobs"]
