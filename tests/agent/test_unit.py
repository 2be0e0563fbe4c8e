"""Agents under the unit that is shipped, in a real systemd: restarted as it says, and upgraded in waves."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import speck
from speck.agent.join import join
from speck.agent.site_file import NAME
from speck.core.inventory import Engine, Inventory, Site
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.agents import JoiningServer, joining_server
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.systemd import Manager, Service, why_not
from tests.support.trials import trial

_REASON = why_not()
pytestmark = [
    pytest.mark.slow("agents, each started several times"),
    pytest.mark.skipif(_REASON != "", reason=_REASON),
]

OLD, NEW = "1.0", "2.0"
NAMES = ("s1", "s2")
PATIENCE = 60.0
UNIT = (ROOT / "scripts" / "systemd" / "speck-agent.service").read_text(encoding="utf-8")
(DROP_IN,) = re.findall(
    r"```ini\n(.*?ReadWritePaths.*?)```",
    (ROOT / "docs" / "agents.md").read_text(encoding="utf-8"),
    re.DOTALL,
)


def site(name: str) -> Site:
    """A site whose engine and broker refuse connections, at addresses of its own."""
    host = f"127.0.0.{2 + NAMES.index(name)}"
    engines = (Engine(spe_address=f"http://{host}:1"),)
    return Site(name=name, engines=engines, broker_address=f"tcp://{host}:1", agent=True)


SITES = Inventory({each: site(each) for each in NAMES})


class Machine:
    """The machine of a site: an environment for each version, a link to the one in use, and the agent."""

    service: Service

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self.agent, self.opt = name, directory / name / "agent", directory / name / "opt"
        for version in (OLD, NEW):
            self.install(version)
        self.link.symlink_to(f"env-{OLD}")

    def add_to(self, manager: Manager) -> None:
        """Run the agent by the unit and the drop-in of the guide, with the paths of this machine."""
        given = {"/opt/speck-agent": self.opt, "/var/lib/speck-agent": self.agent}
        # The directory of its state is that of the manager's user.
        here = [UNIT, DROP_IN, "[Service]\nReadWritePaths=/var/lib/speck-agent\n"]
        for former, path in given.items():
            here = [text.replace(former, str(path)) for text in here]
        self.service = manager.service(self.name, here[0], here[1:])

    @property
    def link(self) -> Path:
        """The link that the unit uses."""
        return self.opt / "current"

    def install(self, version: str, more: str = "") -> None:
        """Make the environment of a version, whose modules are those of this tree."""
        environment = self.opt / f"env-{version}"
        if not environment.exists():
            venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
        major, minor = sys.version_info[:2]
        packages = environment / "lib" / f"python{major}.{minor}" / "site-packages"
        (packages / "speck").mkdir(exist_ok=True)
        path = str(Path(speck.__file__).parent)
        own = f"__path__.append({path!r})\n__version__ = {version!r}\n{more}\n"
        (packages / "speck" / "__init__.py").write_text(own)
        (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
        command = environment / "bin" / "speck"  # as pip makes it
        command.write_text(f"#!{environment}/bin/python\nfrom speck.cli import main\nmain()\n")
        command.chmod(0o755)

    def join(self, server: JoiningServer, program: str) -> None:
        """Join a server; the program of the site changes the link, unless another one is given."""
        join(server.enrolment.invite(self.name).code, server.address, self.agent)
        path = self.opt / "upgrade-agent"
        path.write_text(f"#!/bin/sh -e\ncd {self.opt}\n{program}\n")
        path.chmod(0o755)
        described = self.agent / NAME
        described.write_text(json.dumps(json.loads(described.read_bytes()) | {"upgrade": str(path)}))


LINKED = "ln -sfn env-$SPECK_VERSION current.new && mv -T current.new current"


class Bed:
    """A server and the machines of its sites, whose agents are connected."""

    def __init__(self, server: JoiningServer, machines: dict[str, Machine]) -> None:
        self.server, self.machines = server, machines

    def version(self, name: str) -> str | None:
        found = self.server.hub.presence(name)
        return None if found is None else found.hello.version

    def await_version(self, name: str, version: str | None) -> None:
        eventually(lambda: self.version(name), lambda found: found == version, PATIENCE)

    def upgrade(self) -> dict[str, Any]:
        """Upgrade all agents, one site after the other; returns the outcome."""
        upgrades = self.server.services.upgrades
        upgrades.version = NEW
        upgrades.begin(upgrades.plan((), ("1",), 0.05))
        return eventually(upgrades.last().to_dict, lambda found: found["state"] != "running", PATIENCE)

    def restart(self, name: str) -> None:
        """Kill an agent, which its unit starts again."""
        former = self.server.hub.presence(name)
        self.machines[name].service.kill()
        eventually(
            lambda: self.server.hub.presence(name), lambda found: found not in (None, former), PATIENCE
        )


@contextmanager
def served(directory: Path, names: tuple[str, ...] = NAMES, program: str = LINKED) -> Iterator[Bed]:
    """Sites whose agents have joined a server, and run under their units."""
    with joining_server(directory / "server", double_kinds(World()), SITES) as server, ExitStack() as stack:
        manager = Manager(directory / "systemd")
        machines = {each: Machine(directory, each) for each in names}
        for each in machines.values():
            each.join(server, program)
            each.add_to(manager)
        stack.enter_context(manager.running())
        bed = Bed(server, machines)
        for name in names:
            bed.await_version(name, OLD)
        yield bed


def test_agents_are_upgraded_in_waves_under_their_units(tmp_path: Path) -> None:
    """The unit sees the same process; started again, it is the new version by the unit's own command."""
    with served(tmp_path) as bed:
        processes = [each.service.pid for each in bed.machines.values()]
        found = bed.upgrade()
        assert (found["error"], found["state"]) == ("", "succeeded")
        assert [bed.version(each) for each in NAMES] == [NEW, NEW]
        assert [each.service.pid for each in bed.machines.values()] == processes
        bed.restart("s1")
        bed.await_version("s1", NEW)
        assert [each.service.starts for each in bed.machines.values()] == [2, 1]
        assert bed.machines["s1"].service.codes == [-9]


def test_an_environment_that_does_not_start_is_left_again(tmp_path: Path) -> None:
    """Otherwise the unit would start it for ever after the next restart, with nobody there."""
    with served(tmp_path) as bed:
        machine = bed.machines["s1"]
        machine.install(NEW, "import nothing_of_this_name")
        found = bed.upgrade()
        assert found["state"] == "failed"
        assert re.search(r"site 's1': .*nothing_of_this_name.*; 1.0 is back", found["error"])
        assert [each["state"] for each in found["sites"]] == ["failed", "untouched"]
        assert str(machine.link.readlink()) == f"env-{OLD}"
        bed.restart("s1")
        bed.await_version("s1", OLD)


@trial("an agent that is killed amid its upgrade, of tests/agent/test_upgrader.py")
def test_an_agent_that_is_killed_amid_its_upgrade_is_started_again(tmp_path: Path) -> None:
    with served(tmp_path, ("s1",), "echo $$ >started; exec sleep 60") as bed:
        machine, upgrades = bed.machines["s1"], bed.server.services.upgrades
        upgrades.version = NEW
        upgrades.begin(upgrades.plan((), (), 0.05))
        started = machine.opt / "started"
        eventually(started.exists, bool, PATIENCE)
        program = psutil.Process(int(eventually(started.read_text, bool)))
        machine.service.kill()
        found = eventually(upgrades.last().to_dict, lambda each: each["state"] != "running", PATIENCE)
        assert f"its agent came back in version {OLD}" in found["error"]
        assert not program.is_running() or program.status() == psutil.STATUS_ZOMBIE
        assert machine.service.codes == [-9]


@trial("the restarts of the unit in test_agents_are_upgraded_in_waves_under_their_units")
def test_an_agent_that_cannot_start_is_tried_until_it_can(tmp_path: Path) -> None:
    with served(tmp_path, ("s1",)) as bed:
        machine = bed.machines["s1"]
        described = machine.agent / NAME
        text = described.read_text()
        described.write_text("{")
        machine.service.kill()
        bed.await_version("s1", None)
        eventually(lambda: machine.service.codes, lambda codes: codes[:2] == [-9, 1], PATIENCE)
        described.write_text(text)
        bed.await_version("s1", OLD)
        assert "is not the description of a site" in machine.service.log
