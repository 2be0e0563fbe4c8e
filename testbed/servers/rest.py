"""The real application on the real WSGI server, over engines and brokers in memory."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flask import Flask

from speck.binder import Registry
from speck.client import Client
from speck.coordinator import Coordinator, Queries, Services, build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.placement.profile import Inputs
from speck.server.api import Protection, create_app
from speck.server.middleware.concurrency_limit import ConcurrencyLimit
from speck.server.tls import Certificate
from speck.server.tokens import Owner, Role, Tokens, digest
from speck.server.wsgi import PATIENCE, WebServer
from speck.store import Store
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

# The fields of a job over these engines, whose code is in the server's root.
SOLO = {
    "job_name": "solo",
    "spe_address": "sc://e1:15002",
    "source_broker": "tcp://b1:1883",
    "source_topic": "x",
    "sink_broker": "tcp://b1:1883",
    "sink_topic": "y",
    "entry_class": "work",
    "job_path": "work.py",
}


@dataclass(frozen=True)
class RestServer:
    """A server that answers at ``url``; ``root`` is where job files lie, ``work.py`` among them."""

    url: str
    world: World
    services: Services
    root: Path
    concurrency_limit: ConcurrencyLimit
    app: Flask

    @property
    def coordinator(self) -> Coordinator:
        return self.services.coordinator

    @property
    def queries(self) -> Queries:
        return self.services.queries

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def client(self) -> Client:
        return Client(self.url)


@contextlib.contextmanager
def rest_server(
    directory: Path,
    inventory: Inventory | None = None,
    token: str | Tokens | None = None,
    patience: float = PATIENCE,
    certificate: Certificate | None = None,
    port: int = 0,
    world: World | None = None,
    registry: Registry | None = None,
    inputs: Callable[[], Inputs] | None = None,
    clock: Callable[[], float] = time.time,
) -> Iterator[RestServer]:
    """Serve on a loopback port until the block ends: a free one (0), or that of a server which has ended.

    ``world`` are the engines and brokers, if there are some already, ``registry`` their kinds, ``inputs``
    the profiles for placements; ``clock`` gives Unix time, s.
    """
    root = directory / "root"
    root.mkdir(parents=True, exist_ok=True)
    write_work(root)
    world = world or World()
    with Store(directory / "store") as store:
        listener = socket.create_server(("127.0.0.1", port))
        url = f"{'https' if certificate else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        services = build(
            store,
            registry or double_kinds(world),
            inventory or Inventory(),
            Settings(roots=(root,), period=0, adapt=0, advertise=url),
            clock=clock,
            inputs=inputs,
        )
        coordinator = services.coordinator
        one = [Owner("", Role.WRITE, digest(token.encode()))] if isinstance(token, str) else []
        tokens = Tokens(one) if one else token if isinstance(token, Tokens) else None
        app = create_app(services, Protection(tokens))
        server = WebServer(app, listener, patience, certificate)
        thread = threading.Thread(target=server.run)
        coordinator.start()
        thread.start()
        try:
            yield RestServer(url, world, services, root, app.extensions["concurrency_limit"], app)
        finally:
            coordinator.close()
            server.end()
            thread.join()
    assert world.violations == []


def write_work(root: Path) -> None:
    """Write the file that jobs of :func:`yaml_of` name."""
    (root / "work.py").write_text("def work(messages):\n    return messages\n")


def yaml_of(*jobs: str) -> str:
    """A composition of jobs that are each ``NAME READS WRITES [FIELD: VALUE; ...]``."""
    lines = ["jobs:"] if jobs else ["jobs: []"]
    for job in jobs:
        name, reads, writes, *rest = job.split(maxsplit=3)
        lines += [
            f"- job_name: {name}",
            f"  source_topic: {reads}",
            f"  sink_topic: {writes}",
            "  spe_address: sc://e1:15002",
            "  source_broker: tcp://b1:1883",
            "  sink_broker: tcp://b1:1883",
            "  entry_class: work",
            "  job_path: work.py",
        ]
        lines += [f"  {each.strip()}" for each in "".join(rest).split(";") if each.strip()]
    return "\n".join(lines) + "\n"
