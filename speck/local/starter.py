"""Starts servers of local sites, and their workers; writes the site inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from speck.binder import LocalServer, Networked, Registry, Scalable, WorkersEngine
from speck.core.durable_files import rewrite_file
from speck.errors import LocalError
from speck.local import agents, processes
from speck.local.ports import Reservation
from speck.local.starting import StartedServer, await_ready
from speck.local.state import Record, ServerRecord
from speck.local.wan import Network

TIMEOUT = 240.0  # s, for all servers to answer

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Starter:
    """Starts servers in a directory, and waits until all answer; ``heap`` is the Java heap of engines."""

    directory: Path
    registry: Registry
    heap: str
    progress: Progress
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
            await_ready(started, TIMEOUT, self.progress)
        except BaseException:  # an interrupt too: no server may outlive a start that failed
            stop_marked(servers)
            raise

    def await_running(self, record: Record, servers: Iterable[ServerRecord]) -> None:
        """Wait until these running servers answer; an earlier start may have been killed before they did.

        Raises :class:`~speck.errors.LocalError` for one that does not, and leaves it running.
        """
        found = [self._started(each, each.pid or 0, begin=0) for each in servers]
        await_ready(found, TIMEOUT, lambda _: None)

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
                former = server.ports
                server.ports = reservation.draw(kind.ports, former, taken=record.ports(but=server))
                if server.ports != former:  # its workers would look for it at the former ports
                    stop_marked(record.workers_of(server))
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
        return self._started(server, pid, begin)

    def _started(self, server: ServerRecord, pid: int, begin: int) -> StartedServer:
        bound = () if server.role == "agent" or self.network is not None else tuple(server.ports)
        log = server.log(self.directory)
        return StartedServer(server.title, self.kind(server), pid, tuple(server.ports), bound, log, begin)

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


def stop_marked(servers: Iterable[ServerRecord], *, kill: bool = False) -> None:
    """End the processes of these servers, by SIGTERM first unless ``kill``."""
    processes.stop(processes.marked({server.mark for server in servers}), kill=kill)
