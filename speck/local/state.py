"""The record of a directory's servers and their processes: a JSON file that is replaced atomically."""

from __future__ import annotations

import contextlib
import fcntl
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from speck.core.durable_files import rewrite_file
from speck.errors import LocalError
from speck.local import processes
from speck.local.ports import Reservation

Role = Literal["engine", "broker", "worker", "agent"]


@dataclass(slots=True)
class ServerRecord:
    """One server with its ports (empty before the first start) and its last process.

    ``mark`` identifies all of its processes, present and later; ``created`` is the start of that process by
    the clock of then (Unix time, s).  An engine with workers of its own has their bounds, ``least`` and
    ``most``, and the ``heap`` of each; a worker has its ``number`` among those of its engine.
    """

    site: str
    role: Role
    kind: str
    mark: str
    ports: list[int] = field(default_factory=list)
    address: str = ""
    pid: int | None = None
    created: float = 0.0
    least: int = 0
    most: int = 0
    heap: str = ""
    number: int = 0

    @property
    def name(self) -> str:
        """The name at its site, which has at most one engine of a kind."""
        if self.role == "worker":
            return f"{self.kind}-worker-{self.number}"
        return self.kind if self.role == "engine" else self.role

    @property
    def title(self) -> str:
        """The server in messages."""
        return server_title(self.site, self.role, self.kind, self.address)

    def folder(self, directory: Path) -> Path:
        """The directory of its files."""
        return directory / self.site / self.name

    def log(self, directory: Path) -> Path:
        """The file of its output."""
        return directory / self.site / f"{self.name}.log"


@dataclass(slots=True)
class Record:
    """The servers of a directory by site: its engines, and last its broker.

    Apart from these the workers of its engines, and its agent, if the sites have agents.
    """

    directory: Path
    sites: dict[str, list[ServerRecord]]
    workers: dict[str, list[ServerRecord]] = field(default_factory=dict)
    agents: dict[str, ServerRecord] = field(default_factory=dict)

    @classmethod
    def new(cls, directory: Path, engines: Mapping[str, Sequence[str]], brokers: Mapping[str, str]) -> Record:
        """A record of sites that have not been started, from their kinds of engines and of brokers."""

        def server(site: str, role: Role, kind: str) -> ServerRecord:
            return ServerRecord(site, role, kind, uuid.uuid4().hex)

        return cls(
            directory,
            {
                site: [
                    *(server(site, "engine", kind) for kind in kinds),
                    server(site, "broker", brokers[site]),
                ]
                for site, kinds in engines.items()
            },
        )

    def engines(self) -> dict[str, tuple[str, ...]]:
        """The kinds of engines by site."""
        return {
            site: tuple(server.kind for server in servers if server.role == "engine")
            for site, servers in self.sites.items()
        }

    def brokers(self) -> dict[str, str]:
        """The kind of broker by site."""
        return {
            site: next(server.kind for server in servers if server.role == "broker")
            for site, servers in self.sites.items()
        }

    @classmethod
    def load(cls, directory: Path) -> Record:
        """The record of a directory; empty if there is none.

        Raises :class:`~speck.errors.LocalError` for a file that is not such a record.
        """
        path = _path(directory)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found, workers = (
                {name: [ServerRecord(**server) for server in servers] for name, servers in each.items()}
                for each in (content["sites"], content.get("workers", {}))
            )
            agents = {name: ServerRecord(**each) for name, each in content.get("agents", {}).items()}
            return cls(directory, found, workers, agents)
        except (FileNotFoundError, NotADirectoryError):
            return cls(directory, {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LocalError(
                f"{path} cannot be read: {error!r} (expected a file written by `speck local up`; stop the "
                "servers manually and remove the file)"
            ) from error

    def servers(self) -> Iterator[ServerRecord]:
        """All engines and brokers, site by site, and then the agents."""
        yield from (server for servers in self.sites.values() for server in servers)
        yield from self.agents.values()

    def of_site(self, site: str) -> list[ServerRecord]:
        """The engines of a site, its broker, and its agent if it has one."""
        agent = self.agents.get(site)
        return [*self.sites[site], *([] if agent is None else [agent])]

    def set_agents(self, *, given: bool) -> None:
        """Give each site an agent, or none; all of them reach the coordinator at one port, which stays."""
        if not given:
            self.agents.clear()
        elif not self.agents:
            with Reservation() as reservation:
                port = reservation.draw(1, taken={port for each in self.servers() for port in each.ports})
            self.agents.update(
                (site, ServerRecord(site, "agent", "agent", uuid.uuid4().hex, ports=list(port)))
                for site in self.sites
            )

    def workers_of(self, engine: ServerRecord) -> list[ServerRecord]:
        """The workers of an engine, by their numbers."""
        found = [each for each in self.workers.get(engine.site, ()) if each.kind == engine.kind]
        return sorted(found, key=lambda worker: worker.number)

    def add_worker(self, engine: ServerRecord) -> ServerRecord:
        """A new worker of an engine, with the lowest number that is free; it is stored before its start."""
        used = {each.number for each in self.workers_of(engine)}
        number = next(each for each in range(1, len(used) + 2) if each not in used)
        worker = ServerRecord(engine.site, "worker", engine.kind, uuid.uuid4().hex, number=number)
        self.workers.setdefault(engine.site, []).append(worker)
        return worker

    def remove_worker(self, worker: ServerRecord) -> None:
        """Forget a worker that has ended."""
        self.workers[worker.site].remove(worker)
        self._save()

    def all_servers(self) -> Iterator[ServerRecord]:
        """All servers, workers included."""
        yield from self.servers()
        for workers in self.workers.values():
            yield from workers

    def ports(self, but: ServerRecord) -> set[int]:
        """The ports of all other servers."""
        return {port for server in self.all_servers() if server is not but for port in server.ports}

    def process(self, server: ServerRecord) -> psutil.Process | None:
        """The living process of a server; never another process that reuses its id."""
        if server.pid is None:
            return None
        return processes.find(server.pid, server.mark)

    def intend(self, server: ServerRecord) -> None:
        """Store that a process with this server's mark is about to be started."""
        server.pid, server.created = None, 0.0
        self._save()

    def started(self, server: ServerRecord, process: psutil.Process) -> None:
        """Store the process of a server."""
        server.pid, server.created = process.pid, process.create_time()
        self._save()

    def forget_processes(self) -> None:
        """Store that nothing runs; the ports are kept, so that restarted servers keep their addresses.

        Workers are forgotten.
        """
        self.workers.clear()
        for server in self.servers():
            server.pid, server.created = None, 0.0
        if self.sites:
            self._save()

    def _save(self) -> None:
        path = _path(self.directory)
        content: dict[str, Any] = {
            kind: {name: [asdict(server) for server in servers] for name, servers in found.items()}
            for kind, found in (("sites", self.sites), ("workers", self.workers))
        }
        content["agents"] = {name: asdict(agent) for name, agent in self.agents.items()}
        rewrite_file(path, json.dumps(content, indent=1).encode())


def server_title(site: str, role: Role, kind: str, address: str) -> str:
    """A server in messages: its site, kind and address."""
    return f"site {site}: {f'{kind} engine' if role == 'engine' else role} {address}"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is created if needed."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _path(directory: Path) -> Path:
    return directory / "local.json"
