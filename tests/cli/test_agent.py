"""The commands for the agent of a site, as far as they need no server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from speck.agent.agent import Agent
from speck.agent.attempt_files import AttemptFiles
from speck.agent.run_state import Phase, accepted
from speck.agent.site_file import NAME, read_site_file
from speck.agent.status import LOCK, write_state
from speck.cli.agent import DIRECTORY, _python, run_command
from speck.core.runtime import Attempt
from speck.errors import InvalidInput
from testbed.benches.examples import job
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from tests.fixtures.speck_command import Speck

SITES = """
sites:
  crossroads:
    spe_address: sc://crossroads:15002
    broker_address: tcp://crossroads:1883
    broker_login: {username: speck, password: "${SPECK_MQTT}"}
    agent: true
"""


@pytest.fixture(name="init")
def init_fixture(tmp_path: Path) -> list[str]:
    (tmp_path / "sites.yaml").write_text(SITES)
    (tmp_path / "token").write_text("t" * 40)
    return [
        *("agent", "init", "--sites", str(tmp_path / "sites.yaml")),
        *("--token-file", str(tmp_path / "token"), "--directory", str(tmp_path / "agent")),
    ]


def test_a_description_is_made_and_read(speck: Speck, init: list[str], tmp_path: Path) -> None:
    done = speck(*init, "crossroads", "--coordinator", "wss://fog.example.org:8181/")
    assert done.code == 0, done.err
    found = read_site_file(tmp_path / "agent")
    assert found.site.engines[0].spe_address == "sc://crossroads:15002"
    assert found.coordinator == "wss://fog.example.org:8181"
    assert found.site.broker_login.password is not None
    assert found.site.broker_login.password.reference == "${SPECK_MQTT}"
    assert "t" * 40 not in (tmp_path / "agent" / NAME).read_text()
    assert oct((tmp_path / "agent" / NAME).stat().st_mode)[-3:] == "600"
    shown = json.loads(speck("agent", "status", "--directory", str(tmp_path / "agent"), "--json").out)
    assert shown["contact"] == {
        "connected": False,
        "since": None,
        "reason": "the agent has not been started",
    }


@pytest.mark.parametrize(
    ("site", "coordinator", "message"),
    [
        ("crosroads", "wss://a:1", "site 'crosroads' is not in .*known: crossroads"),
        ("crossroads", "ws://a:1", "without TLS .expected wss://HOST:PORT"),
        ("crossroads", "https://a:1", "is not an address .expected wss://HOST:PORT"),
        ("crossroads", "wss://a", "is not an address"),
        ("crossroads", "wss://a:1/path", "is not an address"),
    ],
)
def test_bad_descriptions_are_named(
    speck: Speck, init: list[str], tmp_path: Path, site: str, coordinator: str, message: str
) -> None:
    done = speck(*init, site, "--coordinator", coordinator)
    assert done.code == 1

    assert re.search(message, " ".join(done.err.split()))
    assert not (tmp_path / "agent").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data | {"format": 2}, "format is 2 .expected format 1"),
        (lambda data: data | {"colour": "red"}, "unknown field 'colour'"),
        (lambda data: data | {"token": {"reference": "secret"}}, "secret must be a reference"),
        (lambda data: {key: value for key, value in data.items() if key != "site"}, "site"),
    ],
)
def test_a_description_that_is_none_is_named(
    speck: Speck, init: list[str], tmp_path: Path, change: object, message: str
) -> None:
    speck(*init, "crossroads", "--coordinator", "wss://a:1")
    path = tmp_path / "agent" / NAME
    path.write_text(json.dumps(change(json.loads(path.read_text()))))  # type: ignore[operator]
    with pytest.raises(InvalidInput, match=message):
        read_site_file(tmp_path / "agent")


def test_status_lists_the_attempts(speck: Speck, init: list[str], tmp_path: Path) -> None:
    speck(*init, "crossroads", "--coordinator", "wss://a:1")
    attempt = Attempt(id="a" * 32, job_name="clean", number=3, session="s")
    record = accepted(job("clean"), attempt, "sc://crossroads:15002").to(Phase.GONE, "tcp://far:1 is away")
    AttemptFiles(tmp_path / "agent" / "attempts").write(record)
    shown = speck("agent", "status", "--directory", str(tmp_path / "agent")).out
    assert "site crossroads: no contact (the agent has not been started)" in shown
    assert "tcp://far:1 is away" in shown
    missing = speck("agent", "status", "--directory", str(tmp_path / "none"))
    assert missing.code == 1
    assert "speck agent init" in missing.err


def test_an_agent_that_has_ended_has_no_contact(speck: Speck, init: list[str], tmp_path: Path) -> None:
    """Its last note is of the time when it ran: after a kill, or a stop, that was "connected"."""
    from speck.agent.agent import _locked

    def shown() -> str:
        return " ".join(speck("agent", "status", "--directory", str(directory)).out.split())

    speck(*init, "crossroads", "--coordinator", "wss://a:1")
    directory = tmp_path / "agent"
    with _locked(directory / LOCK):
        write_state(directory, {"connected": True, "since": 1.0, "reason": ""})
        assert "site crossroads: connected since" in shown()
    assert "site crossroads: no contact (the agent does not run" in shown()
    with _locked(directory / LOCK):  # a look leaves no lock
        write_state(directory, {"connected": False, "since": 1.0, "reason": "wss://a:1: refused"})
        assert "site crossroads: no contact (wss://a:1: refused) since" in shown()
    assert "speck-agent); before that: wss://a:1: refused)" in shown()


def test_two_agents_of_one_directory_exclude_each_other(
    speck: Speck, init: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from speck.agent.agent import _locked

    with (
        _locked(tmp_path / "lock"),
        pytest.raises(InvalidInput, match="another agent runs"),
        _locked(tmp_path / "lock"),
    ):
        pass


def test_an_agent_is_started_by_the_path_of_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in it leads to another environment after an upgrade."""
    (environment := tmp_path / "env-1" / "bin").mkdir(parents=True)
    (environment / "python").symlink_to(sys.executable)
    (tmp_path / "current").symlink_to("env-1")
    monkeypatch.setattr(sys, "executable", str(environment / "python"))
    for command, python in (
        (tmp_path / "current" / "bin" / "speck", tmp_path / "current" / "bin" / "python"),
        (environment / "speck", environment / "python"),
        (tmp_path / "elsewhere" / "speck", environment / "python"),
        (Path("-c"), environment / "python"),
    ):
        monkeypatch.setattr(sys, "argv", [str(command), "agent", "run"])
        assert _python() == str(python)


def test_the_command_that_starts_an_agent_names_its_directory(tmp_path: Path) -> None:
    assert run_command(DIRECTORY) == "speck agent run"
    assert run_command(tmp_path / "my agent") == f"speck agent run --directory '{tmp_path}/my agent'"


def test_an_engine_that_no_agent_can_serve_is_named(speck: Speck, init: list[str], tmp_path: Path) -> None:
    speck(*init, "crossroads", "--coordinator", "wss://a:1")
    described = read_site_file(tmp_path / "agent")
    kinds = double_kinds(World())
    with pytest.raises(InvalidInput, match="engine sc://crossroads:15002: no installed binder"):
        Agent(described, tmp_path / "agent", type(kinds)(brokers=kinds.brokers))
