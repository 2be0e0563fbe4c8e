"""``speck sites check``: what is found at the sites, what is wrong there, and what mends it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from speck import cli
from speck.core.inventory import Broker, Inventory
from speck.core.runtime import Checkup, Complaint
from speck.errors import OutcomeUnknown
from speck.observe.healthcheck import clock_complaint, examine
from testbed.benches.examples import one_site
from testbed.doubles.engine import InMemoryEngine
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.rest import RestServer, rest_server
from tests.fixtures.speck_command import Speck

NEAR, FAR = "sc://near:15002", "http://far:8081/"
BROKERS = {NEAR: "tcp://near:1883", FAR: "tcp://far:1883"}


@pytest.fixture(name="rest")
def rest_of_two_sites(tmp_path: Path) -> Iterator[RestServer]:
    """A server with two sites, one of Spark and one of Flink."""
    sites = {
        name: one_site(name, address, BROKERS[address], slots=8)
        for name, address in (("near", NEAR), ("far", FAR))
    }
    with rest_server(tmp_path, Inventory(sites)) as server:
        yield server


def test_nothing_is_wrong(speck: Speck) -> None:
    said = speck("sites", "check")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].split() == [
        *("SITE", "SERVER", "ADDRESS", "REACHABLE", "VERSION", "CLOCK", "LIMITS", "FAULTS"),
    ]
    assert lines[1].rstrip().endswith("  none")
    assert "cores 2, slots 8, slots free 8" in lines[1]
    assert len(lines) == 6
    assert lines[-1] == "no faults"


def test_sessions_of_another_speck_are_a_remark(rest: RestServer, speck: Speck) -> None:
    rest.world.broker(BROKERS[NEAR]).owners["speck-theirs"] = "0123456789abcdef"
    said = speck("sites", "check")
    assert said.code == 0
    assert f"near, broker {BROKERS[NEAR]}: remark: 1 session of another SpecK" in said.out
    assert said.out.splitlines()[-1] == "no faults"


def test_what_is_wrong_is_told_with_what_mends_it(rest: RestServer, speck: Speck) -> None:
    rest.world.engine(NEAR).checkup = Checkup(
        version="double 1.0", clock=(61.0, 62.0), complaints=(Complaint("it is too old", "install another"),)
    )
    rest.world.broker(BROKERS[NEAR]).warnings.append("it drops messages (raise max_queued_messages)")
    rest.world.down(FAR)
    rest.world.fail(
        "check", OutcomeUnknown("tcp://far:1883 did not answer"), address=BROKERS[FAR], times=None
    )
    said = speck("sites", "check")
    assert said.code == 1
    assert said.out.splitlines()[5:] == [
        f"near, engine {NEAR}: it is too old",
        "    remedy: install another",
        f"near, engine {NEAR}: its clock is at least 61 s ahead of this machine's",
        "    remedy: synchronize both clocks by NTP (check with timedatectl)",
        "near, broker tcp://near:1883: it drops messages (raise max_queued_messages)",
        f"far, engine {FAR}: {FAR} cannot be reached: connection refused",
        "    remedy: start it, open its port to this machine, or correct spe_address in the inventory",
        "far, broker tcp://far:1883: tcp://far:1883 did not answer",
        "    remedy: check its log; another program may be listening at this address",
        "5 faults",
    ]


def test_a_defect_of_a_binder_hides_no_other_place(speck: Speck, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(engine: InMemoryEngine, broker: str = "") -> Checkup:
        raise ValueError("no such version")

    monkeypatch.setattr(InMemoryEngine, "reach", fail)
    said = speck("sites", "check", "--from-engines")
    assert said.code == 0
    untested = f"the path from its jobs to broker {BROKERS[NEAR]} was not tested: internal error"
    assert f"near, engine {NEAR}: remark: {untested}" in said.out
    monkeypatch.setattr(InMemoryEngine, "checkup", fail)
    said = speck("sites", "check")
    assert said.code == 1
    for name, engine in (("near", NEAR), ("far", FAR)):
        assert f"{name}, engine {engine}: internal error: ValueError('no such version')" in said.out


def test_brokers_of_no_site_are_seen(tmp_path: Path) -> None:
    near = one_site("near", NEAR, BROKERS[NEAR], slots=8)
    brokers = {
        "cloud": Broker(broker_address="tcp://cloud:1883"),
        "same": Broker(broker_address=BROKERS[NEAR]),
    }
    with rest_server(tmp_path, Inventory({"near": near}, brokers)) as rest:
        rest.world.down("tcp://cloud:1883")
        found = rest.client.sites()
        assert [(each["name"], len(each["engines"])) for each in found] == [("near", 1), ("cloud", 0)]
        assert found[1]["broker"]["reached"] is False
        last = rest.client.check_sites()[-1]
        assert (last["site"], last["role"], last["reached"]) == ("cloud", "broker", False)
        assert rest.services.sites.site_at("tcp://cloud:1883") == "cloud"


def test_a_checkup_as_json(rest: RestServer, speck: Speck) -> None:
    rest.world.engine(NEAR).checkup = Checkup(version="double 2", limits={"x": 1}, clock=(-0.25, 0.25))
    rest.world.down(BROKERS[NEAR])
    said = speck("sites", "check", "--json")
    assert said.code == 1
    engine, broker, *others = said.data
    assert engine == {
        "site": "near",
        "role": "engine",
        "address": NEAR,
        "reached": True,
        "version": "double 2",
        "limits": {"slots": 8, "slots_free": 8, "cores": 2, "x": 1},
        "clock_ahead": [-0.25, 0.25],
        "wrong": [],
    }
    assert (broker["reached"], len(broker["wrong"]), len(others)) == (False, 1, 2)


def test_sites_are_listed_as_before(speck: Speck) -> None:
    assert [each["name"] for each in speck("sites", "--json").data] == ["near", "far"]
    assert "near  engine  sc://near:15002" in speck("sites").out


def test_an_inventory_is_looked_at_without_a_server(
    mosquitto: MosquittoServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nobody = REFUSING_PORT
    file = tmp_path / "sites.yaml"
    file.write_text(
        f"sites:\n  A:\n    spe_address: http://127.0.0.1:{nobody}/\n"
        f"    broker_address: {mosquitto.address}\n"
    )
    dead = ["speck", "--server", f"http://127.0.0.1:{nobody}", "sites", "check", "--sites", str(file)]
    monkeypatch.setattr(sys, "argv", dead)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"A, engine http://127.0.0.1:{nobody}/: " in lines[3]
    assert "cannot be reached" in lines[3]
    assert "mosquitto version 2" in lines[2]
    assert lines[-1] == "1 fault"


def test_who_does_not_answer_keeps_nobody_waiting(rest: RestServer) -> None:
    hold = rest.world.hold("checkup", address=NEAR)
    try:
        found = examine(rest.coordinator.inventory, rest.coordinator.pool, 0.2)
    finally:
        hold.release()
    assert [each.reached for each in found] == [False, True, True, True]
    assert found[0].found.complaints[0].message == f"{NEAR} did not answer in 0.2 s"


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (None, None),
        ((0.0, 0.1), None),
        ((-4.0, 30.0), None),  # it may be right
        ((-30.0, 4.0), None),
        ((6.0, 30.0), "at least 6 s ahead of"),
        ((-3600.2, -3600.1), "at least 3600 s behind"),
    ],
)
def test_a_clock_is_wrong_only_when_that_is_sure(
    clock: tuple[float, float] | None, words: str | None
) -> None:
    complaint = clock_complaint(clock)
    assert (complaint is None) == (words is None)
    if complaint is not None:
        assert str(words) in complaint.message
