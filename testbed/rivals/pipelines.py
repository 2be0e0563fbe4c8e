"""Pipelines that pass messages on: relays with paho, Node-RED, and a job of SpecK.

Each is a :class:`~testbed.servers.base.RealServer` with ``jobs`` hops; that of number 0 is from
:data:`~testbed.rivals.trial.SOURCE` to :data:`~testbed.rivals.trial.SINK`.
"""

from __future__ import annotations

import json
import os
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
from testbed.faults.rig import FLINK_CODE, PATIENCE, await_that, job
from testbed.rivals.trial import SINK, SOURCE
from testbed.servers.base import NotInstalled, RealServer, accepts, free_port
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer

NODE_RED = "node-red@4.1.8"  # the newest release for Node 18.5 to 22.8
_MINUTES = 600.0  # s, for npm


def topics(number: int) -> tuple[str, str]:
    """Source and sink of a hop."""
    return (SOURCE, SINK) if number == 0 else (f"{SOURCE}-{number}", f"{SINK}-{number}")


class PahoRelay(RealServer):
    """A Python process with paho for each hop, on two connections each (``benchmarks.micro.paho_relay``)."""

    def __init__(self, directory: Path, broker: MosquittoServer, jobs: int = 1) -> None:
        """Prepare it."""
        super().__init__(directory)
        self._broker, self._jobs = broker, jobs

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        (self.directory / self.log_name).unlink(missing_ok=True)  # it is read for the word "ready"
        relay = [sys.executable, "-m", "benchmarks.micro.paho_relay", str(self._broker.port)]
        return [[*relay, *topics(number), "--connections", "2"] for number in range(self._jobs)]

    def variables(self) -> Mapping[str, str]:
        """See :class:`RealServer`."""
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def ready(self) -> bool:
        """See :class:`RealServer`."""
        return self.log.count("ready") == self._jobs


class NodeRed(RealServer):
    """Node-RED with a flow of two nodes for each hop.

    By default its broker node speaks MQTT 3.1.1 with a clean session.  ``best`` are the settings that its
    help offers against loss: MQTT 5, a session that is kept, and QoS 1 on both nodes.
    """

    def __init__(
        self, directory: Path, broker: MosquittoServer, program: Path, jobs: int = 1, *, best: bool = False
    ) -> None:
        """Prepare it; ``program`` is what :func:`install_node_red` returned."""
        super().__init__(directory)
        self._broker, self._program, self._jobs, self._best = broker, program, jobs, best
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
        """See :class:`RealServer`; its log has a line once the broker node is connected."""
        return accepts(self._port) and "Connected to broker" in self.log

    def _flows(self) -> list[dict[str, object]]:
        clean = {"cleansession": not self._best, "protocolVersion": 5 if self._best else 4}
        session = {"clientid": "node-red", "sessionExpiry": "3600"} if self._best else {"clientid": ""}
        place = {"broker": "127.0.0.1", "port": str(self._broker.port), "keepalive": "60", "usetls": False}
        flows: list[dict[str, object]] = [
            {"id": "flow", "type": "tab", "label": "hops"},
            {"id": "broker", "type": "mqtt-broker", "autoConnect": True, **place, **clean, **session},
        ]
        for number in range(self._jobs):
            source, sink = topics(number)
            common = {"z": "flow", "broker": "broker"}
            reads = {"type": "mqtt in", "topic": source, "qos": "1", "datatype": "buffer", "inputs": 0}
            writes = {"type": "mqtt out", "topic": sink, "qos": "1", "retain": "", "wires": []}
            flows.append({"id": f"in{number}", **common, **reads, "wires": [[f"out{number}"]]})
            flows.append({"id": f"out{number}", **common, **writes})
        return flows


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

    def __init__(self, directory: Path, broker: MosquittoServer, jobs: int = 1) -> None:
        """Prepare it."""
        super().__init__(directory)
        self._broker, self._jobs = broker, jobs
        self._flink = FlinkServer(directory / "flink", heap="128m", slots=16, small=True)
        self._stack = ExitStack()
        self._services: Services | None = None

    @property
    def pids(self) -> list[int]:
        """See :class:`RealServer`."""
        return self._flink.pids

    def start(self) -> Self:
        """Start the engine; the first time, apply the jobs, later wait until the coordinator has healed."""
        self._flink.start()
        if self._services is None:
            self._services = self._deployed()
        queries = self._services.queries
        await_that(lambda: {each["state"] for each in queries.jobs()}, lambda found: found == {"running"})
        return self

    def kill(self) -> None:
        """End the engine by SIGKILL."""
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
        site = Site(name="A", engines=(engine,), broker_address=self._broker.address)
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
        broker, code = self._broker.address, (FLINK_CODE, "io.speck.flink.jobs.Forward")
        lines = (
            job(f"hop-{number}", self._flink.address, (broker, source), (broker, sink), code)
            for number, (source, sink) in enumerate(map(topics, range(self._jobs)))
        )
        return "jobs:\n" + "".join(lines)
