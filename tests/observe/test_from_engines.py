"""``speck sites check --from-engines``: brokers that jobs do not reach, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.inventory import Inventory
from speck.errors import NoCapacity
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.servers.rest import RestServer, rest_server
from tests.fixtures.speck_command import Speck

E1, E2 = "sc://e1:1", "sc://e2:1"
B1, B2 = "tcp://b1:1883", "tcp://b2:1883"


@pytest.fixture(name="rest")
def rest_of_two_sites(tmp_path: Path) -> Iterator[RestServer]:
    one = replace(one_site("one", E1, B1), job_broker_address="tcp://mqtt_1:1883")
    with rest_server(tmp_path, Inventory({"one": one, "two": one_site("two", E2, B2)})) as server:
        write_code(tmp_path / "root")
        yield server


def test_the_broker_of_the_own_site_is_a_fault_and_another_a_remark(rest: RestServer, speck: Speck) -> None:
    rest.world.cut_off = {(E1, B1), (E2, B1)}
    assert speck("sites", "check").code == 0
    assert rest.world.counts()["reach"] == 0
    said = speck("sites", "check", "--from-engines")
    assert said.code == 1
    fault = f"its jobs do not reach broker {B1} (for jobs: tcp://mqtt_1:1883): cannot reach broker {B1}"
    assert f"one, engine {E1}: {fault}" in said.out
    assert "job_broker_address" in said.out
    assert f"two, engine {E2}: remark: {fault}" in said.out
    assert said.out.splitlines()[-1] == "1 fault"


def test_a_broker_that_a_job_there_uses_is_a_fault(rest: RestServer, speck: Speck) -> None:
    job = make_job("a", spe_address=E2, source_broker=B1, sink_broker=B2)
    operation, _ = user.apply(rest.services.coordinator, composition(job))
    assert operation.wait(30)
    rest.world.cut_off = {(E2, B1)}
    assert speck("sites", "check", "--from-engines").code == 1


def test_an_engine_without_room_and_a_broker_that_is_down_are_no_further_faults(
    rest: RestServer, speck: Speck
) -> None:
    rest.world.fail("reach", NoCapacity("no free slot"), address=E1, times=None)
    said = speck("sites", "check", "--from-engines")
    assert said.code == 0
    assert f"remark: the path from its jobs to broker {B1} was not tested: no free slot" in said.out
    rest.world.down(B2)
    said = speck("sites", "check", "--from-engines")
    assert f"do not reach broker {B2}" not in said.out
