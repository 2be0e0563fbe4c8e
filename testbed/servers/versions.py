"""A server, and the agent of a site, each as a process of a version of its own: this one, or an earlier one.

The engines and the broker of the site are in memory, in the process of the agent
(:mod:`testbed.servers.double_site`).
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import speck
from speck.client import Client
from speck.errors import ServerError
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.servers.base import NotInstalled, RealServer, free_test_ports
from testbed.servers.double_site import GO, LOSE, REPORT

SITE, ENGINES, BROKER = "A", ("sc://e1:15002", "sc://e2:15002"), "tcp://b1:1883"
PATIENCE = 90.0  # s, on a busy machine
_SCRIPT = ROOT / "testbed" / "servers" / "double_site.py"
_INVENTORY = {
    "sites": {
        SITE: {
            "engines": [{"spe_address": each} for each in ENGINES],
            "broker_address": BROKER,
            "agent": True,
        }
    }
}


@dataclass(frozen=True)
class Version:
    """The sources in ``tree``, whose ``speck.__version__`` is ``name``."""

    tree: Path
    name: str

    def variables(self) -> dict[str, str]:
        """The environment of a process of this version."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("SPECK_")}
        return own | {"PYTHONPATH": str(self.tree)}


THIS = Version(ROOT, speck.__version__)


def earlier(commit: str, name: str, directory: Path) -> Version:
    """The version of a commit of this repository, in a directory of its own, under another name.

    Raises :class:`~testbed.servers.base.NotInstalled` where the history does not have the commit.
    """
    git = ["git", "-C", str(ROOT)]
    try:
        done = subprocess.run([*git, "archive", "--format=tar", commit], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotInstalled(f"commit {commit} is not in the history here (as of a shallow clone)") from error
    tree = directory / commit
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree, filter="data")
    own = tree / "speck" / "__init__.py"
    text, count = re.subn(r'(?m)^__version__ = ".*"$', f'__version__ = "{name}"', own.read_text())
    assert count == 1, own
    own.write_text(text)
    return Version(tree, name)


class VersionedServer(RealServer):
    """A server for agents, which works in its directory; ``version`` is that of the next start."""

    log_name = "serve.log"
    start_timeout = PATIENCE

    def __init__(self, directory: Path, version: Version) -> None:
        super().__init__(directory)
        self.version = version
        self._port, self.agents = free_test_ports(2)

    @property
    def client(self) -> Client:
        """A client of this version."""
        return Client(f"http://127.0.0.1:{self._port}")

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`~testbed.servers.base.RealServer`."""
        listening = ["--port", str(self._port), "--agents", f"127.0.0.1:{self.agents}"]
        serve = ["serve", "--data-dir", "store", "--period", "2", *listening]
        return [[sys.executable, "-m", "testbed.servers.double_serve", *serve]]

    def variables(self) -> Mapping[str, str]:
        """See :class:`~testbed.servers.base.RealServer`."""
        return self.version.variables()

    def ready(self) -> bool:
        """See :class:`~testbed.servers.base.RealServer`."""
        with suppress(ServerError):
            return self.client.compositions() is not None
        return False

    def agent(self) -> Mapping[str, Any]:
        """The agent of the site as this server sees it."""
        found = [each["agent"] for each in self.client.sites() if each["name"] == SITE]
        return found[0] or {} if found else {}


class VersionedSite(RealServer):
    """The agent of the site with its engines and broker; ``version`` is that of the next start.

    The engines and the broker end with the process, as by a power cut.
    """

    log_name = "agent.log"
    start_timeout = PATIENCE

    def __init__(self, directory: Path, version: Version) -> None:
        super().__init__(directory)
        self.version = version
        directory.mkdir(parents=True)

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`~testbed.servers.base.RealServer`."""
        (self.directory / REPORT).unlink(missing_ok=True)
        return [self._command("agent")]

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", str(_SCRIPT), *arguments]

    def variables(self) -> Mapping[str, str]:
        """See :class:`~testbed.servers.base.RealServer`."""
        return self.version.variables()

    def ready(self) -> bool:
        """See :class:`~testbed.servers.base.RealServer`."""
        return (self.directory / REPORT).exists()

    def join(self, code: str, port: int) -> None:
        """Join the server at this port by a code, with the command of this version."""
        (self.directory / "sites.yaml").write_text(json.dumps(_INVENTORY))
        given = ["--server", f"127.0.0.1:{port}", "--sites", "sites.yaml", "--directory", "agent"]
        done = subprocess.run(
            self._command("speck", "sites", "join", code, *given),
            cwd=self.directory,
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def reach(self, *ports: int) -> None:
        """Have the site reach the servers of a pair at these ports."""
        path = self.directory / "agent" / "site.json"
        addresses = ",".join(f"ws://127.0.0.1:{each}" for each in ports)
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {"coordinator": addresses}))

    def state(self) -> dict[str, Any]:
        """The report of the site."""
        found: dict[str, Any] = json.loads((self.directory / REPORT).read_bytes())
        return found

    def running(self) -> dict[str, tuple[str, int]]:
        """The engine and the number of the attempt of each job that runs; none runs twice."""
        found = self.state()["running"]
        assert len({each[0] for each in found}) == len(found), found
        return {name: (engine, number) for name, engine, number, _ in found}

    def await_running(self, expected: Mapping[str, tuple[str, int]]) -> None:
        """Wait until exactly these jobs run, and see that nothing was wrong on the way."""
        eventually(self.running, lambda found: found == expected, PATIENCE)
        assert self.state()["violations"] == []

    def await_submission(self, job: str) -> None:
        """Wait until the submission of a slow job waits."""
        eventually(self.state, lambda found: job in found["waiting"], PATIENCE)

    def submit_slow(self) -> None:
        """Let slow jobs be submitted from now on."""
        (self.directory / GO).touch()

    def lose(self, engine: str) -> None:
        """Let an engine lose its jobs."""
        new = self.directory / f"{LOSE}.new"
        new.write_text(engine)
        new.replace(self.directory / LOSE)
        eventually((self.directory / LOSE).exists, lambda found: not found, PATIENCE)
