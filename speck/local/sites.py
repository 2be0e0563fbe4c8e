"""Sites on one machine for development, each with engines and a broker on free loopback ports.

One directory has everything: ``local.json`` (ports, process ids and marks, written before each start),
``sites.yaml`` (the site inventory), and for each site its logs and its servers' files.  The servers outlive
the process that started them, and any process can find and stop them by the directory.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import yaml

from speck.binder import LocalServer, Networked, Registry, Scalable, WorkersEngine, installed
from speck.binder.devserver import heap_bytes
from speck.core.durable_files import rewrite_file
from speck.errors import LocalError
from speck.local import agents, processes
from speck.local.ports import Reservation
from speck.local.request import DEFAULT_ENGINE, kinds_of_brokers, kinds_of_engines, site_names
from speck.local.starting import StartedServer, await_ready
from speck.local.state import Record, Role, ServerRecord
from speck.local.wan import Network

DEFAULT_HEAP = "600m"
DEFAULT_TIMEOUT = 240.0  # s, for all servers to answer

Progress = Callable[[str], None]
State = Literal["running", "stopped"]


@dataclass(frozen=True, slots=True)
class Server:
    """One engine or broker of a local site; ``pid`` is ``None`` unless it runs."""

    site: str
    role: Role
    kind: str
    address: str
    ports: tuple[int, ...]
    pid: int | None
    log: Path

    @property
    def state(self) -> State:
        """``running`` if its process lives."""
        return "running" if self.pid is not None else "stopped"

    def __str__(self) -> str:
        return _title(self)


@dataclass(frozen=True, slots=True)
class LocalSite:
    """A site of this machine."""

    name: str
    engines: tuple[Server, ...]
    broker: Server

    @property
    def engine(self) -> Server:
        """The engine, the first of several."""
        return self.engines[0]


@dataclass(frozen=True, slots=True)
class LocalSites:
    """The sites of a directory; a context manager that stops them at its end."""

    directory: Path
    sites: tuple[LocalSite, ...]
    workers: tuple[Server, ...] = ()
    agents: tuple[Server, ...] = ()

    @property
    def inventory(self) -> Path:
        """The site inventory, a YAML file."""
        return self.directory / "sites.yaml"

    @property
    def servers(self) -> tuple[Server, ...]:
        """All engines and brokers."""
        return tuple(server for site in self.sites for server in (*site.engines, site.broker))

    @property
    def running(self) -> bool:
        """True if there are sites, and all of their servers and agents run."""
        return bool(self.sites) and all(each.pid is not None for each in (*self.servers, *self.agents))

    @property
    def agent_options(self) -> tuple[str, ...]:
        """The options of ``speck serve`` for the agents of these sites."""
        if not self.agents:
            return ()
        tokens = str(self.directory / agents.TOKENS)
        return ("--agents", agents.coordinator_of(self.agents[0].ports), "--agent-tokens", tokens)

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
    engines: Mapping[str, Sequence[str]] | None = None,
    heap: str = DEFAULT_HEAP,
    brokers: Mapping[str, str] | None = None,
    registry: Registry | None = None,
    network: Network | None = None,
    progress: Progress = lambda _: None,
    timeout: float = DEFAULT_TIMEOUT,
    workers: Mapping[str, tuple[int, int]] | None = None,
    with_agents: bool = False,
) -> LocalSites:
    """Start sites in a directory, and wait until all of their servers answer.

    ``sites`` is a number (they are named A, B, C, ...) or names; ``engines`` are the kinds of engines by
    site (``spark-connect`` for others), ``brokers`` the kinds of brokers (``mqtt`` for others); ``heap`` is a
    Java size for each engine; ``timeout`` (s) is for all servers together.  ``network`` is one with these
    sites, in whose namespaces they run (``None``: all on loopback).  Running servers stay; others are
    started, on their former ports if these are free.

    ``workers`` are, by site, the least and the greatest number of workers of its engine, which then are
    servers of their own (:mod:`speck.local.workers`); the least number is started.  ``with_agents``: each
    site has an agent, which is started again with any server of its site.

    Raises :class:`~speck.errors.LocalError`, with the end of the log of a server that did not start; all
    servers that this call started are stopped then.
    """
    desired = kinds_of_engines(site_names(sites), engines or {})
    kinds = kinds_of_brokers(desired, brokers or {})
    heap_bytes(heap)
    directory = directory.absolute()
    starter = Starter(directory, registry or installed(), heap, progress, timeout, network)
    if with_agents:
        agents.refuse_without(starter.registry, desired)
    with locked(directory):
        record = Record.load(directory)
        _refuse_other_sites(record, desired, kinds, directory)
        _refuse_other_agents(record, directory, with_agents=with_agents)
        if not record.sites:
            record = Record.new(directory, desired, kinds)
        record.set_agents(given=with_agents)
        starter.set_bounds(record, workers or {})
        for server in record.servers():
            starter.kind(server)
        if with_agents:
            agents.write_tokens(record.agents.values(), directory)
        missing = _missing(record)
        if not missing:
            progress(f"all servers of {', '.join(desired)} are already up")
        starter.start(record, missing)
        starter.start_workers(record, record.servers())
        starter.write_inventory(record)
        return _sites(record)


def down(directory: Path, *, progress: Progress = lambda _: None) -> list[int]:
    """Stop all processes that were started in the directory; returns their ids.  Logs and data stay.

    Works also after a crash of the starter, and if nothing runs.
    """
    directory = directory.absolute()
    if not directory.is_dir():
        return []
    with locked(directory):
        record = Record.load(directory)
        found = list(processes.marked({server.mark for server in record.all_servers()}))
        for server in record.all_servers():
            if record.process(server) is not None:
                progress(f"stopping {_title(server)}")
        processes.stop(found)
        record.forget_processes()
        return [process.pid for process in found]


def status(directory: Path) -> LocalSites:
    """The sites of a directory in their present state; none if nothing was ever started."""
    return _sites(Record.load(directory.absolute()))


# --- starting -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Starter:
    """Starts servers in a directory; ``heap`` is of engines, ``timeout`` (s) for all to answer."""

    directory: Path
    registry: Registry
    heap: str
    progress: Progress
    timeout: float
    network: Network | None = None

    def kind(self, server: ServerRecord) -> LocalServer:
        """The program of a server.  Raises :class:`~speck.errors.LocalError` for one that none starts."""
        if server.role == "agent":
            return self._networked(agents.AgentProcess(server.folder(self.directory)), server)
        broker = server.role == "broker"
        able = self.registry.local_brokers() if broker else self.registry.local_engines()
        local = able.get(server.kind)
        if local is None:
            raise LocalError(
                f"no installed binder starts {server.role} {server.kind!r} on this machine "
                f"(expected one of: {', '.join(sorted(able)) or 'none is installed'})"
            )
        if server.most and isinstance(local, Scalable):
            local = local.without_workers()
        return self._networked(local, server)

    def _networked(self, local: LocalServer, server: ServerRecord) -> LocalServer:
        if self.network is None:
            return local
        if not isinstance(local, Networked):
            raise LocalError(f"{server.role} {server.kind!r} runs on loopback only, not in a network's site")
        return local.at(self.network.address(server.site), self.directory / "states")

    def start(self, record: Record, servers: list[ServerRecord], *, keep_ports: bool = False) -> None:
        """Start all of these servers and wait for all; if one fails, stop all of them, and raise."""
        # Processes of a start that crashed before it could store them.
        stop_marked(servers)
        try:
            started = [self._start_one(record, server, keep_ports) for server in servers]
            await_ready(started, self.timeout, self.progress)
        except BaseException:  # an interrupt too: no server may outlive a start that failed
            stop_marked(servers)
            raise

    def start_workers(self, record: Record, servers: Iterable[ServerRecord]) -> None:
        """Start the least number of workers of those engines that have workers of their own."""
        for engine in [each for each in servers if each.most]:
            present = [each for each in record.workers_of(engine) if record.process(each) is not None]
            if len(present) < engine.least:
                self.scale(record, engine, engine.least, ())

    def set_bounds(self, record: Record, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Give the engines of these sites workers of their own, as many as the bounds allow."""
        for site, (least, most) in bounds.items():
            if site not in record.sites:
                raise LocalError(
                    f"workers are given for site {site!r} (expected one of {', '.join(record.sites)})"
                )
            if not 0 <= least <= most or not most:
                raise LocalError(f"site {site}: {least} to {most} workers (expected MIN-MAX, such as 1-4)")
            *engines, _ = record.sites[site]
            able = [each for each in engines if isinstance(self.kind(each), Scalable)]
            if not able:
                kinds = ", ".join(each.kind for each in engines)
                raise LocalError(f"site {site}: no engine has workers: {kinds} (expected flink, for example)")
            for engine in able:
                if (engine.least, engine.most) != (least, most) and record.process(engine) is not None:
                    raise LocalError(
                        f"site {site} runs with other workers (expected: speck local down first)"
                    )
                engine.least, engine.most, engine.heap = least, most, self.heap

    def scalable(self, engine: ServerRecord) -> Scalable:
        """The kind of an engine with workers of its own."""
        kind = self.kind(engine)
        if not isinstance(kind, Scalable):
            raise LocalError(f"site {engine.site}: the engine {engine.kind!r} has no workers")
        return kind

    def scale(self, record: Record, engine: ServerRecord, count: int, stop: Sequence[str]) -> list[str]:
        """Stop the workers of an engine with these ids, and start or stop others until ``count`` run.

        Returns the names of those that were started or stopped.
        """
        kind = self.scalable(engine)
        present = record.workers_of(engine)
        dead = [each for each in present if record.process(each) is None]
        running = [each for each in present if each not in dead]
        named = [
            each for each in running if any(kind.is_worker(one, each.number, each.ports) for one in stop)
        ]
        surplus = max(0, len(running) - len(named) - count)
        rest = [each for each in running if each not in named]
        ended = [*dead, *named, *(rest[-surplus:] if surplus else [])]
        stop_marked(ended)
        for each in ended:
            record.remove_worker(each)
        started = []
        for _ in range(count - len(record.workers_of(engine))):
            worker = record.add_worker(engine)
            self._start_worker(record, engine, worker)
            started.append(worker)
        return [each.name for each in (*ended, *started)]

    def _start_worker(self, record: Record, engine: ServerRecord, worker: ServerRecord) -> None:
        kind = self.scalable(engine)
        worker.address, folder = engine.address, worker.folder(self.directory)
        folder.mkdir(parents=True, exist_ok=True)
        of_engine = WorkersEngine(tuple(engine.ports), engine.folder(self.directory), engine.heap)
        with Reservation() as reservation:
            worker.ports = reservation.draw(kind.worker_ports, taken=record.ports(but=worker))
            command = kind.worker(worker.number, of_engine, worker.ports, folder)
            self._run(record, worker, command, reservation)
        self.progress(f"site {worker.site}: {worker.name} is starting")

    def write_inventory(self, record: Record) -> None:
        """Write ``sites.yaml``, which the coordinator and the command line read."""
        content = {name: self._listed(servers) for name, servers in record.sites.items()}
        for name in record.agents:
            content[name]["agent"] = True
        *edges, last = content
        for name in edges:
            content[name]["tier"] = "edge"
        content[last]["tier"] = "cloud"  # all have this machine's cores, which would make the first the cloud
        if self.network is not None:
            for name, link in self.network.links.items():
                content[name]["uplink"] = link.declared()
        text = yaml.safe_dump({"sites": content}, sort_keys=False)
        rewrite_file(self.directory / "sites.yaml", text.encode())

    def _listed(self, servers: Sequence[ServerRecord]) -> dict[str, Any]:
        *engines, broker = servers
        listed = [self._entry(each) for each in engines]
        return (listed[0] if len(listed) == 1 else {"engines": listed}) | {"broker_address": broker.address}

    def _entry(self, server: ServerRecord) -> dict[str, Any]:
        """The entry of an engine in the inventory."""
        more = self.kind(server).inventory(server.ports, server.folder(self.directory), self.heap)
        found = {"spe_address": server.address, **more}
        if server.most:
            bounds = {"min": server.least, "max": server.most}
            found["scale"] = bounds | dict(self.scalable(server).scale(server.heap)) | {"local": True}
        return found

    def _start_one(self, record: Record, server: ServerRecord, keep_ports: bool) -> StartedServer:
        kind = self.kind(server)
        with Reservation() as reservation:
            if keep_ports or server.role == "agent":
                reservation.keep(server.ports)  # those of the coordinator, for an agent
            else:
                server.ports = reservation.draw(kind.ports, server.ports, taken=record.ports(but=server))
            folder, log = server.folder(self.directory), server.log(self.directory)
            folder.mkdir(parents=True, exist_ok=True)
            server.address = kind.address(server.ports)
            if server.role == "agent":
                *engines, broker = record.sites[server.site]
                agents.describe(
                    server, self.directory, [self._entry(each) for each in engines], broker.address
                )
            begin = log.stat().st_size if log.exists() else 0
            pid = self._run(record, server, kind.command(server.ports, folder, self.heap), reservation)
        bound = () if server.role == "agent" or self.network is not None else tuple(server.ports)
        return StartedServer(_title(server), kind, pid, tuple(server.ports), bound, log, begin)

    def _run(
        self,
        record: Record,
        server: ServerRecord,
        program: tuple[list[str], Mapping[str, str]],
        reservation: Reservation,
    ) -> int:
        """Start the process of a server, which inherits the reservation of its ports; returns its id."""
        command, environment = program
        if self.network is not None:
            command = self.network.command(server.site, command)
        folder, log = server.folder(self.directory), server.log(self.directory)
        record.intend(server)
        process = processes.start(
            command, environment, folder, log, server.mark, inherited=(reservation.fileno(),)
        )
        record.started(server, process)
        return process.pid


# --- records and arguments ------------------------------------------------------------------------


def _sites(record: Record) -> LocalSites:
    found = tuple(
        LocalSite(name, tuple(server_of(record, each) for each in engines), server_of(record, broker))
        for name, (*engines, broker) in record.sites.items()
    )
    workers = (server_of(record, each) for listed in record.workers.values() for each in listed)
    return LocalSites(
        record.directory,
        found,
        tuple(workers),
        tuple(server_of(record, each) for each in record.agents.values()),
    )


def server_of(record: Record, server: ServerRecord) -> Server:
    """The present state of a server."""
    process = record.process(server)
    return Server(
        site=server.site,
        role=server.role,
        kind=server.kind,
        address=server.address,
        ports=tuple(server.ports),
        pid=process.pid if process is not None else None,
        log=server.log(record.directory),
    )


def _refuse_other_sites(
    record: Record, desired: dict[str, tuple[str, ...]], brokers: dict[str, str], directory: Path
) -> None:
    if not record.sites or (record.engines() == desired and record.brokers() == brokers):
        return
    running = [server for server in record.servers() if record.process(server) is not None]
    if running:
        raise LocalError(
            f"{directory} has the sites {_named(record.engines())} up, not {_named(desired)} "
            "(stop them first: speck local down; or choose another --directory)"
        )
    stop_marked(record.all_servers())
    record.sites.clear()
    record.workers.clear()
    record.agents.clear()


def _refuse_other_agents(record: Record, directory: Path, *, with_agents: bool) -> None:
    if not record.sites or bool(record.agents) == with_agents:
        return
    if any(record.process(server) is not None for server in record.servers()):
        state = "with agents" if record.agents else "without agents"
        raise LocalError(f"the sites in {directory} are up {state} (stop them first: speck local down)")


def _missing(record: Record) -> list[ServerRecord]:
    """The servers that do not run, and the agents of their sites, whose descriptions may have to change."""
    missing = [server for server in record.servers() if record.process(server) is None]
    concerned = {server.site for server in missing}
    return [
        each
        for each in record.servers()
        if each in missing or (each.role == "agent" and each.site in concerned)
    ]


def _named(engines: Mapping[str, Sequence[str]]) -> str:
    """The sites by name, with their engines where these are not the default."""
    default = (DEFAULT_ENGINE,)
    return ", ".join(
        site if tuple(kinds) == default else f"{site}={','.join(kinds)}" for site, kinds in engines.items()
    )


def _title(server: ServerRecord | Server) -> str:
    noun = f"{server.kind} engine" if server.role == "engine" else server.role
    return f"site {server.site}: {noun} {server.address}"


def stop_marked(servers: Iterable[ServerRecord], *, kill: bool = False) -> None:
    """End the processes of these servers, by SIGTERM first unless ``kill``."""
    processes.stop(processes.marked({server.mark for server in servers}), kill=kill)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is created if needed."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
