"""A site with an agent, a broker elsewhere, a second site, and a real ``speck serve``, to be hurt.

::

    in/1 -> forward-1 (A) -> mid/1 (broker of A) -> count-1 (A) -> out/1
    in/2 -------------------------------------------- count-2 (A) -> out/2
    in/3 -------------------------------------------- count-3 (A) -> out/3

The topics ``in`` and ``out`` are at a broker elsewhere, which the site reaches by its uplink alone, as it
does the coordinator.  The engine of the site ``B``, which has no agent, is started when a job is to move.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any

from speck.agent.attempt_files import AttemptFiles
from speck.agent.run_state import Record
from speck.agent.site_file import SiteFile, write_site_file
from speck.client import Client, RequestRefused
from speck.core.inventory import Secret
from speck.schema.inventory import read_inventory
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.rig import Counts
from testbed.faults.served import Served
from testbed.servers.base import RealServer, free_port
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.uplink import Uplink
from testbed.waiting import await_that

ENGINES = ("flink", "flink-small", "connect")  # the second is one process
COMPOSITION = "chains"
OPERATION = 240.0  # s, for an operation whose places all answer

_SPECK = (sys.executable, "-m", "speck.cli")
_JOBS = "io.speck.flink.jobs"
_STARTS = 5  # of a server that ends while it starts
_LAG = "2 seconds"  # of the counting jobs on Spark: until they commit, messages are at the broker alone
_ON_FLINK = ((FLINK_CODE, f"{_JOBS}.Forward"), (FLINK_CODE, f"{_JOBS}.CountByKey"))
_ON_SPARK = ((SPARK_CODE, "upper"), (SPARK_CODE, "count"))


class AgentProcess(RealServer):
    """The agent of a site; ready when it has begun to look after its jobs."""

    poll = 0.02

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        return [[sys.executable, "-m", "speck.agent", str(self.directory)]]

    def ready(self) -> bool:
        """See :class:`RealServer`."""
        return (self.directory / "lock").exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainsForm:
    """The places and the options of the jobs.

    ``at_b`` are the jobs at site B; with ``count-1`` there, the topic ``mid/1`` is at the broker elsewhere.
    ``edited`` have another parallelism, or on Spark another trigger; ``without`` are left out.
    """

    at_b: Collection[str] = ()
    edited: Collection[str] = ()
    without: Collection[str] = ()


BASE = ChainsForm()


class LoneSite:
    """The servers, the agent and the coordinator; a context manager.  ``engine`` is one of ENGINES."""

    def __init__(self, directory: Path, engine: str = "flink") -> None:
        self.directory, self.engine = directory, engine
        self.edge = MosquittoServer(directory / "edge")
        self.broker = MosquittoServer(directory / "site", "autosave_interval 5")
        self.server, self.other = self._server("engine"), self._server("other")
        self.agent = AgentProcess(directory / "agent")
        self.uplink = Uplink(lambda: [*self.server.pids, *self.agent.pids])
        self.way = self.uplink.way(self.edge.port)
        self._port, self._rest, self._stack = free_port(), free_port(), ExitStack()
        self._contact = self.uplink.way(self._port)
        self._served: Served | None = None

    def _server(self, name: str) -> FlinkServer | SparkServer:
        directory = self.directory / name
        if self.engine == "connect":
            return SparkServer(directory)
        return FlinkServer(directory, slots=8, small=self.engine == "flink-small")

    def __enter__(self) -> LoneSite:
        with ExitStack() as stack:
            for server in (self.edge, self.broker, self.server, self.way, self._contact):
                stack.enter_context(server)
            self._describe()
            stack.callback(self.stop_coordinator)
            self.start_coordinator()
            stack.callback(self.other.kill)
            stack.enter_context(self.agent)
            self.counts = Counts(self.edge)
            stack.callback(self.counts.close)
            await_that(self.is_reached, bool)
            self.apply(BASE)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _describe(self) -> None:
        tokens = ["token", "add", str(self.directory / "agents"), "A"]
        minted = subprocess.run([*_SPECK, *tokens], check=True, capture_output=True, text=True).stdout.strip()
        (self.directory / "token").write_text(minted)
        sites = {
            "A": {"broker_address": self.broker.address, "agent": True, **self._entry(self.server)},
            "B": {"broker_address": self.way.address, **self._entry(self.other)},
        }
        (self.directory / "sites.yaml").write_text(json.dumps({"sites": sites}))
        described = SiteFile(
            site=read_inventory(self.directory / "sites.yaml").sites["A"],
            coordinator=f"ws://127.0.0.1:{self._contact.port}",
            token=Secret(f"file:{self.directory / 'token'}"),
        )
        write_site_file(self.agent.directory, described)

    def _entry(self, server: FlinkServer | SparkServer) -> dict[str, object]:
        if isinstance(server, SparkServer):
            return {
                "spe_address": server.address,
                "checkpoint_dir": str(server.directory / "states"),
            }
        return {
            "spe_address": server.address,
            "checkpoint_dir": server.cluster.checkpoints.as_uri(),
            "savepoint_dir": server.cluster.savepoints.as_uri(),
        }

    # --- the coordinator

    def start_coordinator(self) -> None:
        """Start the server, if it does not run; the agent reconnects."""
        if self._served is not None:
            return
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

    def is_reached(self, name: str = "A") -> bool:
        """True if the coordinator reaches the engine of this site, or of site B."""
        return next(
            bool(each["engines"][0]["reached"]) for each in self.client.sites() if each["name"] == name
        )

    # --- the jobs

    def composition(self, form: ChainsForm) -> str:
        """The three chains."""
        middle = self.way.address if "count-1" in form.at_b else self.broker.address
        edge = self.way.address
        chains = {
            "forward-1": ((edge, "in/1"), (middle, "mid/1")),
            "count-1": ((middle, "mid/1"), (edge, "out/1")),
            "count-2": ((edge, "in/2"), (edge, "out/2")),
            "count-3": ((edge, "in/3"), (edge, "out/3")),
        }
        lines = (self._line(name, form, *ends) for name, ends in chains.items() if name not in form.without)
        return "jobs:\n" + "".join(lines)

    def _line(self, name: str, form: ChainsForm, source: tuple[str, str], sink: tuple[str, str]) -> str:
        counts, edited = name.startswith("count"), name in form.edited
        engine = self.other if name in form.at_b else self.server
        options = ["upgrade: stateless"] if self._moves(name, form) else []
        if self.engine != "connect":
            options += ["parallelism: 2"] if edited else []
        elif counts:
            options.append(f"trigger: {'1 second' if edited else _LAG}")
        text = job(
            name, engine.address, source, sink, (_ON_SPARK if self.engine == "connect" else _ON_FLINK)[counts]
        )
        return text.replace("}\n", "".join(f", {each}" for each in options) + "}\n")

    def _moves(self, name: str, form: ChainsForm) -> bool:
        """True for a job whose state the coordinator cannot read: that of a site without its agent."""
        return name in form.at_b or name in self._away

    _away: Collection[str] = ()  # the jobs at site B now

    def apply(self, form: ChainsForm, leave_behind: str = "") -> None:
        """Apply a form; raises :class:`RuntimeError` when that fails."""
        found = self.begin(form, leave_behind)
        if found["state"] != "succeeded":
            raise RuntimeError(f"the apply {found['state']}: {json.dumps(found)[:3000]}")

    def begin(self, form: ChainsForm, leave_behind: str = "", wait: float = OPERATION) -> dict[str, Any]:
        """Apply a form, and return the operation when it has ended, or after this time (s)."""
        query: dict[str, Any] = {"wait": wait, "leave_behind": [leave_behind] if leave_behind else []}
        text, deadline = self.composition(form).encode(), time.monotonic() + OPERATION
        while True:
            try:
                found = self.client.apply(text, COMPOSITION, **query)
            except RequestRefused as error:  # another operation, such as a healing one, is under way
                if error.status != HTTPStatus.CONFLICT or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                self._away = form.at_b
                return found

    def records(self) -> dict[str, Record]:
        """The newest attempt of each job at the site, from the agent's files, by the job's name."""
        found: dict[str, Record] = {}
        for each in AttemptFiles(self.agent.directory / "attempts").read():
            known = found.get(each.attempt.job_name)
            if known is None or each.attempt.number > known.attempt.number:
                found[each.attempt.job_name] = each
        return found

    def await_running(self) -> None:
        """Wait until the coordinator sees all jobs run."""

        def states() -> list[str]:
            return [each["state"] for each in self.client.jobs()]

        await_that(states, lambda found: bool(found) and set(found) == {"running"})

    # --- a loss of power

    def lose_power(self, *, coordinator: bool, whole: bool = True) -> None:
        """Kill all of the site at once, and the coordinator unless it stays.

        Not ``whole``: the engine alone is killed.
        """
        ends: list[Callable[[], object]] = [each.kill for each in self._hurt(whole)]
        at_once([*ends, *([] if coordinator else [self.stop_coordinator])])

    def restore_power(self, *, whole: bool = True) -> None:
        """Start all that was killed of the site, in any order."""
        if whole:
            (self.agent.directory / "lock").unlink()
        at_once([partial(_start, each) for each in self._hurt(whole)])

    def _hurt(self, whole: bool) -> list[RealServer]:
        return [self.server, self.broker, self.agent] if whole else [self.server]


def _start(server: RealServer) -> None:
    """Start a server, again if it ends while it starts, as systemd does."""
    for _ in range(_STARTS - 1):
        with suppress(RuntimeError):
            server.start()
            return
    server.start()


def at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Make calls side by side, and wait for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def lone_site(engine: str) -> Iterator[LoneSite]:
    """A site in a directory of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="speck-alone-") as directory,
        LoneSite(Path(directory), engine) as site,
    ):
        yield site
