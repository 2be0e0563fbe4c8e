"""Codes, revocations and the contact with agents, by the command line and REST."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

import speck as package
from speck.core.inventory import Inventory
from speck.link.code import JoinCode
from speck.link.frames import PROTOCOL
from speck.link.hello import EpochRefusal, JoinRequest
from speck.server.tokens import Owner, Role, Tokens, digest
from testbed.benches.examples import one_site
from testbed.doubles.agents import Wires
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.fixtures.speck_command import Speck

ENGINE, BROKER = "sc://e1:15002", "tcp://b1:1883"
INVENTORY = Inventory(
    {
        "A": replace(one_site("A", ENGINE, BROKER), agent=True),
        "B": one_site("B", "sc://e2:15002", "tcp://b2:1883"),
    }
)


@pytest.fixture(name="rest")
def rest_fixture(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path, INVENTORY) as rest:
        yield rest


@pytest.fixture(name="wires")
def wires_fixture(rest: RestServer) -> Wires:
    rest.services.agents.connections = wires = Wires()
    return wires


def test_a_code_is_printed_alone(speck: Speck, wires: Wires, rest: RestServer) -> None:
    done = speck("sites", "add", "A")
    assert done.code == 0, done.err
    assert JoinCode.parse(done.out).site == "A"
    assert "speck sites join CODE --server HOST:PORT" in done.err
    assert done.out.strip() not in done.err
    found = speck("sites", "add", "street", "--json").data
    assert found.keys() == {"site", "code", "until"}
    assert JoinCode.parse(found["code"]).site == "street"
    assert found["until"] > time.time() + 600


def test_faults_are_named(speck: Speck, wires: Wires) -> None:
    done = speck("sites", "add", "B")
    assert done.code == 1
    assert "site 'B' is reached directly" in " ".join(done.err.split())
    done = speck("sites", "revoke", "B")
    assert done.code == 1
    assert "site 'B' has no agent" in " ".join(done.err.split())


def test_a_server_without_agents_says_so(speck: Speck) -> None:
    done = speck("sites", "add", "A")
    assert done.code == 1
    assert "speck serve --agents" in " ".join(done.err.split())


def test_a_revocation_names_the_logins(speck: Speck, wires: Wires, rest: RestServer) -> None:
    rest.client.apply(yaml_of("a t0 t1").encode(), "demo", wait=30)
    (job,) = rest.client.jobs()
    assert job["job"]["spe_address"] == ENGINE
    done = speck("sites", "revoke", "A")
    assert done.code == 0, done.err
    assert job["job"]["source_broker"] in done.out
    assert wires.checks == 1


def test_a_revocation_names_the_logins_of_jobs_that_were_left_behind(
    speck: Speck, wires: Wires, rest: RestServer
) -> None:
    """After a theft, the jobs are moved away first."""
    far = yaml_of("a t0 t1").replace(f"source_broker: {BROKER}", "source_broker: tcp://b2:1883")
    rest.client.apply(far.encode(), "demo", wait=30)
    rest.world.down(ENGINE)
    rest.client.apply(far.replace(ENGINE, "sc://e2:15002").encode(), "demo", wait=30, leave_behind=[ENGINE])
    assert "copy" in {each["kind"] for each in rest.client.left_behind()}
    done = speck("sites", "revoke", "A", "--json")
    assert sorted(done.data["brokers"]) == sorted({"tcp://b2:1883", BROKER})


def test_a_site_that_joined_is_removed_when_no_job_uses_it(
    speck: Speck, wires: Wires, rest: RestServer
) -> None:
    entry = {"spe_address": "sc://e9:15002", "broker_address": "tcp://b9:1883"}
    code = speck("sites", "add", "street").out.strip()
    asked = JoinRequest(protocol=PROTOCOL, version="1", code=code, machine="m1", entry=entry)
    rest.services.agents.enrolment.join(asked)
    jobs = yaml_of("a t0 t1").replace(ENGINE, "sc://e9:15002")
    rest.client.apply(jobs.encode(), "demo", wait=30)
    done = speck("sites", "remove", "street")
    assert done.code == 1
    assert "site 'street' is used by a (expected no job there" in " ".join(done.err.split())
    assert "street" in speck("sites").out
    rest.client.delete_composition("demo", wait=30)
    done = speck("sites", "remove", "street")
    assert done.code == 0, done.err
    assert "site street is removed" in done.out
    assert wires.checks == 1
    assert "street" not in speck("sites").out
    again = speck("sites", "remove", "street")
    assert again.code == 1
    assert "there is no site 'street' that joined" in " ".join(again.err.split())
    done = speck("sites", "remove", "A")
    assert "site 'A' is in the server's own inventory" in " ".join(done.err.split())


def test_sites_show_their_agents(speck: Speck, wires: Wires) -> None:
    shown = speck("sites").out
    assert "AGENT" in shown
    assert "away" in shown
    assert "none" in shown
    wires.connect("A", time.time())
    assert ", version 7" in " ".join(speck("sites").out.split())
    one, other = speck("sites", "--json").data
    assert (one["agent"]["connected"], one["agent"]["machine"]) == (True, "m1")
    assert other["agent"] is None


def test_doctor_finds_agents(speck: Speck, wires: Wires, rest: RestServer) -> None:
    def findings() -> list[str]:
        found = speck("doctor", "--json").data
        return [each["message"] for each in found if each["finding"] == "agent"]

    assert findings() == ["its agent has never been connected"]
    wires.connect("A", time.time())
    assert findings() == [f"its agent has version 7, the server {package.__version__}"]
    wires.connect("A", time.time(), version=package.__version__)
    assert findings() == []
    rest.services.agents.note_second("A", "m1", "m2")
    assert findings() == ["machine m2 has the token of the agent on machine m1"]


def test_doctor_names_both_epochs_of_an_agent_that_refuses_the_server(speck: Speck, wires: Wires) -> None:
    wires.epoch_refusals["A"] = EpochRefusal(epoch=3, known=7)
    (found,) = [each for each in speck("doctor", "--json").data if each["finding"] == "agent"]
    assert found["where"] == "A"
    assert found["message"] == (
        "its agent refuses this server, whose epoch is 3: it was connected to one of epoch 7"
    )
    assert "if the server of epoch 7 still runs, stop this one" in found["remedy"]
    assert "speck sites add A" in found["remedy"]


def test_a_reader_makes_no_codes(tmp_path: Path) -> None:
    tokens = Tokens([Owner("wall", Role.READ, digest(b"r" * 40))])
    with rest_server(tmp_path, INVENTORY, tokens) as rest:
        rest.services.agents.connections = Wires()
        headers = {"Authorization": "Bearer " + "r" * 40}
        for method, path in (("POST", "A/agent"), ("DELETE", "A/agent"), ("DELETE", "A")):
            answer = requests.request(method, f"{rest.url}/sites/{path}", headers=headers, timeout=30)
            assert answer.status_code == 403
