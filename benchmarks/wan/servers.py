"""Engines and brokers at the sites of a wide area network, and an inventory with their addresses.

Each site has a Mosquitto and an engine in its network namespace, which listen at the site's address.  They
share the site's cores, a quota of processor time that begins when all are up: under a third of a core, a
Flink cluster takes minutes to start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import requests

from benchmarks.load.processes import running
from binders.flink.local.cluster import LocalCluster
from binders.mqtt.local import find_mosquitto, site_configuration
from binders.spark.local.commands import CONNECTOR, connect_server_command, connect_server_environment
from speck.core.inventory import Engine, Inventory, Site, Uplink
from speck.local.wan.cgroup import CpuQuota
from speck.local.wan.network import Network
from testbed.wan.endpoint import accepts

BROKER, REST, CONNECT = 1883, 8081, 15002
_FLINK_PORTS = (REST, 6123, 6124, 6122, 6121)
_UNBOUNDED = 1e9  # bit/s, as in an inventory
_ALL_CORES = 64.0
MANAGER = "StandaloneSessionClusterEntrypoint"  # the class of Flink's JobManager
_PATIENCE = 180.0  # s, for all servers to come up
_QUICK_START = ("-XX:TieredStopAtLevel=1",)  # the optimizing compiler would take a site's cores for minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A site: its ``cores``, the kind of its ``engine`` (``flink``, ``spark``, empty: none), its ``tier``.

    ``broker`` are further lines of the broker's configuration, which take precedence.
    """

    cores: float
    engine: str = "flink"
    tier: str = "edge"
    broker: str = ""


@dataclass
class Servers:
    """The servers of some sites of a network; a context manager.  Raises :class:`RuntimeError`.

    ``remote`` are further sites of the inventory, by name: the engine of one site beside the broker of
    another, so that a job there reads over the link.
    """

    network: Network
    places: Mapping[str, Place]
    directory: Path
    heap: str = "192m"
    remote: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _quotas: dict[str, CpuQuota] = field(default_factory=dict, init=False)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            waiting: dict[str, Callable[[], bool]] = {}
            for site, place in self.places.items():
                name = f"{self.network.namespace(site)}-servers"
                self._quotas[site] = stack.enter_context(CpuQuota(name, _ALL_CORES))
                waiting |= self._start(stack, site, place)
            _await(waiting)
            for site, place in self.places.items():
                self._quotas[site].set(place.cores)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- what is known of them

    def broker(self, site: str) -> str:
        """The address of a site's broker."""
        return f"tcp://{self.network.address(site)}:{BROKER}"

    def engine(self, site: str) -> str:
        """The address of a site's engine."""
        address = self.network.address(site)
        if self.places[site].engine == "spark":
            return f"sc://{address}:{CONNECT}"
        return f"http://{address}:{REST}/"

    def inventory(self) -> Inventory:
        """The sites with their cores, and their links as they are now."""
        sites = {site: self._site(site, place) for site, place in self.places.items()}
        for name, (engine, broker) in self.remote.items():
            sites[name] = replace(sites[engine], name=name, broker_address=self.broker(broker))
        return Inventory(sites)

    def processor_seconds(self, site: str, program: str = "") -> float:
        """The processor time that the servers of a site (of this program) have used."""
        total = 0.0
        for process in map(psutil.Process, self._quotas[site].pids()):
            if program in " ".join(process.cmdline()):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def set_cores(self, cores: Mapping[str, float]) -> None:
        """Change the bounds of the sites' processor time."""
        for site, bound in cores.items():
            self._quotas[site].set(bound)

    def without_bounds(self) -> None:
        """Take the bounds of the sites' processor time away, until :meth:`bound`."""
        self.set_cores(dict.fromkeys(self.places, _ALL_CORES))

    def bound(self) -> None:
        """Bound the sites' processor time by their cores again."""
        self.set_cores({site: place.cores for site, place in self.places.items()})

    def _site(self, site: str, place: Place) -> Site:
        link = self.network.links[site]
        return Site(
            name=site,
            engines=(self._engine(site),),
            broker_address=self.broker(site),
            uplink=Uplink(
                bandwidth=link.up or _UNBOUNDED,
                downlink=link.down or _UNBOUNDED,
                latency=link.delay * 1000,
            ),
            cores=place.cores,
            tier=place.tier,
        )

    def _engine(self, site: str) -> Engine:
        checkpoints, savepoints = self.directory / "checkpoints", self.directory / "savepoints"
        if self.places[site].engine == "spark":
            return Engine(spe_address=self.engine(site), checkpoint_dir=checkpoints.as_uri())
        return Engine(
            spe_address=self.engine(site),
            checkpoint_dir=checkpoints.as_uri(),
            savepoint_dir=savepoints.as_uri(),
        )

    # --- starting them

    def _start(self, stack: ExitStack, site: str, place: Place) -> dict[str, Callable[[], bool]]:
        address, folder = self.network.address(site), self.directory / site
        folder.mkdir(parents=True, exist_ok=True)
        broker = [find_mosquitto(), "-c", str(_broker_configuration(folder, address, place.broker))]
        self._run(stack, site, "broker", broker, dict(os.environ))
        ready = {f"the broker of {site}": lambda: accepts(address, BROKER)}
        if not place.engine:
            return ready
        if place.engine == "spark":
            command, environment = _spark(folder, address, self.heap)
            self._run(stack, site, "spark", command, environment)
            return ready | {f"the engine of {site}": lambda: accepts(address, CONNECT)}
        cluster = _flink(folder, address, self.heap)
        for number, program in enumerate(cluster.programs()):
            self._run(stack, site, f"flink-{number}", program, cluster.environment())
        return ready | {f"the engine of {site}": lambda: _has_slots(self.engine(site))}

    def _run(
        self, stack: ExitStack, site: str, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        # Its output goes to its log: its pipe has no reader.
        quiet = ["/bin/sh", "-c", 'exec "$@" >&2', "sh", *command]
        inside = self._quotas[site].command(self.network.command(site, quiet))
        stack.enter_context(running(name, inside, self.directory / site, environment))


def _broker_configuration(folder: Path, address: str, more: str) -> Path:
    """The recommended configuration of a site, at its address, with some lines of its own."""
    lines = site_configuration(BROKER, folder.resolve()).replace("127.0.0.1", address).splitlines()
    own = [line for line in more.splitlines() if line.strip()]
    given = {line.split()[0] for line in own}
    rest = [line for line in lines if not line.split() or line.split()[0] not in given]
    path = folder / "mosquitto.conf"
    path.write_text("\n".join([*own, *rest, ""]), encoding="utf-8")
    return path


def _flink(folder: Path, address: str, heap: str) -> LocalCluster:
    shared = folder.parent
    extra = {
        "rest.address": address,
        "rest.bind-address": address,
        "pekko.startup-timeout": "2 min",
        "execution.checkpointing.dir": (shared / "checkpoints").as_uri(),
        "execution.checkpointing.savepoint-dir": (shared / "savepoints").as_uri(),
    }
    return LocalCluster(_FLINK_PORTS, folder, heap, slots=16, extra=extra, jvm_options=_QUICK_START)


def _spark(folder: Path, address: str, heap: str) -> tuple[list[str], dict[str, str]]:
    settings = {"spark.connect.grpc.binding.address": address}
    command = connect_server_command(
        CONNECT, [CONNECTOR], heap, settings, directory=folder, jvm_options=_QUICK_START
    )
    return command, connect_server_environment()


def _has_slots(engine: str) -> bool:
    try:
        answer = requests.get(f"{engine}overview", timeout=2)
        return answer.ok and int(answer.json()["slots-total"]) > 0
    except (requests.RequestException, ValueError, KeyError, TypeError):
        return False


def _await(waiting: Mapping[str, Callable[[], bool]]) -> None:
    deadline, silent = time.monotonic() + _PATIENCE, dict(waiting)
    while silent := {name: ready for name, ready in silent.items() if not ready()}:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{_names(silent)} did not answer within {_PATIENCE:g} s")
        time.sleep(0.2)


def _names(found: Iterable[str]) -> str:
    return ", ".join(found)
