"""The upgrade of agents in waves, by REST and the command line, over doubles of agents and engines."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

import speck as package
from speck.client import RequestRefused
from speck.coordinator.agents.rollout import Arrival, arrival, grown
from speck.coordinator.agents.upgrades import Upgrades
from speck.core.inventory import Inventory
from speck.core.lifecycle import EventKind
from speck.errors import BinderError, Busy, OutcomeUnknown, StoreFull
from speck.link.methods import UPGRADABLE, UPGRADE
from speck.server.tokens import Owner, Role, Tokens, digest
from speck.store import Event
from speck.store.leveldb.database import Database
from speck.testing.waiting import eventually
from testbed.benches.examples import one_site
from testbed.doubles.agents import Wires
from testbed.servers.rest import RestServer, rest_server
from tests.fixtures.speck_command import Speck
from tests.support.threads import without_threads

NAMES = ("s1", "s2", "s3")
SITES = Inventory(
    {
        each: replace(one_site(each, f"sc://{each}:15002", f"tcp://{each}:1883"), agent=each != "direct")
        for each in (*NAMES, "direct")
    }
)
NEW = package.__version__
PATIENCE = 20.0


class Agents:
    """Agents that replace themselves when they are asked, unless a test says otherwise."""

    def __init__(self, wires: Wires) -> None:
        self.wires, self.order = wires, list[str]()
        for site in NAMES:
            self.join(site)

    def join(self, site: str, version: str = "7") -> None:
        self.wires.connect(site, time.time(), version=version)
        self.wires.answers[site, UPGRADABLE] = lambda _: {}
        self.wires.answers[site, UPGRADE] = lambda _: self.replace(site, NEW)

    def replace(self, site: str, version: str) -> None:
        self.order.append(site)
        self.wires.connect(site, time.time(), version=version)

    def on_upgrade(self, site: str, act: Callable[[dict[str, Any]], object]) -> None:
        self.wires.answers[site, UPGRADE] = act


@pytest.fixture(name="rest")
def rest_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    monkeypatch.setattr("speck.coordinator.agents.upgrades.LOOK", 0.01)
    with rest_server(tmp_path, SITES) as rest:
        yield rest


@pytest.fixture(name="agents")
def agents_fixture(rest: RestServer) -> Agents:
    rest.services.agents.connections = wires = Wires()
    return Agents(wires)


@pytest.fixture(name="upgrades")
def upgrades_fixture(rest: RestServer) -> Upgrades:
    return rest.services.upgrades


def apply_jobs(rest: RestServer, name: str = "one", sites: tuple[str, ...] = NAMES) -> None:
    """Apply a composition with a job at each of these sites."""
    jobs = [
        {
            "job_name": f"{name}-{each}",
            "site": each,
            "source_topic": f"{name}-in-{each}",
            "sink_topic": f"{name}-out-{each}",
            "entry_class": "work",
            "job_path": "work.py",
        }
        for each in sites
    ]
    rest.client.apply(json.dumps({"jobs": jobs}).encode(), name, wait=60)


def ended(
    rest: RestServer, sites: tuple[str, ...] = (), settle: float = 0.05, **query: Any
) -> dict[str, Any]:
    """An upgrade, at its end."""
    rest.client.upgrade_sites(sites, settle=settle, **query)
    return eventually(rest.client.upgrade_of_sites, lambda found: found["state"] != "running", PATIENCE)


def states(upgrade: dict[str, Any]) -> list[str]:
    return [each["state"] for each in upgrade["sites"]]


def messages(rest: RestServer, kind: str) -> list[str]:
    return [each.message for each in rest.coordinator.store.events() if each.kind == kind]


@pytest.mark.parametrize(
    ("connected", "reconnected", "answered", "expected"),
    [
        (None, True, True, Arrival.AWAITED),
        (None, True, False, Arrival.AWAITED),
        ("1", False, True, Arrival.AWAITED),
        ("1", False, False, Arrival.AWAITED),
        ("1", True, True, Arrival.RETURNED),
        ("1", True, False, Arrival.UNCLEAR),
        ("2", True, True, Arrival.ARRIVED),
        ("2", True, False, Arrival.ARRIVED),
        ("2", False, True, Arrival.ARRIVED),
    ],
)
def test_what_a_connection_says(
    connected: str | None, reconnected: bool, answered: bool, expected: Arrival
) -> None:
    assert arrival(connected, "2", reconnected=reconnected, answered=answered) is expected


def test_an_upgrade_without_a_thread_ends(
    rest: RestServer, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_threads(monkeypatch, "upgrade")
    found = ended(rest)
    assert (found["state"], states(found)) == ("failed", ["untouched"] * 3)
    assert found["error"] == "wave 1 of 2: it did not begin: can't start new thread"
    assert len(messages(rest, "not upgraded")) == 1
    monkeypatch.undo()
    assert ended(rest)["state"] == "succeeded"
    assert set(agents.order) == set(NAMES)


def test_losses_are_compared_by_job_and_reason() -> None:
    before = {("a", "session lost"): 3, ("b", "reader"): 1}
    assert grown(before, before) == ""
    assert grown(before, {}) == ""  # the counts of a job that was not seen for long are dropped
    found = grown(before, {**before, ("b", "batch"): 2, ("b", "reader"): 4})
    assert found == "job 'b' counted losses since: 2 (batch)"


def test_agents_are_upgraded_in_waves_while_their_jobs_run(rest: RestServer, agents: Agents) -> None:
    apply_jobs(rest)
    begun = rest.world.running()
    found = ended(rest, wave=["s2", "1"], author="ann")
    assert (found["state"], found["error"], found["waves"]) == ("succeeded", "", [["s2"], ["s1"], ["s3"]])
    assert states(found) == ["upgraded"] * 3
    assert agents.order == ["s2", "s1", "s3"]
    assert rest.world.running() == begun
    assert messages(rest, EventKind.UPGRADED)[0] == f"site 's2': its agent was upgraded from 7 to {NEW}"
    (accepted,) = (each for each in rest.coordinator.store.events() if each.kind == EventKind.UPGRADING)
    assert accepted.author == "ann"
    again = ended(rest)
    assert (again["state"], again["sites"], again["current"]) == ("succeeded", [], list(NAMES))


def test_a_plan_changes_nothing(rest: RestServer, agents: Agents) -> None:
    agents.join("s2", NEW)
    del agents.wires.there["s3"]
    plan = rest.client.upgrade_sites((), dry_run="true")
    assert (plan["state"], plan["waves"], plan["current"], plan["away"]) == (
        "planned",
        [["s1"]],
        ["s2"],
        ["s3"],
    )
    assert plan["sites"][0] | {"version": "7", "wave": 1} == plan["sites"][0]
    assert agents.order == []
    with pytest.raises(RequestRefused, match="no agents were upgraded"):
        rest.client.upgrade_of_sites()


def test_every_agent_that_cannot_be_upgraded_is_named_before_any_is_touched(
    rest: RestServer, agents: Agents
) -> None:
    del agents.wires.answers["s1", UPGRADABLE]
    agents.wires.answers["s2", UPGRADABLE] = lambda _: {"fault": "site.json names no program"}
    with pytest.raises(RequestRefused) as caught:
        rest.client.upgrade_sites(())
    assert caught.value.status == 422
    assert [each["message"] for each in caught.value.faults] == [
        "site 's1': its agent cannot be upgraded from here (upgrade it once at the site)",
        "site 's2': site.json names no program",
    ]
    agents.wires.answers["s3", UPGRADABLE] = lambda _: {"target": "8"}
    with pytest.raises(RequestRefused, match="site 's3': it is being upgraded to 8"):
        rest.client.upgrade_sites(["s3"])
    del agents.wires.there["s3"]
    with pytest.raises(RequestRefused, match=r"site 's3': its agent is away .leave it out"):
        rest.client.upgrade_sites(["s3"])
    with pytest.raises(RequestRefused, match="site 'direct': it has no agent"):
        rest.client.upgrade_sites(["direct"])
    with pytest.raises(RequestRefused, match=r"there is no site 'direkt' .did you mean 'direct'"):
        rest.client.upgrade_sites(["direkt"])
    assert agents.order == []


def test_a_program_that_fails_stops_the_waves(rest: RestServer, agents: Agents) -> None:
    def fail(_: object) -> None:
        raise BinderError("/etc/speck/upgrade-agent, for version 9, ended with exit code 3")

    agents.on_upgrade("s2", fail)
    found = ended(rest, wave=["1", "1"])
    assert found["state"] == "failed"
    assert states(found) == ["upgraded", "failed", "untouched"]
    assert found["error"].startswith("wave 2 of 3: site 's2': /etc/speck/upgrade-agent, for version 9, ended")
    assert messages(rest, EventKind.NOT_UPGRADED)[-1].endswith("not touched: s3")
    agents.join("s2")
    assert states(ended(rest)) == ["upgraded"] * 2


def test_whoever_sees_an_outcome_finds_its_event(rest: RestServer, agents: Agents) -> None:
    agents.on_upgrade("s2", lambda _: agents.replace("s2", "7"))
    seen: list[tuple[str, str]] = []

    def note(event: Event) -> None:
        if event.kind == EventKind.UPGRADING:
            return
        now = rest.services.upgrades.last()
        parts = [each for each in now.sites.values() if event.message.startswith(f"site {each.site!r}")]
        seen.append((event.kind, parts[0].state if parts else now.state))

    rest.coordinator.store.on_event.append(note)
    assert ended(rest, wave=["1", "1"])["state"] == "failed"
    assert seen == [
        ("upgraded", "upgrading"),
        ("not upgraded", "upgrading"),
        ("not upgraded", "running"),
    ]


def test_a_full_disk_does_not_make_an_upgrade_fail(
    rest: RestServer, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreFull("there is no space left")

    def replace_agent(_: object) -> None:
        monkeypatch.setattr(Database, "write", full)
        agents.replace("s1", NEW)

    agents.on_upgrade("s1", replace_agent)
    assert states(ended(rest, ("s1",))) == ["upgraded"]


def test_an_agent_that_comes_back_in_its_old_version_stops_the_waves(
    rest: RestServer, agents: Agents
) -> None:
    agents.on_upgrade("s1", lambda _: agents.replace("s1", "7"))
    found = ended(rest)
    assert "site 's1': its agent came back in version 7" in found["error"]
    assert states(found) == ["failed", "untouched", "untouched"]


def test_an_agent_that_never_comes_back_stops_the_waves(
    rest: RestServer, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.coordinator.agents.upgrades._RETURNING", 0.2)
    agents.on_upgrade("s1", lambda _: agents.wires.there.pop("s1"))
    found = ended(rest)
    assert f"site 's1': its agent has not come back in version {NEW}" in found["error"]
    assert agents.order == []


def lose_answer(agents: Agents, site: str, version: str | None) -> Callable[[object], None]:
    """An agent that is cut off before it answers, and is connected again in a version, or away."""

    def lose(_: object) -> None:
        if version is None:
            del agents.wires.there[site]
        else:
            agents.replace(site, version)
        raise OutcomeUnknown("the connection broke")

    return lose


def test_an_agent_that_was_killed_amid_its_upgrade_is_told_from_one_at_work(
    rest: RestServer, agents: Agents
) -> None:
    agents.on_upgrade("s1", lose_answer(agents, "s1", "7"))
    found = ended(rest)
    assert "site 's1': its agent came back in version 7" in found["error"]
    answers = iter([{}, {"target": NEW}, {"target": NEW}, {"failure": "exit code 3"}])
    agents.wires.answers["s1", UPGRADABLE] = lambda _: next(answers)
    assert ended(rest)["error"] == "wave 1 of 2: site 's1': exit code 3"
    agents.wires.answers["s1", UPGRADABLE] = lambda _: {}
    agents.on_upgrade("s1", lose_answer(agents, "s1", NEW))
    assert states(ended(rest)) == ["upgraded"] * 3


def test_an_agent_that_does_not_stay_stops_the_waves(rest: RestServer, agents: Agents) -> None:
    rest.client.upgrade_sites((), settle=4)
    eventually(rest.client.upgrade_of_sites, lambda found: "connected" in found["waits"], PATIENCE)
    del agents.wires.there["s1"]
    found = eventually(rest.client.upgrade_of_sites, lambda each: each["state"] != "running", PATIENCE)
    assert found["error"] == "wave 1 of 2: site 's1': its agent was upgraded, and is away"
    assert states(found) == ["upgraded", "untouched", "untouched"]


def test_a_job_that_does_not_run_again_stops_the_waves(rest: RestServer, agents: Agents) -> None:
    apply_jobs(rest)

    def lose_jobs(_: object) -> None:
        agents.replace("s1", NEW)
        rest.world.restart("sc://s1:15002")

    agents.on_upgrade("s1", lose_jobs)
    found = ended(rest)
    assert states(found) == ["upgraded", "untouched", "untouched"]
    assert found["error"].startswith("wave 1 of 2: job 'one-s1' is ")


def test_a_job_that_did_not_run_before_does_not_stop_the_waves(rest: RestServer, agents: Agents) -> None:
    apply_jobs(rest)
    rest.world.restart("sc://s1:15002")
    assert ended(rest)["state"] == "succeeded"


@pytest.mark.parametrize(("reason", "state"), [("session lost", "failed"), ("repetition", "succeeded")])
def test_a_loss_stops_the_waves(rest: RestServer, agents: Agents, reason: str, state: str) -> None:
    apply_jobs(rest)
    losses = rest.services.upgrades.losses
    losses.add("one", "one-s1", reason, 4)

    def lose(_: object) -> None:
        agents.replace("s1", NEW)
        losses.add("one", "one-s1", reason, 2)

    agents.on_upgrade("s1", lose)
    found = ended(rest)
    assert found["state"] == state
    assert ("job 'one-s1' counted losses since: 2 (session lost)" in found["error"]) is (state == "failed")


def test_one_upgrade_at_a_time(rest: RestServer, agents: Agents) -> None:
    reached, go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        reached.set()
        go.wait(PATIENCE)
        agents.replace("s1", NEW)

    agents.on_upgrade("s1", hold)
    rest.client.upgrade_sites((), settle=0.05)
    try:
        assert reached.wait(PATIENCE)
        with pytest.raises(
            RequestRefused, match=r"an upgrade of agents is in progress .wave 1 of 2"
        ) as caught:
            rest.client.upgrade_sites(["s3"])
        assert caught.value.status == 409
    finally:
        go.set()
    found = eventually(rest.client.upgrade_of_sites, lambda each: each["state"] != "running", PATIENCE)
    assert found["state"] == "succeeded"


def test_a_change_of_jobs_at_the_sites_refuses_an_upgrade(rest: RestServer, agents: Agents) -> None:
    hold = rest.world.hold("submit")
    applying = threading.Thread(target=apply_jobs, args=(rest, "one", ("s2",)))
    applying.start()
    try:
        assert hold.reached.wait(PATIENCE)
        with pytest.raises(RequestRefused, match=r"composition 'one': operation \w+ .apply. is in progress"):
            rest.client.upgrade_sites(())
        assert agents.order == []
        assert ended(rest, ("s1",))["state"] == "succeeded"  # the change is elsewhere
    finally:
        hold.release()
        applying.join(PATIENCE)
    assert ended(rest)["state"] == "succeeded"


def test_a_change_of_jobs_between_waves_is_awaited(
    rest: RestServer, agents: Agents, upgrades: Upgrades
) -> None:
    hold = rest.world.hold("submit")
    applying = threading.Thread(target=apply_jobs, args=(rest, "one", ("s2",)))

    def change(_: object) -> None:
        applying.start()
        assert hold.reached.wait(PATIENCE)
        agents.replace("s1", NEW)

    agents.on_upgrade("s1", change)
    rest.client.upgrade_sites((), settle=0.05)
    try:
        eventually(rest.client.upgrade_of_sites, lambda found: "operation" in found["waits"], PATIENCE)
        assert agents.order == ["s1"]
    finally:
        hold.release()
        applying.join(PATIENCE)
    found = eventually(rest.client.upgrade_of_sites, lambda each: each["state"] != "running", PATIENCE)
    assert found["state"] == "succeeded"


def test_the_end_of_the_server_begins_no_further_wave(
    rest: RestServer, agents: Agents, upgrades: Upgrades
) -> None:
    rest.client.upgrade_sites((), settle=600)
    waits = "its agents must have been connected for 600 s"
    eventually(rest.client.upgrade_of_sites, lambda found: found["waits"] == waits, PATIENCE)
    upgrades.close()
    found = eventually(rest.client.upgrade_of_sites, lambda each: each["state"] != "running", PATIENCE)
    assert states(found) == ["upgraded", "untouched", "untouched"]
    assert "the server is shutting down" in found["error"]
    with pytest.raises(Busy, match="shutting down"):
        upgrades.begin(upgrades.plan((), (), 0))


def test_the_command_shows_the_plan_asks_and_follows(speck: Speck, rest: RestServer, agents: Agents) -> None:
    done = speck("sites", "upgrade", "--all", "--dry-run", "--wave", "s3")
    assert done.code == 2
    assert " ".join(done.out.split()) == (f"WAVE SITE NOW THEN 1 s3 7 {NEW} 2 s1 7 {NEW} 2 s2 7 {NEW}")
    done = speck("sites", "upgrade", "s1", "s2")
    assert done.code == 1
    assert "this replaces the agents of 2 sites; no terminal to confirm it" in " ".join(done.err.split())
    assert agents.order == []
    done = speck("sites", "upgrade", "--all", "--yes", "--settle", "0s", "--wave", "s3")
    assert done.code == 0, done.err
    assert f"3 agents have version {NEW}" in done.out
    assert "wave 1 of 2" in done.err or "s3: upgraded" in done.err
    done = speck("sites", "upgrade", "--all")
    assert done.code == 0
    assert f"already at version {NEW}: s1, s2, s3" in done.out
    done = speck("sites", "upgrade", "--all", "--json")
    assert done.data["current"] == list(NAMES)


def test_the_command_names_the_site_that_stopped_it(speck: Speck, rest: RestServer, agents: Agents) -> None:
    agents.on_upgrade("s1", lambda _: agents.replace("s1", "7"))
    done = speck("sites", "upgrade", "--all", "--yes", "--settle", "0s")
    assert done.code == 1
    assert "stopped in wave 1 of 2: site 's1': its agent came back in version 7" in " ".join(done.out.split())
    assert "upgraded: none; not touched: s2, s3" in done.out


@pytest.mark.parametrize("arguments", [(), ("s1", "--all")])
def test_the_command_needs_sites_or_all(speck: Speck, rest: RestServer, arguments: tuple[str, ...]) -> None:
    done = speck("sites", "upgrade", *arguments)
    assert done.code == 1
    assert "Give the sites, or --all" in done.err


def test_a_server_without_agents_says_so(rest: RestServer) -> None:
    with pytest.raises(RequestRefused, match="this server accepts no agents"):
        rest.client.upgrade_sites(())


def test_a_reader_upgrades_nothing(tmp_path: Path) -> None:
    tokens = Tokens([Owner("wall", Role.READ, digest(b"r" * 40))])
    with rest_server(tmp_path, SITES, tokens) as rest:
        rest.services.agents.connections = Wires()
        headers = {"Authorization": "Bearer " + "r" * 40}
        answer = requests.post(f"{rest.url}/sites/upgrade", headers=headers, timeout=30)
        assert answer.status_code == 403
