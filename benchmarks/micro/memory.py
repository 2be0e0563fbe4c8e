"""Memory of each process of a site and of the coordinator, with small heaps.

``python -m benchmarks.memory [--json] [--engine KIND] [--settings] [--agents] [--heap SIZE] [--full]
[--jobs N] [--messages N] [--rest S]``.  ``--settings`` also measures each engine with one of its settings
undone at a time; ``--full`` with Java heaps that are full from the start, as they are at most.  With
``--agents`` the site has an agent, with its processor time at rest (``agent cpu``, percent of a core) and the
bytes of its connection (``agent bytes``, a second, both directions, TCP and IP included; ``agent slices``: in
each 30 s after the last message).
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import os
import queue
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import yaml
from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.load.settings import SETTINGS, changed, filled
from benchmarks.micro.agents import HEADERS
from speck import local
from speck.binder import installed
from speck.client import Client as Rest
from testbed.results import add_output_options, published
from testbed.termination import run

ROOT = Path(__file__).resolve().parents[2]
HEAPS = {"spark-connect": "512m", "flink": "128m", "flink-small": "128m"}  # the TaskManager's, in flink
_PROGRAMS = (  # a word of the command line, and what the process is
    ("SmallServer", "Spark Connect server"),
    ("StandaloneSessionClusterEntrypoint", "Flink JobManager"),
    ("TaskManagerRunner", "Flink TaskManager"),
    ("SmallCluster", "Flink in one process"),
    ("mosquitto", "Mosquitto"),
    ("speck.agent", "agent"),
    ("speck.cli", "coordinator"),
)
_OTHERS = ("coordinator", "agent cpu", "agent bytes")  # what is no memory of the site
_FLINK_JOB = {
    "job_path": "jars_and_apps/flink/speck-flink-jobs.jar",
    "entry_class": "io.speck.flink.jobs.Forward",
}
_JOBS: dict[str, dict[str, Any]] = {
    "spark-connect": {"job_path": "benchmarks/load/pass_through.py", "entry_class": "pass_through"},
    "flink": _FLINK_JOB,
    "flink-small": _FLINK_JOB,
}
_PAYLOAD = b"x" * 100
_UNDER_WAY = 1000  # messages; paho crawls when more wait for their acknowledgement
_LIMIT = 300.0  # s
_SLICE = 30  # s


@dataclass(frozen=True)
class Options:
    """Parameters of a measurement; ``rest`` in seconds after the last message.

    ``undone`` is the setting that is undone, or empty.
    """

    engine: str
    undone: str
    heap: str
    jobs: int
    messages: int
    rest: float
    agents: bool = False
    full: bool = False


def measure(options: Options) -> list[dict[str, Any]]:
    """A row for each number of jobs: PSS of each process in MB, at rest after they passed the messages."""
    with tempfile.TemporaryDirectory(prefix="speck-memory-") as place:
        directory = Path(place)
        registry = installed()
        if options.undone:
            registry = changed(registry, options.engine, SETTINGS[options.engine][options.undone].applied)
        if options.full:
            registry = changed(registry, options.engine, filled)
        with (
            local.up(
                directory / "local",
                1,
                engines={"A": [options.engine]},
                heap=options.heap,
                registry=registry,
                progress=_say,
                with_agents=options.agents,
            ) as sites,
            _coordinator(directory, sites) as (rest, coordinator),
        ):
            servers = (*sites.servers, *sites.agents)
            processes = [psutil.Process(each.pid) for each in servers if each.pid] + [coordinator]
            _await_agents(rest)
            return [_row(options, jobs, rest, sites, processes) for jobs in (0, 1, options.jobs)]


def _row(
    options: Options, jobs: int, rest: Rest, sites: local.LocalSites, processes: list[psutil.Process]
) -> dict[str, Any]:
    if jobs:
        _say(f"{jobs} jobs")
        operation = rest.apply(_composition(options.engine, jobs), "memory", wait=_LIMIT)
        if operation["state"] != "succeeded":
            raise SystemExit(f"the jobs do not run: {operation['error'] or operation['actions']}")
        _pass(sites.sites[0].broker.address, options.messages, options.messages * jobs)
    connection, slices = _Connection(sites), list[float]()
    for begin in range(0, int(options.rest), _SLICE):  # garbage collections and idle timers settle meanwhile
        part = _Connection(sites)
        time.sleep(min(_SLICE, options.rest - begin))
        slices.append(part.since().get("agent bytes", 0.0))
    found = _memory(processes) | connection.since()
    site = round(sum(size for name, size in found.items() if name not in _OTHERS), 1)
    described = {
        "engine": options.engine,
        "undone": options.undone,
        "heap": options.heap,
        "full": options.full,
        "jobs": jobs,
    }
    return described | found | {"site": site} | ({"agent slices": slices} if options.agents else {})


class _Connection:
    """The connection of the first site's agent, from now on; without an agent, nothing."""

    def __init__(self, sites: local.LocalSites) -> None:
        pids = [each.pid for each in sites.agents if each.pid]
        self._agent = psutil.Process(pids[0]) if pids else None
        self._port = sites.agents[0].ports[0] if pids else 0
        self._begun, self._before = time.monotonic(), self._now()

    def since(self) -> dict[str, float]:
        """Processor time of the agent, percent of a core, and bytes of its connection, each second."""
        if self._agent is None:
            return {}
        seconds, now = time.monotonic() - self._begun, self._now()
        spent, carried = (after - before for after, before in zip(now, self._before, strict=True))
        return {"agent cpu": round(100 * spent / seconds, 2), "agent bytes": round(carried / seconds, 1)}

    def _now(self) -> tuple[float, float]:
        if self._agent is None:
            return 0.0, 0.0
        used = self._agent.cpu_times()
        command = ["ss", "-tinH", "dport", "=", f":{self._port}"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        counted = {name: int(value) for name, value in re.findall(r"(bytes_\w+|segs_\w+):(\d+)", shown)}
        segments = counted.get("segs_out", 0) + counted.get("segs_in", 0)
        carried = counted.get("bytes_acked", 0) + counted.get("bytes_received", 0) + HEADERS * segments
        return used.user + used.system, carried


def _await_agents(rest: Rest) -> None:
    deadline = time.monotonic() + _LIMIT
    while any(each["agent"] and not each["agent"]["connected"] for each in rest.sites()):
        if time.monotonic() > deadline:
            raise SystemExit("the agent is not connected")
        time.sleep(1)


def _composition(engine: str, jobs: int) -> bytes:
    common = {"site": "A", "source_topic": "in", **_JOBS[engine]}
    names = [f"pass-{number}" for number in range(jobs)]
    data = [{**common, "job_name": name, "sink_topic": f"out/{name}"} for name in names]
    return yaml.safe_dump({"jobs": data}).encode()


def _pass(broker: str, messages: int, expected: int) -> None:
    """Publish this number of messages, and wait until as many came out."""
    arrived: queue.Queue[str] = queue.Queue()
    with _connected(broker, lambda message: arrived.put(message.topic)) as client:
        for number in range(messages):
            sent = client.publish("in", _PAYLOAD, qos=1)
            if number % _UNDER_WAY == _UNDER_WAY - 1:
                sent.wait_for_publish(_LIMIT)
        for _ in range(expected):
            arrived.get(timeout=_LIMIT)


@contextlib.contextmanager
def _connected(broker: str, receive: Callable[[MQTTMessage], None]) -> Iterator[Client]:
    address, subscribed = urlsplit(broker), queue.Queue[None]()
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.on_subscribe = lambda *_: subscribed.put(None)
    client.on_message = lambda _client, _data, message: receive(message)
    client.connect(address.hostname or "", address.port or 1883)
    client.loop_start()
    try:
        client.subscribe("out/+", qos=1)
        subscribed.get(timeout=_LIMIT)
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


@contextlib.contextmanager
def _coordinator(directory: Path, sites: local.LocalSites) -> Iterator[tuple[Rest, psutil.Process]]:
    serve = ["serve", "--port", "0", "--data-dir", directory / "store", "--root", ROOT]
    options = ["--sites", sites.inventory, *sites.agent_options]
    command = [sys.executable, "-m", "speck.cli", *map(str, [*serve, *options])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Rest(process.stdout.readline().split()[-1]), psutil.Process(process.pid)
        finally:
            process.terminate()


def _memory(processes: list[psutil.Process]) -> dict[str, float]:
    """Proportional memory (proc(5), smaps_rollup: Pss) in MB, by what a process is; helpers are left out."""
    found: dict[str, float] = {}
    for process in (each for top in processes for each in (top, *top.children(recursive=True))):
        words = " ".join(process.cmdline())
        for word, name in _PROGRAMS:
            if word in words:
                found[name] = found.get(name, 0) + process.memory_full_info().pss / 1e6
                break
    return {name: round(size, 1) for name, size in found.items()}


def _compile() -> None:
    """Compile the modules, as pip does: a process that compiles them itself takes some MB more."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for package in ("speck", "binders"):
        compileall.compile_dir(ROOT / package, quiet=1)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description="memory of a site's processes")
    add_output_options(parser)
    parser.add_argument("--engine", choices=sorted(HEAPS), action="append", help="by default each")
    parser.add_argument("--agents", action="store_true", help="a site with an agent")
    parser.add_argument("--settings", action="store_true", help="also with each setting undone")
    parser.add_argument("--heap", help="Java heap of the server or the TaskManager [default: 512m; 128m]")
    parser.add_argument("--full", action="store_true", help="with Java heaps that are full from the start")
    parser.add_argument("--jobs", type=int, default=8, metavar="N")
    parser.add_argument("--messages", type=int, default=5000, metavar="N", help="through each job")
    parser.add_argument("--rest", type=float, default=10.0, metavar="SECONDS", help="before looking")
    given = parser.parse_args()
    _compile()
    rows: list[dict[str, Any]] = []
    for engine in given.engine or sorted(HEAPS):
        for undone in ("", *(SETTINGS.get(engine, ()) if given.settings else ())):
            _say(f"{engine}{', without: ' + undone if undone else ''}")
            heap = given.heap or HEAPS[engine]
            sizes = given.jobs, given.messages, given.rest
            rows += measure(Options(engine, undone, heap, *sizes, given.agents, given.full))
    first = {row["jobs"]: row["site"] for row in reversed(rows)}
    for row in rows:
        row["ratio"] = round(row["site"] / first[row["jobs"]], 2)  # to the first engine
    if published(given, "memory", {"memory_mb": rows}):
        return
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    run(main)
