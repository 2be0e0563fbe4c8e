"""An agent that replaces itself: programs of a site as real processes, and an agent over a socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import speck
from speck.agent.__main__ import main
from speck.agent.agent import Agent
from speck.agent.join import join
from speck.agent.site_file import SiteFile, known_upgrade, read_site_file, write_site_file
from speck.agent.upgrader import Upgrader
from speck.core.inventory import Engine, Inventory, Secret, Site
from speck.core.job import Job
from speck.core.runtime import JobState
from speck.errors import BinderError, InvalidInput, OutcomeUnknown, Rejected
from speck.link.codec import Malformed
from speck.link.hub import Hub
from speck.link.upgrade import Upgradability, upgradability, upgrade
from speck.testing import attempt_of
from speck.testing.waiting import eventually
from testbed.benches.agents import LinkBench, joining_server, link_bench
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.base import REFUSING_PORT
from tests.binder.test_contract_double import BROKER, ENGINE, DoubleBench

OLD, NEW = "1.0", "2.0"
PATIENCE = 60.0
SITE = Site(
    name="A",
    engines=(Engine(spe_address=f"http://127.0.0.1:{REFUSING_PORT}"),),
    broker_address=f"tcp://127.0.0.1:{REFUSING_PORT}",
    agent=True,
)


class Installed:
    """A package ``speck`` of a chosen version, whose modules are those of this tree."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.agent = directory / "agent"
        self.calls = directory / "calls"
        self.version = directory / "lib" / "speck" / "__init__.py"
        self.version.parent.mkdir(parents=True)
        self.put(OLD)
        monkeypatch.setenv("PYTHONPATH", f"{directory / 'lib'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        monkeypatch.chdir(directory)  # the first place where `python -m` looks for packages
        # Bytecode is taken for that of a source of the same size and second, as two versions may be here.
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        monkeypatch.setenv("SITE_PASSWORD", "secret")
        self.describe()

    def put(self, version: str, more: str = "") -> None:
        self.version.write_text(self.text(version, more))

    def text(self, version: str, more: str = "") -> str:
        path = str(Path(speck.__file__).parent)
        return f"__path__.append({path!r})\n__version__ = {version!r}\n{more}\n"

    def describe(self, url: str = "ws://127.0.0.1:1", upgrade: str | None = None) -> None:
        token = self.directory / "token"
        token.write_text("right")
        described = SiteFile(site=SITE, coordinator=url, token=Secret(f"file:{token}"), upgrade=upgrade)
        write_site_file(self.agent, described)

    def program(self, text: str, url: str = "ws://127.0.0.1:1", *, described: bool = True) -> None:
        """Have the site's file name a program, which notes how it was called."""
        path = self.directory / "upgrade-agent"
        path.write_text(f"#!/bin/sh\necho $SPECK_VERSION $SITE_PASSWORD >>{self.calls}\n{text}\n")
        path.chmod(0o755)
        if described:
            self.describe(url, str(path))

    def installing(self, version: str, more: str = "") -> str:
        """The lines of a program that installs a version."""
        prepared = self.directory / f"prepared-{version}"
        prepared.write_text(self.text(version, more))
        return f"cp {prepared} {self.version}"

    def called(self) -> list[str]:
        return self.calls.read_text().split("\n")[:-1] if self.calls.exists() else []


@pytest.fixture(name="installed")
def installed_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    return Installed(tmp_path, monkeypatch)


@pytest.fixture(name="upgrader")
def upgrader_fixture(installed: Installed) -> Upgrader:
    return Upgrader(installed.agent, lambda: None, OLD)


@pytest.mark.slow("each version is a process")
def test_a_version_is_installed_and_checked(installed: Installed, upgrader: Upgrader) -> None:
    installed.program(installed.installing(NEW))
    upgrader.upgrade(NEW)
    assert upgrader.is_installed
    assert installed.called() == [NEW]  # without the logins of the site
    assert upgrader.upgradable() == Upgradability(target=NEW)  # until this process has ended
    with pytest.raises(Rejected, match=f"is being upgraded to {NEW} already"):
        upgrader.upgrade("3.0")


def test_the_version_at_work_needs_nothing(installed: Installed, upgrader: Upgrader) -> None:
    installed.program("exit 3")
    upgrader.upgrade(OLD)
    assert not upgrader.is_installed
    assert installed.called() == []


@pytest.mark.slow("each version is a process")
def test_a_program_that_fails_leaves_the_version(installed: Installed, upgrader: Upgrader) -> None:
    installed.program("echo no such release >&2; exit 3")
    with pytest.raises(BinderError, match=r"upgrade-agent, for version 2.0, ended with exit code 3: no such"):
        upgrader.upgrade(NEW)
    assert not upgrader.is_installed
    assert installed.called() == [NEW]
    assert "exit code 3" in upgrader.upgradable().failure
    installed.program(installed.installing(NEW))
    upgrader.upgrade(NEW)
    assert upgrader.upgradable().failure == ""


@pytest.mark.slow("each version is a process")
def test_what_does_not_start_is_put_back(installed: Installed, upgrader: Upgrader) -> None:
    broken, good = installed.installing(NEW, "import nothing_of_this_name"), installed.installing(OLD)
    installed.program(f'if [ "$SPECK_VERSION" = {NEW} ]; then {broken}; else {good}; fi')
    with pytest.raises(BinderError, match=r"does not start: .*nothing_of_this_name.*; 1.0 is back"):
        upgrader.upgrade(NEW)
    assert installed.called() == [NEW, OLD]
    assert not upgrader.is_installed


@pytest.mark.slow("each version is a process")
def test_what_cannot_be_put_back_is_said(installed: Installed, upgrader: Upgrader) -> None:
    installed.program(installed.installing("3.0"))
    with pytest.raises(BinderError) as caught:
        upgrader.upgrade(NEW)
    assert str(caught.value) == (
        "version 3.0 is installed (expected 2.0); putting 1.0 back failed: version 3.0 is installed "
        "(expected 1.0)"
    )
    assert not upgrader.is_installed


@pytest.mark.slow("each version is a process")
def test_a_program_that_does_not_end_is_killed(
    installed: Installed, upgrader: Upgrader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.upgrader.PROGRAM", 0.2)
    installed.program("sleep 600")
    with pytest.raises(BinderError, match=r"has not ended within 0.2 s"):
        upgrader.upgrade(NEW)


def test_a_site_without_a_program_says_what_to_write(installed: Installed, upgrader: Upgrader) -> None:
    with pytest.raises(Rejected, match=r'site.json names no program .write there: "upgrade": "/etc/speck/'):
        upgrader.upgrade(NEW)
    installed.describe(upgrade=str(installed.directory / "nothing"))
    assert "is not an executable file" in upgrader.upgradable().fault
    (installed.agent / "site.json").write_text("{")
    assert "is not the description of a site" in upgrader.upgradable().fault


@pytest.mark.parametrize(
    "version", ["", "--index-url=x", "speck", "1.0; rm -rf /", "1\n2", "1" * 101, "../1"]
)
def test_what_is_no_version_reaches_no_program(
    installed: Installed, upgrader: Upgrader, version: str
) -> None:
    installed.program("exit 0")
    with pytest.raises(Malformed, match="version is"):
        upgrader.upgrade(version)
    assert installed.called() == []


def test_the_program_is_in_the_site_file(installed: Installed) -> None:
    assert "upgrade" not in json.loads((installed.agent / "site.json").read_text())  # read by former agents
    installed.describe(upgrade="/etc/speck/upgrade-agent")
    assert (
        read_site_file(installed.agent).upgrade
        == known_upgrade(installed.agent)
        == "/etc/speck/upgrade-agent"
    )
    assert known_upgrade(installed.directory) is None
    with pytest.raises(InvalidInput, match=r"upgrade 'upgrade-agent' is not an absolute path"):
        installed.describe(upgrade="upgrade-agent")


# --- over a connection


@pytest.fixture(name="hub")
def hub_fixture() -> Iterator[Hub]:
    hub = Hub(lambda token: "A" if token == b"right" else None, {"A": SITE})
    yield hub
    hub.close()


@pytest.fixture(name="url")
def url_fixture(hub: Hub) -> str:
    listener = socket.create_server(("127.0.0.1", 0))
    hub.start(listener)
    return f"ws://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def agent_process(installed: Installed, hub: Hub, version: str) -> Iterator[subprocess.Popen[bytes]]:
    """The agent as a process of its own, once it is connected."""
    command = [sys.executable, "-m", "speck.agent", str(installed.agent)]
    process = subprocess.Popen(command)
    try:
        await_version(hub, version)
        yield process
    finally:
        process.terminate()
        assert process.wait(PATIENCE) in (0, -signal.SIGKILL)


def await_version(hub: Hub, version: str | None) -> None:
    def connected() -> str | None:
        found = hub.presence("A")
        return None if found is None else found.hello.version

    eventually(connected, lambda found: found == version, PATIENCE)


@pytest.mark.slow("an agent, started three times")
def test_an_agent_replaces_its_process(installed: Installed, hub: Hub, url: str) -> None:
    installed.program(installed.installing(NEW), url)
    with agent_process(installed, hub, OLD) as process:
        assert upgradability(hub, "A", PATIENCE) == Upgradability()
        upgrade(hub, "A", NEW)
        await_version(hub, NEW)
        assert process.poll() is None  # it needs nobody who starts it again
        installed.program("exit 4", url)
        with pytest.raises(BinderError, match="exit code 4"):
            upgrade(hub, "A", "3.0")
        await_version(hub, NEW)


@pytest.mark.slow("an agent, started twice")
def test_an_agent_that_is_killed_amid_its_upgrade_comes_back_as_it_is_installed(
    installed: Installed, hub: Hub, url: str
) -> None:
    installed.program("exec sleep 60", url)
    with agent_process(installed, hub, OLD) as process:
        failures: list[BaseException] = []
        asking = threading.Thread(target=_upgrade, args=(hub, failures))
        asking.start()
        eventually(installed.called, lambda found: found == [NEW], PATIENCE)
        assert upgradability(hub, "A", PATIENCE).target == NEW
        with pytest.raises(Rejected, match=f"is being upgraded to {NEW} already"):
            upgrade(hub, "A", "3.0")
        process.kill()
        asking.join(PATIENCE)
        assert isinstance(failures[0], OutcomeUnknown)
        await_version(hub, None)
    with agent_process(installed, hub, OLD):
        assert (
            upgradability(hub, "A", PATIENCE) == Upgradability()
        )  # so the coordinator knows that it has failed


def _upgrade(hub: Hub, failures: list[BaseException]) -> None:
    try:
        upgrade(hub, "A", NEW)
    except BinderError as error:
        failures.append(error)


@pytest.mark.slow("a coordinator and two agents, each a process")
def test_a_coordinator_upgrades_an_agent_and_names_one_that_fails(
    installed: Installed, tmp_path: Path
) -> None:
    installed.program(installed.installing(NEW))
    with joining_server(tmp_path / "server", double_kinds(World()), Inventory({"A": SITE})) as server:
        join(server.enrolment.invite("A").code, server.address, installed.agent)  # the program stays
        upgrades = server.services.upgrades
        with agent_process(installed, server.hub, OLD):
            for version, error in ((NEW, ""), ("3.0", "wave 1 of 1: site 'A': ")):
                upgrades.version = version
                upgrades.begin(upgrades.plan((), (), 0.05))
                found = eventually(upgrades.last().to_dict, lambda each: each["state"] != "running", PATIENCE)
                assert found["error"].startswith(error)
                assert found["state"] == ("failed" if error else "succeeded")
                assert found["sites"][0]["version"] == (NEW if error else OLD)
                installed.program("exit 3", described=False)
            assert "ended with exit code 3" in found["error"]
            await_version(server.hub, NEW)


def test_an_agent_of_an_earlier_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with link_bench(tmp_path, double_kinds(World()), [Engine(spe_address=ENGINE)], BROKER) as link:
        monkeypatch.setattr(
            "speck.agent.calls.UPGRADABLE", "unknown"
        )  # as a former agent knows no such method
        monkeypatch.setattr("speck.agent.calls.UPGRADE", "unknown")
        found = upgradability(link.hub, "A", PATIENCE)
        assert found.fault == "its agent cannot be upgraded from here (upgrade it once at the site)"


def test_the_jobs_of_an_agent_that_is_replaced_run_on(tmp_path: Path) -> None:
    world = World()
    with link_bench(tmp_path, double_kinds(world), [Engine(spe_address=ENGINE)], BROKER) as link:
        _run_program(link, tmp_path)
        engine, job = link.engine(ENGINE), _job(world)
        handle, begun = engine.submit(job, attempt_of(job)), world.running()
        link.agent.upgrader._checked = lambda version: ""  # type: ignore[method-assign] # nothing is installed here
        upgrade(link.hub, "A", NEW)
        eventually(lambda: link.hub.presence("A"), lambda found: found is None, PATIENCE)
        assert link.agent.upgrader.is_installed
        link.end_agent()
        link.agent = link.start_agent()
        link.await_contact()
        assert engine.status(handle).state is JobState.RUNNING
        assert world.running() == begun


@pytest.mark.parametrize("stopped", [True, False])
def test_an_agent_that_is_stopped_amid_its_replacement_ends(
    installed: Installed, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """A new process would miss the stop, and be killed after the unit's patience."""
    started = list[str]()
    monkeypatch.setattr(os, "execv", lambda path, arguments: started.append(path))
    monkeypatch.setattr(Agent, "release", lambda _: started.append("released"))
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def run(agent: Agent) -> None:
        agent.upgrader.is_installed = True
        if stopped:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Agent, "run", run)
    try:
        assert main(installed.agent) == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert started == ([] if stopped else ["released", sys.executable])


def test_the_binders_of_an_agent_that_is_replaced_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the process in which the binder of Spark Connect runs the code of jobs."""
    closed = list[str]()
    for each in (InMemoryEngine, InMemoryBroker):
        monkeypatch.setattr(each, "close", lambda binder: closed.append(binder.address))
    world = World()
    with link_bench(tmp_path, double_kinds(world), [Engine(spe_address=ENGINE)], BROKER) as link:
        link.broker().fenced("s")
        link.agent.release()
        assert closed == [ENGINE, BROKER]


def _job(world: World) -> Job:
    bench = DoubleBench()
    bench.world = world
    return bench.job("clean")


def _run_program(link: LinkBench, directory: Path) -> None:
    program = directory / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    described = SiteFile(
        site=link.site, coordinator=link.url, token=link.described.token, upgrade=str(program)
    )
    write_site_file(directory / "agent", described)
