"""The sites of the benchmark: an engine and a broker each, reached through a link that may delay."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.deploy.chain import Place
from benchmarks.load.processes import server
from binders.mqtt.local import MOSQUITTO
from speck.binder import LocalServer


@dataclass(frozen=True)
class Sites:
    """The running sites: ports of the engines and brokers on 127.0.0.1, and each engine's inventory entry."""

    kind: LocalServer
    engine_ports: Sequence[Sequence[int]]
    broker_ports: Sequence[int]
    known: Sequence[dict[str, Any]]

    def engines(self) -> list[str]:
        """The addresses of the engines themselves."""
        return [self.kind.address(ports) for ports in self.engine_ports]

    @contextlib.contextmanager
    def linked(self, round_trip_ms: float) -> Iterator[list[Place]]:
        """The sites as they are reached through links with this round trip; 0: without any link."""
        if not round_trip_ms:
            yield self._places([ports[0] for ports in self.engine_ports], self.broker_ports)
            return
        targets = [*(ports[0] for ports in self.engine_ports), *self.broker_ports]
        command = [sys.executable, "-m", "benchmarks.deploy.relay", str(round_trip_ms), *map(str, targets)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as relay:
            assert relay.stdout is not None and relay.stdin is not None
            try:
                ports = json.loads(relay.stdout.readline())
                yield self._places(ports[: len(self.engine_ports)], ports[len(self.engine_ports) :])
            finally:
                relay.stdin.close()

    def inventory(self, places: Sequence[Place]) -> str:
        """A site inventory for these addresses, as YAML."""
        sites = {
            f"S{number}": {"spe_address": place.engine, "broker_address": place.broker, **place.known}
            for number, place in enumerate(places)
        }
        return yaml.safe_dump({"sites": sites})

    def _places(self, engines: Sequence[int], brokers: Sequence[int]) -> list[Place]:
        return [
            Place(self.kind.address([engine]), MOSQUITTO.address([broker]), known)
            for engine, broker, known in zip(engines, brokers, self.known, strict=True)
        ]


@contextlib.contextmanager
def sites_up(kind: LocalServer, count: int, heap: str, directory: Path) -> Iterator[Sites]:
    """So many sites on this machine, ready; stopped in the end."""
    with contextlib.ExitStack() as stack:
        engines, brokers, known = [], [], []
        for number in range(count):
            folder = directory / f"site-{number}"
            _, (port,) = stack.enter_context(server(f"broker-{number}", MOSQUITTO, folder / "broker", heap))
            _, ports = stack.enter_context(server(f"engine-{number}", kind, folder / "engine", heap))
            brokers.append(port)
            engines.append(ports)
            known.append(dict(kind.inventory(ports, folder / "engine", heap)))
        yield Sites(kind, engines, brokers, known)
