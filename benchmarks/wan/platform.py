"""Sites with engines and brokers in a wide area network, a coordinator outside of them, and their traffic."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.wan.servers import BROKER, MANAGER, Place, Servers
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Services, build
from speck.coordinator.placing.placer import PlacementResult
from speck.coordinator.placing.request import PlacementRequest
from speck.core.job import Composition
from speck.core.settings import Settings
from speck.local.wan.network import EmulatedLink, Network
from speck.placement.profile import Inputs, Known
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user

_TRAFFIC = "benchmarks.wan.traffic"
_PATIENCE = 300.0  # s, of an operation
_APPLIES = 3  # each drains for 30 s
_IN_FLIGHT = 60_000  # messages, which no broker on this machine lets wait


class Feed:
    """A process that sends readings to a site's broker, from within the site."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def set_rate(self, topic: str, rate: float) -> None:
        """Change the rate of a topic, messages/s."""
        _say(self._process, f"{topic}={rate}")


class Read:
    """A process that reads results at a site's broker, from within the site."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def taken(self) -> dict[str, dict[str, float]]:
        """The figures since the last call by topic; see :mod:`benchmarks.wan.traffic`."""
        _say(self._process, "taken")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the reader has ended with {self._process.wait()}")
        found: dict[str, dict[str, float]] = json.loads(line)
        return found


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


@contextmanager
def feed(
    network: Network,
    site: str,
    window: int,
    malformed: float,
    rates: Mapping[str, float],
    *,
    broker: str = "",
    most: int = _IN_FLIGHT,
) -> Iterator[Feed]:
    """While the block runs, readings are sent from a site to topics of its own broker or that of another.

    At most ``most`` of them are unacknowledged at a time.
    """
    address = network.address(broker or site)
    pairs = (f"{topic}={rate}" for topic, rate in rates.items())
    arguments = [str(window), str(malformed), str(most), *pairs]
    with _traffic(network, site, "feed", address, *arguments) as process:
        yield Feed(process)


@contextmanager
def read(
    network: Network,
    site: str,
    window: int,
    streams: int,
    topics: Sequence[str],
    *,
    broker: str = "",
    quality: int = 0,
) -> Iterator[Read]:
    """While the block runs, results are read at a site, from its own broker or that of another site.

    ``quality`` is the quality of service, at 1 of which each message is acknowledged at once.
    """
    address = network.address(broker or site)
    arguments = [str(window), str(streams), str(quality), *topics]
    with _traffic(network, site, "read", address, *arguments) as process:
        yield Read(process)


@contextmanager
def _traffic(
    network: Network, site: str, what: str, address: str, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", _TRAFFIC, what, address, str(BROKER), *arguments]
    inside = network.command(site, command)
    with subprocess.Popen(
        inside, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class Platform:
    """The network, its servers and the coordinator; a context manager.

    ``remote`` is that of :class:`Servers`.
    """

    links: Mapping[str, EmulatedLink]
    places: Mapping[str, Place]
    directory: Path
    remote: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.network = stack.enter_context(Network(self.links))
            servers = Servers(self.network, self.places, self.directory, remote=self.remote)
            self.servers = stack.enter_context(servers)
            store = stack.enter_context(Store(self.directory / "store"))
            settings = Settings(roots=(ROOT,), period=0)
            self.services: Services = build(store, installed(), self.servers.inventory(), settings)
            stack.callback(self.services.coordinator.close)
            self.services.coordinator.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- compositions

    def composition(self, text: str, name: str) -> Composition:
        """A composition of this platform's sites."""
        return load_composition(
            text,
            inventory=self.services.coordinator.inventory,
            registry=installed(),
            root=ROOT,
            default_name=name,
        ).composition

    def placed(
        self,
        composition: Composition,
        sites: Mapping[str, str],
        inputs: Inputs | None = None,
        policy: str = "",
    ) -> PlacementResult:
        """The composition with jobs at these sites (all others: where the policy has them), and its figures.

        Links are taken as they are declared now; ``inputs`` are the profiles (``None``: as measured now).
        """
        placer = replace(self.services.coordinator.placer, inventory=self.servers.inventory())
        if inputs is not None:
            placer = replace(placer, inputs=lambda: replace(inputs, links={}))
        constraints = {job: (site,) for job, site in sites.items()}
        return placer.place(composition, PlacementRequest(policy=policy, constraints=constraints))

    def apply(self, composition: Composition) -> Operation:
        """Carry a placed composition out; again while a job waits for its old topic to be drained.

        Raises :class:`RuntimeError` if that fails.
        """
        for _ in range(_APPLIES):
            operation, _ = user.apply(self.services.coordinator, composition)
            if operation.wait(_PATIENCE) and operation.state == "succeeded":
                return operation
        raise RuntimeError(f"the operation failed: {operation.to_dict()}")

    def delete(self, name: str) -> None:
        """Stop a composition.  Raises :class:`RuntimeError` if that fails."""
        operation = user.delete_composition(self.services.coordinator, name)
        if not operation.wait(_PATIENCE) or operation.state != "succeeded":
            raise RuntimeError(f"the operation failed: {operation.to_dict()}")

    def profile(self, seconds: float) -> Inputs:
        """Measure all jobs for this number of seconds; returns the profiles."""
        profiles = self.services.profiles
        profiles.measure("", seconds)
        time.sleep(seconds)
        return profiles.measures.inputs()

    def unmeasured(self) -> dict[str, str]:
        """The jobs without a measured cost by name, and why."""
        return {
            each["job_name"]: each["error"] or "too few samples"
            for each in self.services.profiles.profile()["jobs"]
            if not each["cost"] or each["cost"]["known"] != Known.MEASURED
        }

    # --- counters

    def counters(self) -> Counters:
        """The counters of links and processors now."""
        between = self.network.bytes_between()
        used = {site: self.servers.processor_seconds(site) for site in self.places}
        brokers = {site: self.servers.processor_seconds(site, "mosquitto") for site in self.places}
        managers = {site: self.servers.processor_seconds(site, MANAGER) for site in self.places}
        return Counters(time.monotonic(), between, used, brokers, managers)


@dataclass(frozen=True, slots=True)
class Counters:
    """Bytes by sender and receiver, and processor seconds by site, at a time (monotonic, s)."""

    at: float
    between: Mapping[tuple[str, str], int]
    used: Mapping[str, float]
    brokers: Mapping[str, float]
    managers: Mapping[str, float]

    def since(self, before: Counters) -> dict[str, Any]:
        """``wan``, bytes/s; ``up`` and ``down``, bytes/s by site; ``cores`` by site, and of them those of
        ``brokers`` and of JobManagers (``managers``).
        """
        seconds = self.at - before.at
        grown = {
            pair: (count - before.between.get(pair, 0)) / seconds for pair, count in self.between.items()
        }
        return {
            "wan": sum(grown.values()),
            "up": {site: sum(each for (one, _), each in grown.items() if one == site) for site in self.used},
            "down": {
                site: sum(each for (_, one), each in grown.items() if one == site) for site in self.used
            },
            "cores": {site: (used - before.used[site]) / seconds for site, used in self.used.items()},
            "brokers": {site: (used - before.brokers[site]) / seconds for site, used in self.brokers.items()},
            "managers": {
                site: (used - before.managers[site]) / seconds for site, used in self.managers.items()
            },
        }
