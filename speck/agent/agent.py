"""The agent of one site: wires its parts, and runs until it is closed."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import speck
from speck.agent.attempt_files import AttemptFiles
from speck.agent.attempts import Attempts
from speck.agent.calls import Calls
from speck.agent.code_store import CodeStore
from speck.agent.durable_engine import DurableEngine
from speck.agent.journal import Journal
from speck.agent.looks import Looks
from speck.agent.machine import is_machine, machine_id
from speck.agent.places import SiteInventory
from speck.agent.site_file import SiteFile
from speck.agent.status import LOCK, read_state, write_state
from speck.agent.supervisor import Supervisor
from speck.agent.turns import Turns
from speck.agent.upgrader import Upgrader
from speck.binder import BrokerBinder, EngineKind, Registry
from speck.core.inventory import Engine
from speck.errors import Fault, InvalidInput
from speck.link.dial import Dialler
from speck.link.frames import PROTOCOL
from speck.link.hello import Hello
from speck.link.methods import is_carried
from speck.link.tls import NO_CHECK_TIME, shared
from speck.loop import Loop

LOOKED_AT = 0.2  # s, for which a look at whether an agent runs may take the lock

_log = logging.getLogger(__name__)


@dataclass
class Agent:
    """The agent of the site that is ``described``, with its files in ``directory``.

    ``machine`` identifies the computer: with the disk of another one, nothing starts before a contact.
    """

    described: SiteFile
    directory: Path
    registry: Registry
    machine: str = ""
    _brokers: dict[tuple[str, str], BrokerBinder] = field(default_factory=dict, init=False)
    _making: threading.Lock = field(default_factory=threading.Lock, init=False)
    _connected: threading.Event = field(default_factory=threading.Event, init=False)
    _parted: float = field(default_factory=time.monotonic, init=False)  # the end of the last contact, s

    def __post_init__(self) -> None:
        """Wire the parts.  Raises :class:`~speck.errors.InvalidInput` for an engine that cannot be used."""
        site, turns = self.described.site, Turns()
        self.machine = self.machine or machine_id()
        self._state = read_state(self.directory)
        self.inventory = SiteInventory(site, self.directory)
        self.code = CodeStore(self.directory / "code")
        self.attempts = Attempts(AttemptFiles(self.directory / "attempts"))
        engines = {each.spe_address: self._durable(each) for each in site.engines}
        self.journal = Journal(self.directory / "journal.json")
        self.looks = Looks(
            lambda message: self.dialler.send(message),
            journal=lambda: self.journal.mark,
            lasting=lambda: self.dialler.takes_lasting,
        )
        self.supervisors = [
            Supervisor(
                engine=each,
                turns=turns,
                broker=self._broker,
                own_broker=site.broker_address,
                looks=self.looks,
                journal=self.journal,
                may_start=self._may_start,
                alone=self._alone,
            )
            for each in engines.values()
        ]
        self._loops = [Loop("supervisor", "a look", each.round) for each in self.supervisors]
        self.upgrader = Upgrader(self.directory, lambda: self.dialler.close())
        self.calls = Calls(
            site=site.name,
            engines=engines,
            broker_address=site.broker_address,
            broker=self._broker,
            inventory=self.inventory,
            code=self.code,
            turns=turns,
            looks=self.looks,
            journal=self.journal,
            upgrader=self.upgrader,
        )
        self.dialler = Dialler(
            urls=self.described.addresses,
            token=self.described.token.reveal,
            hello=self._hello,
            answer=self.calls.answer,
            contact=self._note_contact,
            context=_context(self.described),
            on_answered=self.calls.note_answered,
            accepts=self._refusal,
            on_pulse=self.looks.withdraw,
            known_epoch=self._known_epoch,
        )

    def run(self) -> None:
        """Run until :meth:`close`.  Raises :class:`~speck.errors.InvalidInput` if another agent runs here."""
        with _locked(self.directory / LOCK):
            self._forget_unused()
            self._note_start()
            for loop in self._loops:
                loop.start()
            self.dialler.run()

    def close(self) -> None:
        """End the connection and the supervision; the jobs run on."""
        self.dialler.close()
        for loop in self._loops:
            loop.close(5)
        for supervisor in self.supervisors:
            supervisor.close(5)
        self.calls.close_feeds()

    def release(self) -> None:
        """Close the binders with their connections and processes, for a program that takes this one's place.

        It would have their processes as children that have ended, and nobody to wait for them.
        """
        for supervisor in self.supervisors:
            supervisor.engine.binder.close()
        with self._making:
            brokers = list(self._brokers.values())
        for broker in brokers:
            broker.close()

    # --- parts

    def _forget_unused(self) -> None:
        """Delete the files and logins that no attempt needs; not while another agent runs here."""
        self.code.prune([each.job.job_path for each in self.attempts.all()])
        with contextlib.suppress(OSError):  # it is tried again after each stop
            self.inventory.retain(self.attempts.brokers())

    def _durable(self, engine: Engine) -> DurableEngine:
        address = engine.spe_address
        kind = kind_of(self.registry, address)
        binder = kind.connect(address, self.inventory)
        if not is_carried(binder):
            raise _wrong(f"engine {address}: engines of kind {kind.name!r} cannot be used through an agent")
        return DurableEngine(binder, address, self.attempts)

    def _broker(self, broker: str, owner: str) -> BrokerBinder:
        address = self.inventory.address_here(broker)
        with self._making:
            if (address, owner) not in self._brokers:
                kind = self.registry.broker_kind(address)
                if kind is None:
                    raise _wrong(f"broker {address}: no installed binder serves it")
                binder = kind.connect(address, self.inventory)
                if owner:
                    binder.take_owner(owner)
                self._brokers[address, owner] = binder
            return self._brokers[address, owner]

    def _hello(self) -> Hello:
        site = self.described.site
        return Hello(
            protocol=PROTOCOL,
            version=speck.__version__,
            site=site.name,
            engines=tuple(each.spe_address for each in site.engines),
            broker=site.broker_address,
            machine=self.machine,
            code=self.code.hashes(),
        )

    # --- contact

    def _may_start(self) -> bool:
        """True on the computer on which the attempts were accepted, and after any contact."""
        return is_machine(self._state.get("machine", self.machine), self.machine)

    def _alone(self) -> float:
        """The time without contact, s."""
        return 0.0 if self._connected.is_set() else time.monotonic() - self._parted

    def _refusal(self, epoch: int) -> str:
        """The reason why a coordinator of an epoch is refused; empty if it is not.

        A higher epoch is stored first: after a restart, the agent would accept a former server otherwise.
        """
        known = self._known_epoch()
        if epoch < known:
            return (
                f"the server has epoch {epoch}, and the site was connected to epoch {known} (expected "
                f"{known} or higher; see docs/agents.md, Two servers)"
            )
        if epoch > known:
            state = self._state | {"epoch": epoch}
            try:
                write_state(self.directory, state)
            except OSError as error:
                return f"its epoch {epoch} cannot be stored at the site: {error.strerror or error}"
            self._state = state
        return ""

    def _known_epoch(self) -> int:
        """The highest epoch of a coordinator that was in contact; 0 without one."""
        return int(self._state.get("epoch", 0))

    def _note_start(self) -> None:
        """The last note is of the contact before, which has ended."""
        self._state = self._state | {
            "connected": False,
            "since": time.time(),
            "reason": "it has just started",
        }
        with contextlib.suppress(OSError):
            write_state(self.directory, self._state)

    def _note_contact(self, reason: str) -> None:
        if not reason:
            self.looks.forget()
            self._connected.set()
            for supervisor, loop in zip(self.supervisors, self._loops, strict=True):
                supervisor.note_contact()
                loop.wake()
            _log.info("connected to %s", self.described.coordinator)
        else:
            if self._connected.is_set() or reason != self._state.get("reason"):
                _log.warning("no contact: %s", reason)
            if self._connected.is_set():
                self._parted = time.monotonic()
            self._connected.clear()
            self.calls.close_feeds()
        if self._connected.is_set() or reason != self._state.get("reason"):
            machine = self.machine if not reason else self._state.get("machine", self.machine)
            self._state = {
                "connected": not reason,
                "since": time.time(),
                "reason": reason,
                "machine": machine,
                "epoch": self._known_epoch(),
            }
            with contextlib.suppress(OSError):  # it is for display, and for a copied disk
                write_state(self.directory, self._state)


def kind_of(registry: Registry, address: str) -> EngineKind:
    """The kind of an engine.  Raises :class:`~speck.errors.InvalidInput` if no installed binder serves it."""
    kind = registry.engine_kind_at(address)
    if kind is None:
        raise _wrong(f"engine {address}: no installed binder serves it")
    return kind


def _lock(descriptor: int, directory: Path) -> None:
    """Lock a file, also if :func:`speck.agent.status.is_running` holds its lock for a moment."""
    until = time.monotonic() + LOOKED_AT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() > until:
                raise _wrong(f"another agent runs in {directory} (expected one a directory)") from error
            time.sleep(LOOKED_AT / 10)
        else:
            return


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, path.parent)
        yield
    finally:
        os.close(descriptor)


def _context(described: SiteFile) -> ssl.SSLContext | None:
    if all(each.startswith("ws:") for each in described.addresses):
        return None
    if described.certificate_file is not None:
        return _pinned(described.certificate_file)
    try:
        return shared(ssl.create_default_context(cafile=described.ca_file))
    except OSError as error:
        raise _wrong(f"ca_file {described.ca_file!r} cannot be used: {error.strerror or error}") from error


def _pinned(file: str) -> ssl.SSLContext:
    """A context that trusts one certificate, whatever its name, its authority and its dates."""
    context = shared(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = False
    # A board without a clock may be before the first day of the certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    try:
        context.load_verify_locations(file)
    except OSError as error:
        raise _wrong(f"certificate_file {file!r} cannot be used: {error.strerror or error}") from error
    return context


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "agent")
