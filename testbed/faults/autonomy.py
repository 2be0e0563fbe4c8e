"""A site that loses power while its coordinator is stopped: Flink, Mosquitto and the site's agent are killed.

::

    python -m benchmarks.promises autonomy --rounds 20 --messages 6000 --json

Two chains end at the site ``A``, whose engine and broker the coordinator reaches through the agent alone.
The writer of the one is a job at the site itself (``inside``), that of the other is outside::

    in/1 -> forward (A) -> mid/1 (broker of A) -> count (A) -> out/1
    in/2 ------------------------------------------ count (A) -> out/2

The topics ``in`` and ``out`` are at a broker elsewhere.  In the midst of the load, at a moment that differs
from round to round, coordinator, engine, broker and agent end by SIGKILL; the last three are back after some
seconds.  Only when all messages have arrived, or nothing has for a while, the coordinator is started again.

Other cells: the coordinator stays (``contact``), or it stays and the engine alone is killed (``engine``).

Figures: ``messages``, ``lost`` and ``doubled`` by chain; ``alone`` is the time (s) from the moment at which
the power is back to the first output of each chain, median and maximum; ``attempts`` is the highest attempt
of a job in the end (1: the coordinator started none), ``agent`` the memory of the agent (PSS, MB).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from speck.agent.site_file import SiteFile, write_site_file
from speck.client import Client
from speck.core.inventory import Secret
from speck.schema.inventory import read_inventory
from testbed import ROOT
from testbed.faults.rig import FLINK_CODE, Account, Counts, Load, await_that, job
from testbed.faults.served import Served
from testbed.results import add_output_options, published
from testbed.servers.base import RealServer, free_port
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer

CHAINS = ("inside", "outside")
CELLS = ("alone", "contact", "engine")
DARK = (1.0, 6.0)  # s without power
PATIENCE = 120.0  # s without an arrival
RATE = 400.0  # messages/s, over both chains

_SPECK = (sys.executable, "-m", "speck.cli")
_JOBS = "io.speck.flink.jobs"


class AgentProcess(RealServer):
    """The agent of a site; ready when it has begun to look after its jobs."""

    poll = 0.02

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        return [[sys.executable, "-m", "speck.agent", str(self.directory)]]

    def ready(self) -> bool:
        """See :class:`RealServer`."""
        return (self.directory / "lock").exists()


@dataclass(frozen=True)
class Cut:
    """The outcome of one loss of power: accounts by chain, and the time (s) until each is back."""

    accounts: dict[str, Account]
    alone: dict[str, float]


class LoneSite:
    """A site with an agent, a broker elsewhere, and a coordinator; a context manager.

    ``small``: its engine is one process.
    """

    def __init__(self, directory: Path, *, small: bool) -> None:
        self.directory = directory
        self.edge = MosquittoServer(directory / "edge")
        self.broker = MosquittoServer(directory / "site", "autosave_interval 5")
        self.flink = FlinkServer(directory / "flink", slots=8, small=small)
        self.agent = AgentProcess(directory / "agent")
        self._port, self._rest, self._stack = free_port(), free_port(), ExitStack()
        self._served: Served | None = None
        self._loads = 0

    def __enter__(self) -> LoneSite:
        with ExitStack() as stack:
            for server in (self.edge, self.broker, self.flink):
                stack.enter_context(server)
            self._describe()
            stack.callback(self.stop_coordinator)
            self.start_coordinator()
            stack.enter_context(self.agent)
            self.counts = Counts(self.edge)
            stack.callback(self.counts.close)
            await_that(self.is_reached, bool)
            self.apply()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _describe(self) -> None:
        tokens = ["token", "add", str(self.directory / "agents"), "A"]
        minted = subprocess.run([*_SPECK, *tokens], check=True, capture_output=True, text=True).stdout.strip()
        (self.directory / "token").write_text(minted)
        cluster = self.flink.cluster
        site = {
            "spe_address": self.flink.address,
            "broker_address": self.broker.address,
            "checkpoint_dir": cluster.checkpoints.as_uri(),
            "savepoint_dir": cluster.savepoints.as_uri(),
            "agent": True,
        }
        elsewhere = {"edge": {"broker_address": self.edge.address}}
        (self.directory / "sites.yaml").write_text(json.dumps({"sites": {"A": site}, "brokers": elsewhere}))
        described = SiteFile(
            site=read_inventory(self.directory / "sites.yaml").sites["A"],
            coordinator=f"ws://127.0.0.1:{self._port}",
            token=Secret(f"file:{self.directory / 'token'}"),
        )
        write_site_file(self.agent.directory, described)

    # --- the coordinator

    def start_coordinator(self) -> None:
        """Start the server; the agent finds it again by itself."""
        further = {
            "port": self._rest,
            "agents": f"127.0.0.1:{self._port}",
            "agent-tokens": self.directory / "agents",
        }
        self._served = Served(
            self.directory / "store",
            self.directory / "sites.yaml",
            ROOT,
            self.directory / "serve.log",
            further=MappingProxyType(further),
        )
        client = self._served.client()
        if client is None:
            raise RuntimeError((self.directory / "serve.log").read_text()[-2000:])
        self.client: Client = client

    def stop_coordinator(self) -> None:
        """Kill the server."""
        if self._served is not None:
            self._served.kill()
            self._served = None

    def is_reached(self) -> bool:
        """True if the coordinator reaches the engine."""
        return bool(self.client.sites()[0]["engines"][0]["reached"])

    def composition(self) -> str:
        """The two chains."""
        engine, edge, site = self.flink.address, self.edge.address, self.broker.address
        count = (FLINK_CODE, f"{_JOBS}.CountByKey")
        return "jobs:\n" + "".join(
            [
                job("forward-1", engine, (edge, "in/1"), (site, "mid/1"), (FLINK_CODE, f"{_JOBS}.Forward")),
                job("count-1", engine, (site, "mid/1"), (edge, "out/1"), count),
                job("count-2", engine, (edge, "in/2"), (edge, "out/2"), count),
            ]
        )

    def apply(self) -> None:
        """Apply the composition; raises :class:`RuntimeError` when that fails."""
        path = self.directory / "chains.yaml"
        path.write_text(self.composition())
        found = subprocess.run(
            [*_SPECK, "apply", path, "--yes", "--root", ROOT],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"SPECK_URL": f"http://127.0.0.1:{self._rest}"},
        )
        if found.returncode not in (0, 2):
            raise RuntimeError(f"the apply failed: {found.stdout}{found.stderr}")

    # --- a loss of power

    def lose_power(self, seconds: float, *, coordinator: bool, whole: bool = True) -> None:
        """Kill all of the site at once, and the coordinator unless it stays; it is back after some seconds.

        Not ``whole``: the engine alone is killed.
        """
        servers: list[RealServer] = [self.flink, self.broker, self.agent] if whole else [self.flink]
        ends: list[Callable[[], object]] = [each.kill for each in servers]
        self.at_once([*ends, *([] if coordinator else [self.stop_coordinator])])
        time.sleep(seconds)
        if whole:
            (self.agent.directory / "lock").unlink()
        self.at_once([each.start for each in servers])

    @staticmethod
    def at_once(calls: Sequence[Callable[[], object]]) -> None:
        """Make calls side by side, and wait for all."""
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def cut(self, messages: int, moment: random.Random, cell: str = "alone") -> Cut:
        """Send messages, cut the power in the midst of them, and count what arrives.

        The coordinator is stopped (``alone``), or stays (``contact``); or it stays, and the engine alone is
        killed (``engine``).
        """
        before = len(self.counts)
        self._loads += 1
        load = Load(self.edge, f"t{self._loads}", messages, RATE, ("in/1", "in/2"))
        try:
            await_that(lambda: len(self.counts), lambda count: count > before + messages // 10)
            load.await_sent(moment.uniform(0.3, 0.6))
            watch = Arrivals(self.counts, load)
            self.lose_power(moment.uniform(*DARK), coordinator=cell != "alone", whole=cell != "engine")
            alone = watch.first_of_each(time.monotonic())
            load.finish()
            self._await_arrivals(load)
            return Cut(self._accounts(load), alone)
        finally:
            load.close()

    def _accounts(self, load: Load) -> dict[str, Account]:
        texts = {chain: load.texts[number :: len(CHAINS)] for number, chain in enumerate(CHAINS)}
        return {chain: self.counts.account(each) for chain, each in texts.items()}

    def _await_arrivals(self, load: Load) -> None:
        missing, since = len(load.texts), time.monotonic()
        while missing and time.monotonic() - since < PATIENCE:
            time.sleep(0.2)
            now = self.counts.account(load.texts).lost
            if now != missing:
                missing, since = now, time.monotonic()
        time.sleep(1)  # what comes once too often comes at once


class Arrivals:
    """The arrivals of each chain until power was cut."""

    def __init__(self, counts: Counts, load: Load) -> None:
        self._counts, self._load = counts, load

    def first_of_each(self, since: float) -> dict[str, float]:
        """The time (s) from ``since`` to the first further arrival of each chain."""
        before, found = self._missing(), dict[str, float]()
        deadline = since + PATIENCE
        while len(found) < len(CHAINS) and time.monotonic() < deadline:
            time.sleep(0.02)
            now = self._missing()
            for chain in CHAINS:
                if chain not in found and now[chain] < before[chain]:
                    found[chain] = time.monotonic() - since
        return {chain: found.get(chain, PATIENCE) for chain in CHAINS}

    def _missing(self) -> dict[str, int]:
        texts = {chain: self._load.texts[number :: len(CHAINS)] for number, chain in enumerate(CHAINS)}
        return {chain: self._counts.account(each).lost for chain, each in texts.items()}


@contextmanager
def lone_site(*, small: bool) -> Iterator[LoneSite]:
    """A site in a directory of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="speck-alone-") as directory,
        LoneSite(Path(directory), small=small) as site,
    ):
        yield site


def measure(cell: str, rounds: int, messages: int, seed: int, *, small: bool) -> list[dict[str, object]]:
    """The sums over some rounds by chain, and the agent's memory (MB, PSS) after them."""
    moment, cuts = random.Random(seed), list[Cut]()
    with lone_site(small=small) as site:
        for number in range(rounds):
            found = site.cut(messages, moment, cell)
            cuts.append(found)
            print(f"{cell}, round {number + 1}: {found}", file=sys.stderr, flush=True)
            if cell == "alone":
                site.start_coordinator()
            await_that(site.is_reached, bool)
        memory = proportional_memory(site.agent.pid)
        attempts = max(each["attempt"] for each in site.client.jobs())
    return [_cell(chain, cuts) | {"cell": cell, "agent": memory, "attempts": attempts} for chain in CHAINS]


def proportional_memory(pid: int) -> float:
    """The memory of a process, its share of what it shares with others (PSS), in MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = [int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")]
    return round(sum(found) / 1024, 1)


def _cell(chain: str, cuts: Sequence[Cut]) -> dict[str, object]:
    found = [each.accounts[chain] for each in cuts]
    times = [each.alone[chain] for each in cuts]
    total = Account(*(sum(column) for column in zip(*(asdict(each).values() for each in found), strict=True)))
    return {
        "chain": chain,
        "rounds": len(cuts),
        "messages": total.messages,
        "lost": total.lost,
        "doubled": total.doubled,
        "alone_median": round(statistics.median(times), 1),
        "alone_max": round(max(times), 1),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print their figures; exits 1 when anything was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises autonomy", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--messages", type=int, default=6_000, help="of each round, over both chains")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the cuts")
    add_output_options(parser)
    parser.add_argument("--engine", choices=("flink", "flink-small"), default="flink", help="of the site")
    parser.add_argument("--cell", action="append", choices=CELLS, help="(may be repeated)")
    options = parser.parse_args(arguments)
    cells = [
        found
        for cell in options.cell or CELLS
        for found in measure(
            cell, options.rounds, options.messages, options.seed, small=options.engine == "flink-small"
        )
    ]
    if not published(options, "promises-autonomy", {"cells": cells}):
        for cell in cells:
            print(*(f"{value!s:>9}" for value in cell.values()))
    return 1 if any(cell["lost"] or cell["doubled"] for cell in cells) else 0
