"""Sites on one machine, for development: for each an engine and a broker on free loopback ports.

A directory holds everything: ``local.json`` (ports, process ids and marks, written before each start),
``sites.yaml`` (the site inventory), and for each site its logs and what its servers keep.  The servers
outlive who started them; whoever knows the directory can look at them and take them down.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import string
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import yaml

from speck import processes
from speck.binder import LocalServer, Registry, installed
from speck.errors import LocalError, NotFound
from speck.local_record import ROLES, Record, Role, ServerRecord, free_port
from speck.model import JOB_NAME

DEFAULT_HEAP = "600m"
DEFAULT_TIMEOUT = 240.0

# An engine's room: a 600 MB heap held 17 jobs of the road-traffic composition.
SLOTS = 32

_POLL = 0.1
_TAIL_LINES = 15
_HEAP = re.compile(r"(\d+)([kmg])\Z")
_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30}

Progress = Callable[[str], None]
State = Literal["running", "stopped"]


@dataclass(frozen=True, slots=True)
class Server:
    """One engine or broker of a local site; ``pid`` only while it runs."""

    site: str
    role: Role
    address: str
    port: int
    pid: int | None
    log: Path

    @property
    def state(self) -> State:
        """Whether its process is there."""
        return "running" if self.pid is not None else "stopped"

    def __str__(self) -> str:
        return f"site {self.site}: {self.role} {self.address}"


@dataclass(frozen=True, slots=True)
class LocalSite:
    """A site of this machine."""

    name: str
    engine: Server
    broker: Server


@dataclass(frozen=True, slots=True)
class LocalSites:
    """The sites of a directory; as a context manager it takes them down in the end."""

    directory: Path
    sites: tuple[LocalSite, ...]

    @property
    def inventory(self) -> Path:
        """The site inventory, a YAML file."""
        return self.directory / "sites.yaml"

    @property
    def servers(self) -> tuple[Server, ...]:
        """All engines and brokers."""
        return tuple(server for site in self.sites for server in (site.engine, site.broker))

    @property
    def running(self) -> bool:
        """Whether there are sites, and all of their servers run."""
        return bool(self.sites) and all(server.pid is not None for server in self.servers)

    def __enter__(self) -> LocalSites:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        down(self.directory)


def up(
    directory: Path,
    sites: int | Sequence[str] = 4,
    *,
    heap: str = DEFAULT_HEAP,
    engine: str = "spark",
    broker: str = "mqtt",
    registry: Registry | None = None,
    progress: Progress = lambda _: None,
    timeout: float = DEFAULT_TIMEOUT,
) -> LocalSites:
    """Bring sites up in a directory, and wait until all of their servers answer.

    ``sites`` is a number (they are named A, B, C, ...) or names; ``heap`` a Java size for each engine;
    ``timeout`` in seconds for all of them.  What runs already stays; what is missing is started, on its
    old ports where they are free.  Raises :class:`~speck.errors.LocalError`, which shows the end of the log
    of a server that does not come up; everything that this call started is stopped then.
    """
    names = _names(sites)
    heap_bytes(heap)
    directory = directory.absolute()
    starter = _Starter(directory, registry or installed(), heap, progress, timeout)
    with _locked(directory):
        record = Record.load(directory)
        _refuse_other_sites(record, names, directory)
        if not record.sites:
            record = Record.new(directory, names, engine, broker)
        missing = [server for server in record.servers() if record.process(server) is None]
        if not missing:
            progress(f"all servers of {', '.join(names)} are up already")
        starter.start(record, missing)
        write_inventory(record, heap)
        return _sites(record)


def down(directory: Path, *, progress: Progress = lambda _: None) -> list[int]:
    """Stop every process that was started in the directory; answers their ids.  Logs and data stay.

    Works after a crash of whoever started them, and does nothing where nothing runs.
    """
    directory = directory.absolute()
    if not directory.is_dir():
        return []
    with _locked(directory):
        record = Record.load(directory)
        found = list(processes.marked({server.mark for server in record.servers()}))
        for process in found:
            progress(f"stopping process {process.pid}")
        processes.stop(found)
        record.forget_processes()
        return [process.pid for process in found]


def status(directory: Path) -> LocalSites:
    """The sites of a directory as they are now; none where nothing was ever started."""
    return _sites(Record.load(directory.absolute()))


def restart(
    directory: Path,
    site: str,
    role: Role,
    *,
    kill: bool = False,
    heap: str = DEFAULT_HEAP,
    registry: Registry | None = None,
    progress: Progress = lambda _: None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Server:
    """Stop (or ``kill``) one server of a site and start it again on its port.

    Raises :class:`~speck.errors.NotFound` for a site that is none, and what :func:`up` raises.
    """
    directory = directory.absolute()
    starter = _Starter(directory, registry or installed(), heap, progress, timeout)
    with _locked(directory):
        record, server = _of(directory, site, role)
        _stop_marked([server], kill=kill)
        starter.start(record, [server], keep_ports=True)
        return _server(record, server)


def stop_one(directory: Path, site: str, role: Role, *, kill: bool = False) -> None:
    """Stop (or ``kill``) one server of a site; :func:`up` or :func:`restart` brings it back."""
    directory = directory.absolute()
    with _locked(directory):
        _, server = _of(directory, site, role)
        _stop_marked([server], kill=kill)


# --- starting -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Starter:
    directory: Path
    registry: Registry
    heap: str
    progress: Progress
    timeout: float

    def kind(self, server: ServerRecord) -> LocalServer:
        kinds = self.registry.engines if server.role == "engine" else self.registry.brokers
        for kind in kinds:
            if kind.name == server.kind and kind.local is not None:
                return kind.local
        able = sorted(kind.name for kind in kinds if kind.local is not None)
        raise LocalError(
            f"no installed binder starts {server.role} {server.kind!r} on this machine "
            f"(expected one of: {', '.join(able) or 'none is installed'})"
        )

    def start(self, record: Record, servers: list[ServerRecord], *, keep_ports: bool = False) -> None:
        """Start all of them at the same time and wait for all; or stop those again, and raise."""
        # What a start left behind that was cut short before it could be written down.
        _stop_marked(servers)
        try:
            for server in servers:
                self._start_one(record, server, keep_ports)
            self._await_ready(record, servers)
        except BaseException:
            _stop_marked(servers)
            raise

    def _start_one(self, record: Record, server: ServerRecord, keep_port: bool) -> None:
        if not keep_port:
            server.port = free_port(server.port, taken=record.ports(but=server))
        folder = self.directory / server.site / server.role
        folder.mkdir(parents=True, exist_ok=True)
        kind = self.kind(server)
        server.address = kind.address(server.port)
        command, environment = kind.command(server.port, folder, self.heap)
        record.intend(server)
        process = processes.start(command, environment, folder, server.log(self.directory), server.mark)
        record.started(server, process)

    def _await_ready(self, record: Record, servers: list[ServerRecord]) -> None:
        deadline = time.monotonic() + self.timeout
        waiting = list(servers)
        while waiting:
            for server in [each for each in waiting if self.kind(each).ready(each.port)]:
                self._refuse_dead(record, server)
                waiting.remove(server)
                self.progress(f"site {server.site}: {server.role} {server.address} is up")
            for server in waiting:
                self._refuse_dead(record, server)
            if waiting and time.monotonic() > deadline:
                raise self._failure(waiting[0], f"did not answer within {self.timeout:g} s")
            if waiting:
                time.sleep(_POLL)

    def _refuse_dead(self, record: Record, server: ServerRecord) -> None:
        if record.process(server) is None:
            raise self._failure(server, "ended while it was starting")

    def _failure(self, server: ServerRecord, what: str) -> LocalError:
        log = server.log(self.directory)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        tail = "\n".join(f"    {line}" for line in lines[-_TAIL_LINES:]) or "    (empty)"
        return LocalError(
            f"site {server.site}: {server.role} {server.address} {what}; the end of its log {log}:\n{tail}"
        )


# --- what is shown and written --------------------------------------------------------------------


def write_inventory(record: Record, heap: str) -> None:
    """Write ``sites.yaml``, which the coordinator and the command line read."""
    content = {
        "sites": {
            site.name: {
                "spe_address": site.engine.address,
                "broker_address": site.broker.address,
                "slots": SLOTS,
                "memory": heap_bytes(heap),
                "checkpoint_dir": str(_made(record.directory / site.name / "checkpoints")),
            }
            for site in _sites(record).sites
        }
    }
    path = record.directory / "sites.yaml"
    temporary = path.with_suffix(".new")
    temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    temporary.replace(path)


def heap_bytes(heap: str) -> int:
    """The bytes of a Java size such as ``600m``.  Raises :class:`~speck.errors.LocalError`."""
    match = _HEAP.match(heap.lower())
    if match is None:
        raise LocalError(f"heap {heap!r} is not a size (expected a number with k, m or g, such as 600m)")
    return int(match[1]) * _SIZES[match[2]]


def _sites(record: Record) -> LocalSites:
    found = tuple(
        LocalSite(name, *(_server(record, servers[role]) for role in ROLES))
        for name, servers in record.sites.items()
    )
    return LocalSites(record.directory, found)


def _server(record: Record, server: ServerRecord) -> Server:
    process = record.process(server)
    return Server(
        site=server.site,
        role=server.role,
        address=server.address,
        port=server.port,
        pid=process.pid if process is not None else None,
        log=server.log(record.directory),
    )


def _names(sites: int | Sequence[str]) -> list[str]:
    if isinstance(sites, int):
        if not 1 <= sites <= len(string.ascii_uppercase):
            raise LocalError(f"sites {sites} (expected a number from 1 to {len(string.ascii_uppercase)})")
        return list(string.ascii_uppercase[:sites])
    names = list(sites)
    for name in names:
        if not JOB_NAME.match(name):
            raise LocalError(f"site name {name!r} (expected letters, digits, '.', '_', '-')")
    if not names or len(set(names)) < len(names):
        raise LocalError(f"sites {names} (expected one name or more, each once)")
    return names


def _refuse_other_sites(record: Record, names: list[str], directory: Path) -> None:
    if not record.sites or list(record.sites) == names:
        return
    running = [server for server in record.servers() if record.process(server) is not None]
    if running:
        raise LocalError(
            f"{directory} has the sites {', '.join(record.sites)} up, not {', '.join(names)} "
            "(take them down first, or choose another directory)"
        )
    _stop_marked(record.servers())
    record.sites.clear()


def _of(directory: Path, site: str, role: Role) -> tuple[Record, ServerRecord]:
    record = Record.load(directory)
    if site not in record.sites:
        raise NotFound(f"site {site!r}: {directory} has {', '.join(record.sites) or 'no sites'}")
    return record, record.sites[site][role]


def _stop_marked(servers: Iterable[ServerRecord], *, kill: bool = False) -> None:
    processes.stop(processes.marked({server.mark for server in servers}), kill=kill)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
