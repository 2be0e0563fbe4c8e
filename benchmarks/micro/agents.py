"""Many agents at one coordinator: ``python -m benchmarks.agents [--agents N] [--seconds S] [--json]``.

Simulated agents (:mod:`testbed.benches.fleet`), each with one job, connect over sockets of this machine to
the listener of a coordinator in this process, which checks their tokens as a server does.
``connect_seconds`` is the time until all are connected at first, ``restart_seconds`` that from the start of
the listener after its end, each agent with the pauses of a real one, ``restart_refused`` the times that one
was asked to come again, and ``restart_cpu_ms`` the processor time of this process meanwhile by agent.  With
``--impatient`` agents do not know that answer, as those of an earlier version.  ``round_seconds`` is the time
of a round of the observer over all of their jobs, by looks, and ``round_by_calls_seconds`` with agents that
report none: the median, the shortest and the longest of some.  ``memory_mb`` is the growth of this process by
the connections, ``threads`` its threads after the rounds.  At rest, for ``--seconds``: ``cpu_percent`` of a
core, and ``bytes_per_second`` of one agent's connection, both directions, headers of TCP and IP included.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.common import Figure
from speck.binder.pool import BinderPool
from speck.core.inventory import Engine, Inventory, Site
from speck.core.runtime import Handle, JobState
from speck.core.settings import ServerSettings
from speck.observe.observer import Observer
from speck.server.agents import agents_hub, enrolment_of, listed_tokens, remote_binders
from speck.server.tokens import digest
from speck.store import Store
from speck.store.deployments import Deployment
from testbed import ROOT
from testbed.benches.fleet import broker_of, engine_of, token_of
from testbed.benches.jobs_by_hand import make_job
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.results import add_output_options, published
from testbed.termination import run

PROCESSES = 2  # of agents
PATIENCE = 300.0  # s
ROUNDS = 5
HEADERS = 52  # bytes of IP and TCP with time stamps, a segment
_POLL = 0.05  # s


class Coordinator:
    """A hub, with the sites and the tokens of simulated agents; it may be started again on its port."""

    def __init__(self, count: int, directory: Path) -> None:
        sites = {
            f"s{number}": Site(
                name=f"s{number}",
                engines=(Engine(spe_address=engine_of(number)),),
                broker_address=broker_of(number),
                agent=True,
            )
            for number in range(count)
        }
        self.inventory = Inventory(sites)
        tokens = directory / "tokens"
        tokens.touch(0o600)
        hashes = ((number, digest(token_of(number).encode())) for number in range(count))
        tokens.write_text("".join(f"s{number} read {sha256}\n" for number, sha256 in hashes))
        settings = ServerSettings(agents="127.0.0.1:0", agent_tokens=tokens)
        self._store = Store(directory / "store")
        registry = double_kinds(World())
        self._enrolment = enrolment_of(listed_tokens(settings), self._store, registry, self.inventory, None)
        self._settings, self._port = settings, 0
        self.start()

    def start(self) -> None:
        """Accept agents."""
        hub = agents_hub(self._settings, self._enrolment, secured=False)
        assert hub is not None
        self.hub = hub
        listener = socket.create_server(("127.0.0.1", self._port), backlog=4096)
        self._port = listener.getsockname()[1]
        self.hub.start(listener)

    @property
    def url(self) -> str:
        """The address for agents."""
        return f"ws://127.0.0.1:{self._port}"

    def await_all(self) -> float:
        """Wait until all agents are connected; returns the time, s."""
        begun = time.monotonic()
        missing = list(self.inventory.sites)
        while missing := [each for each in missing if self.hub.presence(each) is None]:
            if time.monotonic() - begun > PATIENCE:
                raise SystemExit(f"{len(missing)} agents are not connected after {PATIENCE:g} s")
            time.sleep(_POLL)
        return time.monotonic() - begun

    def close(self) -> None:
        """End it."""
        self.hub.close()
        self._store.close()

    def await_looks(self) -> None:
        """Wait until all agents have reported a look."""
        deadline = time.monotonic() + PATIENCE
        while not all(
            self.hub.look(f"s{each}", engine_of(each)) for each in range(len(self.inventory.sites))
        ):
            if time.monotonic() > deadline:
                raise SystemExit(f"not all agents report looks after {PATIENCE:g} s")
            time.sleep(_POLL)

    def _sites(self) -> Iterable[Site]:
        return self.inventory.sites.values()

    def rounds(self) -> Figure:
        """The times of some rounds in which all jobs are seen, s."""
        pool = BinderPool(double_kinds(World()), self.inventory)
        pool.remote = remote_binders(self.hub, self.inventory)
        observer = Observer(pool, time.time, patience=PATIENCE)
        jobs = [_deployment(number) for number in range(len(self.inventory.sites))]
        deadline, found = time.monotonic() + PATIENCE, list[float]()
        while len(found) <= ROUNDS:
            seconds, odd = _timed(lambda: _odd(observer, jobs))
            if not odd:
                found.append(seconds)
            elif time.monotonic() > deadline:
                raise SystemExit(f"no round in {PATIENCE:g} s saw all jobs: {odd}")
            else:  # an agent had lost its connection, as on a loaded machine
                self.await_all()
        pool.close()
        return Figure.of(found[1:])  # the first makes the binders


def _deployment(number: int) -> Deployment:
    engine, broker = engine_of(number), broker_of(number)
    job = make_job(f"job-{number}", spe_address=engine, source_broker=broker, sink_broker=broker)
    return job, Handle(engine, f"j{number}")


def _odd(observer: Observer, jobs: Sequence[Deployment]) -> str:
    """The jobs that are not seen to run in one round, in words; empty without any."""
    odd = [each for each in observer.poll(jobs).statuses.values() if each.state is not JobState.RUNNING]
    return f"{len(odd)} jobs are {odd[0].state.value}: {odd[0].message}" if odd else ""


def _timed(call: Callable[[], str]) -> tuple[float, str]:
    begun = time.perf_counter()
    found = call()
    return time.perf_counter() - begun, found


@contextmanager
def fleet(url: str, count: int, *options: str) -> Iterator[list[subprocess.Popen[str]]]:
    """The agents, in some processes."""
    share = -(-count // PROCESSES)
    firsts = range(0, count, share)
    command = [sys.executable, "-m", "testbed.benches.fleet", url]
    processes = [
        subprocess.Popen(
            [*command, "--first", str(first), "--count", str(min(share, count - first)), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for first in firsts
    ]
    try:
        yield processes
    finally:
        for each in processes:
            each.kill()
            each.wait()


def traffic(processes: Sequence[subprocess.Popen[str]]) -> int:
    """The bytes that the connections of the agents have carried so far."""
    total = 0
    for each in processes:
        assert each.stdin is not None and each.stdout is not None
        each.stdin.write("\n")
        each.stdin.flush()
        found = json.loads(each.stdout.readline())
        total += found["bytes"] + HEADERS * found["segments"]
    return total


def measure(count: int, seconds: float, directory: Path, *options: str) -> dict[str, Any]:
    """One row of the result; ``options`` are those of :mod:`testbed.benches.fleet`."""
    process, coordinator = psutil.Process(), Coordinator(count, directory)
    before = process.memory_full_info().uss
    with fleet(coordinator.url, count, *options) as agents:
        row: dict[str, Any] = {"agents": count, "connect_seconds": coordinator.await_all()}
        coordinator.await_looks()
        row["memory_mb"] = (process.memory_full_info().uss - before) / 1e6
        row |= dict(coordinator.rounds().named("round_seconds"))
        row["threads"] = threading.active_count()
        coordinator.hub.close()
        before_restart = process.cpu_times()
        coordinator.start()
        row["restart_seconds"] = coordinator.await_all()
        row["restart_refused"] = coordinator.hub.refused
        row["restart_cpu_ms"] = 1000 * _seconds(before_restart, process.cpu_times()) / count
        coordinator.await_looks()
        begun = traffic(agents)
        row["cpu_percent"] = _used(process, seconds)
        row["bytes_per_second"] = (traffic(agents) - begun) / count / seconds
    with fleet(coordinator.url, count, "--without-looks", *options):
        coordinator.await_all()
        row |= dict(coordinator.rounds().named("round_by_calls_seconds"))
    coordinator.close()
    return row


def _used(process: psutil.Process, seconds: float) -> float:
    """The processor time of this process for some seconds, percent of a core."""
    before = process.cpu_times()
    time.sleep(seconds)
    return 100 * _seconds(before, process.cpu_times()) / seconds


def _seconds(before: Any, after: Any) -> float:
    """The processor time between two answers of psutil, s."""
    return float(after.user + after.system - before.user - before.system)


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description="many agents at one coordinator")
    add_output_options(parser)
    parser.add_argument("--agents", type=int, default=10_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="at rest")
    parser.add_argument("--impatient", action="store_true", help="agents of an earlier version")
    options = parser.parse_args()
    further = ["--impatient"] if options.impatient else []
    with TemporaryDirectory(prefix="speck-agents-") as directory:
        row = measure(options.agents, options.seconds, Path(directory), *further)
    if published(options, "agents", {"agents": row}):
        return
    for name, value in row.items():
        print(f"{name:>26}  {value:.3f}" if isinstance(value, float) else f"{name:>26}  {value}")


if __name__ == "__main__":
    run(main)
