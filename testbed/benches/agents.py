"""A hub and agents over sockets of this machine: what tests and benchmarks of agents share."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from speck.agent.agent import Agent
from speck.agent.attempt_files import AttemptFiles
from speck.agent.attempts import Attempts
from speck.agent.durable_engine import DurableEngine
from speck.agent.journal import Journal
from speck.agent.looks import Looks
from speck.agent.run_state import Phase, accepted
from speck.agent.site_file import SiteFile, read_site_file, write_site_file
from speck.agent.supervisor import Supervisor
from speck.agent.turns import Turns
from speck.binder import BrokerBinder, EngineBinder, Registry
from speck.coordinator import Services, build
from speck.coordinator.agents import Agents, Enrolment
from speck.core.inventory import Engine, Inventory, Secret, Site
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle
from speck.core.settings import ServerSettings, Settings
from speck.link.hub import Hub
from speck.link.remote import remote_broker, remote_engine
from speck.server.agents import agents_hub, enrolment_of, listed_tokens, remote_binders
from speck.server.tls import Certificate
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.world import World

TOKEN = "t" * 40
PATIENCE = 20.0  # s, for a connection over loopback


class LinkBench:
    """A coordinator's hub and the agent of one site, whose jobs run in a registry's engines."""

    def __init__(self, directory: Path, registry: Registry, engines: Sequence[Engine], broker: str) -> None:
        self.registry = registry
        self.site = Site(name="A", engines=tuple(engines), broker_address=broker, agent=True)
        self.inventory = Inventory({"A": self.site})
        self.directory = directory
        self.hub = Hub(lambda token: "A" if token == TOKEN.encode() else None, self.inventory.sites)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
        self.hub.start(listener)
        directory.mkdir(parents=True, exist_ok=True)
        token = directory / "token"
        token.write_text(TOKEN)
        self.described = SiteFile(site=self.site, coordinator=self.url, token=Secret(f"file:{token}"))
        write_site_file(directory / "agent", self.described)
        self.agent = self.start_agent()

    def start_agent(self) -> Agent:
        """Start an agent on the directory."""
        agent = Agent(self.described, self.directory / "agent", self.registry)
        self._thread = threading.Thread(target=agent.run, name="agent")
        self._thread.start()
        return agent

    def end_agent(self) -> None:
        """End the agent; its jobs run on."""
        self.agent.close()
        self._thread.join(PATIENCE)

    def restart_agent(self) -> None:
        """End the agent, and start another one on the same directory."""
        self.end_agent()
        # The hub notices it a little later, and would accept a call for the connection that has ended.
        eventually(lambda: self.hub.presence("A"), lambda found: found is None, PATIENCE)
        self.agent = self.start_agent()
        self.await_contact()

    def restart_without_contact(self) -> None:
        """End the agent, and start another one, whose coordinator is not there."""
        self.end_agent()
        self.agent = self.start_agent()

    def await_contact(self) -> None:
        """Wait until the agent is connected; raises :class:`AssertionError`."""
        eventually(lambda: self.hub.presence("A"), lambda found: found is not None, PATIENCE)

    def engine(self, address: str) -> EngineBinder:
        """A binder of an engine of the site."""
        kind = next(each for each in self.registry.engines if address.split(":")[0] in each.schemes)
        return remote_engine(kind, self.hub, "A", address, self.inventory)

    def serve(self, binder: EngineBinder, address: str) -> EngineBinder:
        """Have the agent serve a binder that was made already; returns one that reaches it by the agent."""
        durable = DurableEngine(binder, address, self.agent.attempts)
        self.agent.calls.engines = {**self.agent.calls.engines, address: durable}
        return self.engine(address)

    def broker(self) -> BrokerBinder:
        """A binder of the site's broker."""
        address = self.site.broker_address
        kind = self.registry.broker_kind(address)
        if kind is None:
            raise ValueError(f"no binder for {address}")
        return remote_broker(kind, self.hub, "A", address, self.inventory)

    def close(self) -> None:
        """End agent and hub."""
        self.end_agent()
        self.hub.close()


@dataclass(frozen=True)
class JoiningServer:
    """A coordinator that sites may join while it runs; ``address`` is that of its agents, HOST:PORT."""

    services: Services
    hub: Hub
    address: str

    @property
    def enrolment(self) -> Enrolment:
        """The sites that may connect."""
        return self.services.agents.enrolment

    def await_agent(self, site: str, *, there: bool = True) -> None:
        """Wait until the agent of a site is connected, or is not."""
        eventually(lambda: self.hub.presence(site), lambda found: (found is not None) is there)


@contextmanager
def joining_server(
    directory: Path, registry: Registry, inventory: Inventory, certificate: Certificate | None = None
) -> Iterator[JoiningServer]:
    """A server on a loopback port, which does not reconcile."""
    settings = ServerSettings(agents="127.0.0.1:0")
    with Store(directory / "store") as store:
        enrolment = enrolment_of(listed_tokens(settings), store, registry, inventory, certificate)
        hub = agents_hub(settings, enrolment, secured=certificate is not None)
        assert hub is not None
        listener = socket.create_server(("127.0.0.1", 0))
        hub.start(listener, None if certificate is None else certificate.renewing_context())
        agents = Agents(enrolment, hub)
        hub.on_second.append(agents.note_second)
        remote = remote_binders(hub, enrolment.inventory)
        services = build(
            store, registry, enrolment.inventory, Settings(period=0, adapt=0), remote=remote, agents=agents
        )
        try:
            yield JoiningServer(services, hub, f"127.0.0.1:{listener.getsockname()[1]}")
        finally:
            services.coordinator.close()
            hub.close()


@contextmanager
def running_agent(directory: Path, registry: Registry, machine: str = "") -> Iterator[Agent]:
    """The agent of a directory, in a thread."""
    agent = Agent(read_site_file(directory), directory, registry, machine=machine)
    thread = threading.Thread(target=agent.run, name="agent")
    thread.start()
    try:
        yield agent
    finally:
        agent.close()
        thread.join(PATIENCE)


@contextmanager
def link_bench(
    directory: Path, registry: Registry, engines: Sequence[Engine], broker: str
) -> Iterator[LinkBench]:
    """A bench whose agent is connected."""
    bench = LinkBench(directory, registry, engines, broker)
    try:
        bench.await_contact()
        yield bench
    finally:
        bench.close()


def started_by_lone_agent(
    engine: EngineBinder, job: Job, attempt: Attempt, handle: Handle, directory: Path
) -> DurableEngine:
    """Have an agent without contact start an attempt at a real engine, where it has failed, again.

    ``job`` is the form that it is started in, ``handle`` that of the failed one.  Its broker is a double, and
    its clock runs fast.
    """
    attempts, address = Attempts(AttemptFiles(directory / "attempts")), handle.address
    attempts.put(accepted(job, attempt, address).confirmed(handle))
    durable = DurableEngine(engine, address, attempts)
    supervisor = Supervisor(
        durable,
        Turns(),
        lambda broker, _owner: InMemoryBroker(World(), broker),
        own_broker="",
        looks=Looks(lambda _message: False),
        journal=Journal(directory / "journal.json"),
        clock=map(float, itertools.count(0, 10)).__next__,
    )

    def phase() -> tuple[Phase, int]:
        supervisor.round()
        record = attempts.get(attempt.id)
        assert record is not None
        return record.phase, record.failures

    eventually(phase, lambda found: found == (Phase.RUNNING, 1))
    return durable
