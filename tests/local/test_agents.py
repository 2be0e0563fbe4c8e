"""Agents of local sites: real ones, beside a real broker and an engine that is a script."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from binders.mqtt import MQTT
from binders.spark import CONNECT, STANDALONE
from speck import local
from speck.agent.site_file import read_site_file
from speck.binder import Registry
from speck.cli.local import up as up_command
from speck.errors import LocalError, NotFound
from speck.local import processes
from speck.local.agents import describe, refuse_without, write_tokens
from speck.local.state import Record, ServerRecord
from speck.schema.inventory import load_inventory
from speck.server.tokens import TokenFile
from speck.testing.waiting import eventually
from testbed.servers.mosquitto import PROGRAM
from tests.local.test_local import Script

REGISTRY = Registry.of([dataclasses.replace(CONNECT, local=Script("exec sleep 600")), MQTT])

needs_broker = pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")


def alive(servers: Iterable[ServerRecord]) -> list[int]:
    """The processes of servers that run; one that was killed is a zombie until its parent waits for it."""
    found = []
    for each in servers:
        with contextlib.suppress(psutil.NoSuchProcess):
            if processes.alive(psutil.Process(each.pid)):
                found.append(each.pid or 0)
    return found


def agent_of(directory: Path) -> ServerRecord:
    record = Record.new(directory, {"A": ("flink",)}, {"A": "mqtt"})
    record.set_agents(given=True)
    agent = record.agents["A"]
    agent.address = "ws://127.0.0.1:1"
    return agent


@needs_broker
@pytest.mark.engine
def test_sites_have_agents_which_go_and_come_with_their_power(directory: Path) -> None:
    with local.up(directory, 1, registry=REGISTRY, with_agents=True) as sites:
        (agent,) = sites.agents
        assert sites.running
        assert load_inventory(sites.inventory.read_text("utf-8")).sites["A"].agent
        described = read_site_file(directory / "A" / "agent")
        assert described.site.engines[0].spe_address == sites.sites[0].engine.address
        assert described.site.broker_address == sites.sites[0].broker.address
        listen, address, option, tokens = sites.agent_options
        assert (listen, option) == ("--agents", "--agent-tokens")
        assert described.coordinator == agent.address == f"ws://{address}"
        owner = TokenFile(Path(tokens)).owner(described.token.reveal().encode())
        assert owner is not None
        assert owner.name == "A"
        with pytest.raises(LocalError, match=r"up with agents \(stop them first"):
            local.up(directory, 1, registry=REGISTRY)

        before = [sites.sites[0].engine, sites.sites[0].broker, agent]
        assert local.lose_power(directory, "A") == before
        eventually(lambda: alive(before), lambda pids: not pids)
        assert not local.status(directory).running
        local.restore_power(directory, "A", registry=REGISTRY)
        found = local.status(directory)
        assert found.running
        after = [found.sites[0].engine, found.sites[0].broker, *found.agents]
        assert [each.address for each in after] == [each.address for each in before]
        assert not {each.pid for each in after} & {each.pid for each in before}

        local.stop_one(directory, "A", "broker", kill=True)
        again = local.up(directory, 1, registry=REGISTRY, with_agents=True)
        assert again.running
        assert again.agents[0].pid != after[2].pid  # its description may have changed
        assert again.agent_options == sites.agent_options
        assert read_site_file(directory / "A" / "agent").token.reveal() == described.token.reveal()
    assert not local.status(directory).running
    eventually(lambda: alive(again.agents), lambda pids: not pids)


def test_a_record_of_before_has_no_agents(tmp_path: Path) -> None:
    record = Record.new(tmp_path, {"A": ("flink",)}, {"A": "mqtt"})
    record.forget_processes()
    path = tmp_path / "local.json"
    stored = json.loads(path.read_text())
    del stored["agents"]
    path.write_text(json.dumps(stored))
    found = Record.load(tmp_path)
    assert found.agents == {}
    assert [each.role for each in found.servers()] == ["engine", "broker"]


def test_a_record_keeps_its_agents_and_their_port(tmp_path: Path) -> None:
    record = Record.new(tmp_path, {"A": ("flink",), "B": ("flink",)}, {"A": "mqtt", "B": "mqtt"})
    record.set_agents(given=True)
    record.forget_processes()
    found = Record.load(tmp_path)
    found.set_agents(given=True)
    assert found.agents == record.agents
    assert found.agents["A"].ports == found.agents["B"].ports
    assert [each.role for each in found.of_site("B")] == ["engine", "broker", "agent"]
    found.set_agents(given=False)
    assert [each.role for each in found.of_site("B")] == ["engine", "broker"]


def test_a_site_is_described_without_its_scaling(tmp_path: Path) -> None:
    entry = {
        "spe_address": "http://127.0.0.1:1",
        "checkpoint_dir": "file:///c",
        "scale": {"min": 1, "max": 2},
    }
    agent = agent_of(tmp_path)
    write_tokens([agent], tmp_path)
    describe(agent, tmp_path, [entry], "tcp://127.0.0.1:2")
    found = read_site_file(tmp_path / "A" / "agent")
    (engine,) = found.site.engines
    assert (engine.spe_address, engine.checkpoint_dir, engine.scale) == (
        "http://127.0.0.1:1",
        "file:///c",
        None,
    )
    token = tmp_path / "A" / "agent" / "token"
    assert oct(token.stat().st_mode)[-3:] == oct((tmp_path / "agents").stat().st_mode)[-3:] == "600"
    before = token.read_text()
    write_tokens([agent], tmp_path)
    assert token.read_text() == before


def test_an_engine_that_fetches_files_has_no_agent(tmp_path: Path) -> None:
    registry = Registry.of([CONNECT, STANDALONE, MQTT])
    refuse_without(registry, {"A": ["spark-connect"], "B": ["unknown"]})
    with pytest.raises(
        LocalError, match=r"site B: engine 'spark-standalone' cannot be used through an agent"
    ):
        local.up(
            tmp_path / "local", 2, engines={"B": ["spark-standalone"]}, registry=registry, with_agents=True
        )
    assert not (tmp_path / "local").exists()


def test_power_of_a_site_that_is_none(tmp_path: Path) -> None:
    for call in (local.lose_power, local.restore_power):
        with pytest.raises(NotFound, match=r"there is no site 'Z' in .*it has no sites"):
            call(tmp_path, "Z")


def test_agents_on_the_command_line() -> None:
    assert up_command.make_context("up", ["--agents"]).params["agents"] is True
    assert up_command.make_context("up", []).params["agents"] is False
