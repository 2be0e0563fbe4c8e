"""What a directory of local sites knows of its processes, across crashes: a JSON file, replaced whole."""

from __future__ import annotations

import json
import os
import random
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from speck.errors import LocalError
from speck.local import processes

Role = Literal["engine", "broker"]

# Below the range from which systems take the ports of outgoing connections, so that a server that is
# stopped and started again finds its port free.
_PORTS = range(15000, 32000)
_TRIES = 1000


@dataclass(slots=True)
class ServerRecord:
    """One server: what it is, its ports (none yet: empty), and the process it was last.

    ``mark`` names all of its processes, this and later ones; ``created`` is Unix time in seconds.
    """

    site: str
    role: Role
    kind: str
    mark: str
    ports: list[int] = field(default_factory=list)
    address: str = ""
    pid: int | None = None
    created: float = 0.0

    @property
    def name(self) -> str:
        """What it is called at its site, where each kind of engine is there once."""
        return self.kind if self.role == "engine" else self.role

    def folder(self, directory: Path) -> Path:
        """Where it keeps its files."""
        return directory / self.site / self.name

    def log(self, directory: Path) -> Path:
        """The file that takes its output."""
        return directory / self.site / f"{self.name}.log"


@dataclass(slots=True)
class Record:
    """The servers of a directory by site: its engines, and last its broker."""

    directory: Path
    sites: dict[str, list[ServerRecord]]

    @classmethod
    def new(cls, directory: Path, engines: Mapping[str, Sequence[str]], broker: str) -> Record:
        """A record of sites that have not been started: their kinds of engines, and their kind of broker."""

        def server(site: str, role: Role, kind: str) -> ServerRecord:
            return ServerRecord(site, role, kind, uuid.uuid4().hex)

        return cls(
            directory,
            {
                site: [*(server(site, "engine", kind) for kind in kinds), server(site, "broker", broker)]
                for site, kinds in engines.items()
            },
        )

    def engines(self) -> dict[str, tuple[str, ...]]:
        """The kinds of engines by site."""
        return {
            site: tuple(server.kind for server in servers if server.role == "engine")
            for site, servers in self.sites.items()
        }

    @classmethod
    def load(cls, directory: Path) -> Record:
        """The record of a directory; an empty one where there is none."""
        path = _path(directory)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                directory,
                {
                    name: [ServerRecord(**server) for server in servers]
                    for name, servers in content["sites"].items()
                },
            )
        except FileNotFoundError:
            return cls(directory, {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise LocalError(
                f"{path} cannot be read: {error!r} (expected what `speck local up` wrote; stop the servers "
                "by hand and remove the file)"
            ) from error

    def servers(self) -> Iterator[ServerRecord]:
        """All servers, site by site."""
        return (server for servers in self.sites.values() for server in servers)

    def ports(self, but: ServerRecord) -> set[int]:
        """The ports of all other servers."""
        return {port for server in self.servers() if server is not but for port in server.ports}

    def process(self, server: ServerRecord) -> psutil.Process | None:
        """The living process of a server; never another process that got its id."""
        if server.pid is None:
            return None
        return processes.find(server.pid, server.created, server.mark)

    def intend(self, server: ServerRecord) -> None:
        """Write down that a process with this server's mark is about to be started."""
        server.pid, server.created = None, 0.0
        self._save()

    def started(self, server: ServerRecord, process: psutil.Process) -> None:
        """Write down the process of a server."""
        server.pid, server.created = process.pid, process.create_time()
        self._save()

    def forget_processes(self) -> None:
        """Write down that nothing runs; ports stay, so that addresses stay the same when it runs again."""
        for server in self.servers():
            server.pid, server.created = None, 0.0
        if self.sites:
            self._save()

    def _save(self) -> None:
        path = _path(self.directory)
        content = {
            "sites": {name: [asdict(server) for server in servers] for name, servers in self.sites.items()}
        }
        temporary = path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def free_ports(count: int, preferred: Sequence[int], taken: set[int]) -> list[int]:
    """Loopback ports that nobody listens on: the preferred ones where they are free."""
    found: list[int] = []
    for port in [*preferred, *random.sample(_PORTS, _TRIES)]:
        if len(found) == count:
            return found
        if port not in taken and port not in found and _is_free(port):
            found.append(port)
    raise LocalError(f"no free port on 127.0.0.1 between {_PORTS.start} and {_PORTS.stop - 1}")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _path(directory: Path) -> Path:
    return directory / "local.json"
