"""What a directory of local sites knows of its processes, across crashes: a JSON file, replaced whole."""

from __future__ import annotations

import json
import os
import random
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import psutil

from speck import processes
from speck.errors import LocalError

Role = Literal["engine", "broker"]
ROLES: tuple[Role, ...] = get_args(Role)

# Below the range from which systems take the ports of outgoing connections, so that a server that is
# stopped and started again finds its port free.
_PORTS = range(15000, 32000)
_TRIES = 1000


@dataclass(slots=True)
class ServerRecord:
    """One server: what it is, its port (0: none yet), and the process it was last.

    ``mark`` names all of its processes, this and later ones; ``created`` is Unix time in seconds.
    """

    site: str
    role: Role
    kind: str
    mark: str
    port: int = 0
    address: str = ""
    pid: int | None = None
    created: float = 0.0

    def log(self, directory: Path) -> Path:
        """The file that takes its output."""
        return directory / self.site / f"{self.role}.log"


@dataclass(slots=True)
class Record:
    """The servers of a directory, by site and role."""

    directory: Path
    sites: dict[str, dict[Role, ServerRecord]]

    @classmethod
    def new(cls, directory: Path, names: Sequence[str], engine: str, broker: str) -> Record:
        """A record of sites that have not been started."""
        kinds: dict[Role, str] = {"engine": engine, "broker": broker}
        return cls(
            directory,
            {
                name: {role: ServerRecord(name, role, kind, uuid.uuid4().hex) for role, kind in kinds.items()}
                for name in names
            },
        )

    @classmethod
    def load(cls, directory: Path) -> Record:
        """The record of a directory; an empty one where there is none."""
        path = _path(directory)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                directory,
                {
                    name: {role: ServerRecord(**servers[role]) for role in ROLES}
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
        return (server for servers in self.sites.values() for server in servers.values())

    def ports(self, but: ServerRecord) -> set[int]:
        """The ports of all other servers."""
        return {server.port for server in self.servers() if server is not but}

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
            "sites": {
                name: {role: asdict(server) for role, server in servers.items()}
                for name, servers in self.sites.items()
            }
        }
        temporary = path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def free_port(preferred: int, taken: set[int]) -> int:
    """A loopback port that nobody listens on: the preferred one if it is free (0: no preference)."""
    choices = random.sample(_PORTS, _TRIES)
    for port in [preferred, *choices] if preferred else choices:
        if port not in taken and _is_free(port):
            return port
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
