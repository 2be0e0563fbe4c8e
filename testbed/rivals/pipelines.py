"""Pipelines that pass messages on: programs by their command lines, Node-RED, and jobs of SpecK.

Each is a :class:`~testbed.servers.base.RealServer` with some hops (:mod:`testbed.rivals.hops`).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from speck.binder import installed
from speck.coordinator import build
from speck.coordinator.build import Services
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, job
from testbed.rivals.hops import Hop, brokers
from testbed.servers.base import NotInstalled, RealServer, accepts, free_port
from testbed.servers.flink import FlinkServer
from testbed.waiting import PATIENCE, await_that

NODE_RED = "node-red@4.1.8"  # the newest release for Node 18.5 to 22.8
_MINUTES = 600.0  # s, for npm


class Program(RealServer):
    """A program for each hop, by its command line.

    In the command ``{source_broker}``, ``{source_host}``, ``{source_port}``, ``{source_topic}``, the same of
    ``sink``, and ``{number}`` stand for those of the hop.
    """

    def __init__(self, directory: Path, hops: Sequence[Hop], command: str) -> None:
        """Prepare it.  Raises :class:`ValueError` for a command with another name in braces."""
        super().__init__(directory)
        self._commands = [filled(command, hop, number) for number, hop in enumerate(hops)]

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        return self._commands

    def ready(self) -> bool:
        """True: the trial waits until a message has passed."""
        return True

    def variables(self) -> Mapping[str, str]:
        """See :class:`RealServer`."""
        return {**os.environ, "PYTHONPATH": str(ROOT)}


def filled(command: str, hop: Hop, number: int) -> list[str]:
    """The words of a command, see :class:`Program`.  Raises :class:`ValueError`."""
    ends = {"source": hop.source, "sink": hop.sink}
    parts = ("broker", "host", "port", "topic")
    values = {f"{end}_{part}": getattr(each, part) for end, each in ends.items() for part in parts}
    values["number"] = number
    try:
        words = [word.format(**values) for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError) as error:
        known = ", ".join(f"{{{name}}}" for name in values)
        raise ValueError(f"command {command!r} cannot be filled in: {error} (expected of {known})") from error
    if not words or shutil.which(words[0]) is None:
        raise ValueError(f"command {command!r} names no program that is installed")
    return words


_PAHO_RELAY = (
    f"{shlex.quote(sys.executable)} -m benchmarks.micro.paho_relay"
    " {source_port} {source_topic} {sink_topic} --to {sink_port}"
)


class PahoRelay(Program):
    """A Python process with paho for each hop, on two connections (``benchmarks.micro.paho_relay``).

    ``best``: its sessions are kept, and a message is acknowledged once the other broker has it; ``mqtt`` is
    the version of MQTT then.
    """

    def __init__(self, directory: Path, hops: Sequence[Hop], *, best: bool = False, mqtt: int = 5) -> None:
        """Prepare it."""
        keep = f" --keep relay-{{number}} --mqtt {mqtt}" if best else ""
        super().__init__(directory, hops, _PAHO_RELAY + keep)


_KAFKA_RELAY = (
    f"{shlex.quote(sys.executable)} -m benchmarks.micro.kafka_relay {{source_host}}:{{source_port}}"
    " {source_topic} {sink_topic} --to {sink_host}:{sink_port} --group relay-{number}"
)


class KafkaRelay(Program):
    """A Python process with kafka-python for each hop (``benchmarks.micro.kafka_relay``).

    ``best``: it commits the place in its topic once the other broker has acknowledged what was before it, and
    its group does not wait for a member that was killed.
    """

    def __init__(self, directory: Path, hops: Sequence[Hop], *, best: bool = False) -> None:
        """Prepare it."""
        super().__init__(directory, hops, _KAFKA_RELAY + (" --commit-late" if best else ""))


class NodeRed(RealServer):
    """Node-RED with a flow of two nodes for each hop.

    By default its broker node speaks MQTT 3.1.1 with a clean session.  ``best`` are the settings that its
    help offers against loss: MQTT 5, a session that is kept, and QoS 1 on both nodes.
    """

    def __init__(self, directory: Path, hops: Sequence[Hop], program: Path, *, best: bool = False) -> None:
        """Prepare it; ``program`` is what :func:`install_node_red` returned."""
        super().__init__(directory)
        self._hops, self._program, self._best = hops, program, best
        self._port = free_port()

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        (self.directory / self.log_name).unlink(missing_ok=True)
        (self.directory / "flows.json").write_text(json.dumps(self._flows()), encoding="utf-8")
        settings = f"module.exports = {{uiPort: {self._port}, uiHost: '127.0.0.1', flowFile: 'flows.json'}}"
        (self.directory / "settings.js").write_text(settings, encoding="utf-8")
        node = shutil.which("node") or "node"
        return [[node, str(self._program), "--userDir", str(self.directory)]]

    def ready(self) -> bool:
        """See :class:`RealServer`; its log has a line once a broker node is connected."""
        return accepts(self._port) and self.log.count("Connected to broker") >= len(brokers(self._hops))

    def _flows(self) -> list[dict[str, object]]:
        flows: list[dict[str, object]] = [{"id": "flow", "type": "tab", "label": "hops"}]
        ids = {address: f"broker{number}" for number, address in enumerate(brokers(self._hops))}
        flows += [self._broker(address, name) for address, name in ids.items()]
        for number, hop in enumerate(self._hops):
            reads = {"type": "mqtt in", "qos": "1", "datatype": "buffer", "inputs": 0}
            writes = {"type": "mqtt out", "qos": "1", "retain": "", "wires": []}
            reads |= {"broker": ids[hop.source.broker], "topic": hop.source.topic}
            writes |= {"broker": ids[hop.sink.broker], "topic": hop.sink.topic}
            flows.append({"id": f"in{number}", "z": "flow", **reads, "wires": [[f"out{number}"]]})
            flows.append({"id": f"out{number}", "z": "flow", **writes})
        return flows

    def _broker(self, address: str, name: str) -> dict[str, object]:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        clean = {"cleansession": not self._best, "protocolVersion": 5 if self._best else 4}
        session = {"clientid": "node-red", "sessionExpiry": "3600"} if self._best else {"clientid": ""}
        place = {"broker": host, "port": port, "keepalive": "60", "usetls": False}
        return {"id": name, "type": "mqtt-broker", "autoConnect": True, **place, **clean, **session}


def install_node_red(folder: Path) -> Path:
    """Install Node-RED below a folder by npm, unless it is there; return its program.

    Raises :class:`~testbed.servers.base.NotInstalled` where that fails.
    """
    program = folder / "node_modules" / "node-red" / "red.js"
    if program.exists():
        return program
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    quietly = ("--no-audit", "--no-fund", "--ignore-scripts")
    command = [npm, "install", *quietly, "--prefix", str(folder), NODE_RED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MINUTES, check=False)
    if done.returncode or not program.exists():
        raise NotInstalled(f"npm cannot install {NODE_RED}: {(done.stderr.strip() or 'no red.js')[-300:]}")
    return program


class SpeckJobs(RealServer):
    """Jobs of SpecK on Flink in one process; the coordinator restarts them when it has seen the engine die.

    The coordinator belongs to this process and is not killed; ``pids`` are those of the engine.
    """

    def __init__(self, directory: Path, hops: Sequence[Hop]) -> None:
        """Prepare it."""
        super().__init__(directory)
        self._hops = hops
        self._flink = FlinkServer(directory / "flink", heap="128m", slots=16, small=True)
        self._stack = ExitStack()
        self._services: Services | None = None
        self._ended: dict[str, int] = {}  # by job, the attempt that was running when the engine was killed

    @property
    def pids(self) -> list[int]:
        """See :class:`RealServer`."""
        return self._flink.pids

    def start(self) -> Self:
        """Start the engine; the first time, apply the jobs, later wait until the coordinator has healed."""
        self._flink.start()
        if self._services is None:
            self._services = self._deployed()
        await_that(self._not_running, lambda found: not found)
        return self

    def _not_running(self) -> list[str]:
        """The jobs that do not run again since the engine was killed."""
        assert self._services is not None
        return [
            each["job_name"]
            for each in self._services.queries.jobs()
            if each["state"] != "running" or each["attempt"] == self._ended.get(each["job_name"])
        ]

    def kill(self) -> None:
        """End the engine by SIGKILL."""
        if self._services is not None:
            self._ended = {each["job_name"]: each["attempt"] for each in self._services.queries.jobs()}
        self._flink.kill()

    def stop(self) -> None:
        """End all."""
        self._stack.close()
        self._flink.kill()

    def _deployed(self) -> Services:
        flink = self._flink
        engine = Engine(
            spe_address=flink.address,
            checkpoint_dir=flink.cluster.checkpoints.as_uri(),
            savepoint_dir=flink.cluster.savepoints.as_uri(),
        )
        site = Site(name="A", engines=(engine,), broker_address=self._hops[0].source.broker)
        store = self._stack.enter_context(Store(self.directory / "store"))
        settings = Settings(roots=(ROOT,), period=1)
        services = build(store, installed(), Inventory({"A": site}), settings)
        coordinator = services.coordinator
        self._stack.callback(coordinator.close)
        coordinator.start()
        loaded = load_composition(
            self._composition(),
            inventory=coordinator.inventory,
            registry=installed(),
            root=ROOT,
            default_name="rivals",
        )
        operation, _ = user.apply(coordinator, loaded.composition)
        if not operation.wait(PATIENCE) or operation.state != "succeeded":
            raise RuntimeError(f"the apply failed: {operation.to_dict()}")
        return services

    def _composition(self) -> str:
        code = (FLINK_CODE, "io.speck.flink.jobs.Forward")
        lines = (
            job(
                f"hop-{number}",
                self._flink.address,
                (hop.source.broker, hop.source.topic),
                (hop.sink.broker, hop.sink.topic),
                code,
            )
            for number, hop in enumerate(self._hops)
        )
        return "jobs:\n" + "".join(lines)
