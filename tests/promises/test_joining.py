"""A site behind a firewall joins a running server: no port of it is open, and its jobs run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from binders.flink.local.cluster import CONNECTOR
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE, job
from testbed.faults.served import Served
from testbed.servers.base import free_port
from testbed.servers.certificates import Authority
from testbed.servers.firewalled import FirewalledBroker, FirewalledFlink, FirewalledSite, unavailable
from tests.support.requirements import needs
from tests.support.trials import trial

pytestmark = [
    pytest.mark.engine,
    needs(CONNECTOR, ROOT / FLINK_CODE),
    trial("tests/agent/test_join.py"),
]

JOINING = 60.0  # s, from the code to the agent that is connected
SPECK = (sys.executable, "-m", "speck.cli")


@dataclass(frozen=True)
class Bed:
    """A server, and a site with a broker and a Flink cluster that it cannot reach."""

    site: FirewalledSite
    broker: FirewalledBroker
    flink: FirewalledFlink
    url: str
    agents: str
    authority: Path

    def speck(self, *arguments: object, at_site: bool = False) -> str:
        """The output of a command, at the server or at the site."""
        command = [*SPECK, *map(str, arguments)]
        done = subprocess.run(
            self.site.command(command) if at_site else command,
            cwd=ROOT,
            env=os.environ | {"SPECK_URL": self.url, "SPECK_CA": str(self.authority)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def states(self) -> list[str]:
        """The states of all jobs."""
        return [each["state"] for each in json.loads(self.speck("jobs", "--json"))]

    def agent(self) -> dict[str, Any]:
        """The agent of the site, as the server sees it."""
        (found,) = [each for each in json.loads(self.speck("sites", "--json")) if each["name"] == "street"]
        return {**found["agent"], "engine": found["engines"][0]}


@pytest.fixture(name="bed")
def bed_fixture(tmp_path: Path) -> Iterator[Bed]:
    if reason := unavailable():
        pytest.skip(reason)
    authority = Authority(tmp_path)
    made = authority.certificate("server", "127.0.0.1")
    (tmp_path / "sites.yaml").write_text("sites: {}\n")
    port = free_port()
    with (
        FirewalledSite() as site,
        FirewalledBroker(site, tmp_path / "broker") as broker,
        FirewalledFlink(site, tmp_path / "flink") as flink,
    ):
        agents = f"{site.address_here}:{port}"
        further = {"agents": agents, "tls-cert": made.file, "tls-key": made.key}
        log = tmp_path / "serve.log"
        with Served(
            tmp_path / "store", tmp_path / "sites.yaml", ROOT, log, further=MappingProxyType(further)
        ) as served:
            assert served.client() is not None, log.read_text()
            yield Bed(site, broker, flink, served.url, agents, authority.file)


def test_a_site_behind_a_firewall_joins_and_runs_jobs(bed: Bed, tmp_path: Path) -> None:
    assert bed.site.accepts(bed.broker.port)
    assert not any(map(bed.site.is_open, (bed.broker.port, *bed.flink.ports)))
    begun = time.monotonic()
    code = bed.speck("sites", "add", "street").strip()
    directory = tmp_path / "agent"
    cluster = bed.flink.cluster
    given = {
        "--server": bed.agents,
        "--directory": directory,
        "--engine": bed.flink.address,
        "--broker": bed.broker.address,
        "--checkpoint-dir": cluster.checkpoints,
        "--savepoint-dir": cluster.savepoints,
    }
    bed.speck("sites", "join", code, *(part for pair in given.items() for part in pair), at_site=True)
    command = bed.site.command([sys.executable, "-m", "speck.agent", str(directory)])
    agent = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        eventually(bed.agent, lambda found: bool(found["connected"]))
        assert time.monotonic() - begun < JOINING
        eventually(bed.agent, lambda found: bool((found["engine"]["capacity"] or {}).get("slots_free")))
        text = "jobs:\n" + job(
            "forward",
            bed.flink.address,
            (bed.broker.address, "in"),
            (bed.broker.address, "out"),
            (FLINK_CODE, "io.speck.flink.jobs.Forward"),
        )
        (tmp_path / "chain.yaml").write_text(text)
        bed.speck("apply", tmp_path / "chain.yaml", "--yes", "--root", ROOT)
        eventually(bed.states, lambda found: found == ["running"])
        assert not any(map(bed.site.is_open, (bed.broker.port, *bed.flink.ports)))
        bed.speck("sites", "revoke", "street")
        eventually(bed.agent, lambda found: not found["connected"])
    finally:
        agent.kill()
        agent.wait()
