"""Sites on one machine for development, each with engines and a broker on free loopback ports.

One directory has everything: ``local.json`` (ports, process ids and marks, written before each start),
``sites.yaml`` (the site inventory), and for each site its logs and its servers' files.  The servers outlive
the process that started them, and any process can find and stop them by the directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from speck.binder import Registry, installed
from speck.binder.devserver import heap_bytes
from speck.errors import LocalError
from speck.local import agents, processes
from speck.local.request import DEFAULT_ENGINE, RequestedSites
from speck.local.starter import Progress, Starter, stop_marked
from speck.local.state import Record, Role, ServerRecord, locked, server_title
from speck.local.wan import Network

DEFAULT_HEAP = "600m"

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
        return server_title(self.site, self.role, self.kind, self.address)


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
    workers: Mapping[str, tuple[int, int]] | None = None,
    with_agents: bool = False,
) -> LocalSites:
    """Start sites in a directory, and wait until all of their servers answer.

    ``sites`` is a number (they are named A, B, C, ...) or names; ``engines`` are the kinds of engines by
    site (``spark-connect`` for others), ``brokers`` the kinds of brokers (``mqtt`` for others); ``heap`` is a
    Java size for each engine.  ``network`` is one with these sites, in whose namespaces they run (``None``:
    all on loopback).  Running servers stay; others are started, on their former ports if these are free.

    ``workers`` are, by site, the least and the greatest number of workers of its engine, which then are
    servers of their own (:mod:`speck.local.workers`); the least number is started.  ``with_agents``: each
    site has an agent, which is started again with any server of its site.

    Raises :class:`~speck.errors.LocalError`, with the end of the log of a server that did not start; all
    servers that this call started are stopped then.
    """
    requested = RequestedSites.of(sites, engines or {}, brokers or {}, with_agents=with_agents)
    heap_bytes(heap)
    directory = directory.absolute()
    starter = Starter(directory, registry or installed(), heap, progress, network)
    if requested.with_agents:
        agents.refuse_without(starter.registry, requested.engines)
    with locked(directory):
        record = _record_of(directory, requested)
        starter.set_bounds(record, workers or {})
        for server in record.servers():
            starter.kind(server)
        if requested.with_agents:
            agents.write_tokens(record.agents.values(), directory)
        missing = _missing(record)
        starter.start(record, missing)
        starter.await_running(record, [each for each in record.servers() if each not in missing])
        if not missing:
            progress(f"all servers of {', '.join(requested.engines)} are already up")
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
                progress(f"stopping {server.title}")
        processes.stop(found)
        record.forget_processes()
        return [process.pid for process in found]


def status(directory: Path) -> LocalSites:
    """The sites of a directory in their present state; none if nothing was ever started."""
    return _sites(Record.load(directory.absolute()))


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


def _record_of(directory: Path, requested: RequestedSites) -> Record:
    """The record of these sites, which is new unless they were started in the directory before.

    Raises :class:`~speck.errors.LocalError` while other sites run there.
    """
    record = Record.load(directory)
    _refuse_other_sites(record, requested)
    _refuse_other_agents(record, requested)
    if not record.sites:
        record = Record.new(directory, requested.engines, requested.brokers)
    record.set_agents(given=requested.with_agents)
    return record


def _refuse_other_sites(record: Record, requested: RequestedSites) -> None:
    found = record.engines()
    if not record.sites or (found == requested.engines and record.brokers() == requested.brokers):
        return
    running = [server for server in record.servers() if record.process(server) is not None]
    if running:
        raise LocalError(
            f"{record.directory} has the sites {_named(found)} up, not {_named(requested.engines)} "
            "(stop them first: speck local down; or choose another --directory)"
        )
    stop_marked(record.all_servers())
    record.sites.clear()
    record.workers.clear()
    record.agents.clear()


def _refuse_other_agents(record: Record, requested: RequestedSites) -> None:
    if not record.sites or bool(record.agents) == requested.with_agents:
        return
    if any(record.process(server) is not None for server in record.servers()):
        state = "with agents" if record.agents else "without agents"
        raise LocalError(
            f"the sites in {record.directory} are up {state} (stop them first: speck local down)"
        )


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
