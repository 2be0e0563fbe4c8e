"""Sites join by codes: a code is used once, and gives a token, which may be revoked.

The server keeps the SHA-256 of codes and tokens alone.  A token that was revoked is refused permanently, also
one that stands in the file of ``--agent-tokens``.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from speck.binder import Registry
from speck.core.inventory import Inventory
from speck.core.lifecycle import EventKind
from speck.core.live_inventory import LiveInventory
from speck.core.placement import ANY
from speck.core.suggestions import similar_names
from speck.errors import Conflict, Fault, InvalidInput, NotFound
from speck.link.code import JoinCode, server_mark
from speck.link.frames import PROTOCOL
from speck.link.hello import Hello, Joined, JoinRequest, identity_fault, versions
from speck.link.journal import JournalEntry, at_least, number_in, site_time
from speck.schema.inventory import check_joining, with_site
from speck.schema.schemas import check_name
from speck.schema.support import support_faults
from speck.store import Event, Store
from speck.store.agents import AgentRecord, CodeRecord, CodeState

LIFETIME = 900.0  # s, of a code
_SHOWN = 10  # jobs that a refusal names
KEPT = 86_400.0  # s, for which a code is kept after its end, so that a late use of it is named


@dataclass(frozen=True, slots=True)
class Invitation:
    """A code for a site, valid until a Unix time (s)."""

    site: str
    code: str = field(repr=False)
    until: float


class ListedTokens(Protocol):
    """The tokens of ``--agent-tokens``."""

    def site_of(self, token: bytes) -> str | None:
        """The site of a token."""

    def hashes_of(self, site: str) -> Collection[str]:
        """The SHA-256 of the tokens of a site."""

    def mark(self) -> Hashable:
        """A value that is another one once any token was added or removed."""


class NoTokens:
    """No file of tokens."""

    def site_of(self, token: bytes) -> str | None:
        """None."""
        return None

    def hashes_of(self, site: str) -> Collection[str]:
        """None."""
        return ()

    def mark(self) -> Hashable:
        """Always the same."""
        return ()


def with_joined(inventory: Inventory, records: Iterable[AgentRecord]) -> Inventory:
    """A server's own inventory with the sites that joined.

    Raises :class:`~speck.errors.InvalidInput` for one that contradicts it.
    """
    found = inventory
    for record in records:
        if record.entry is not None and record.site not in inventory.sites:
            found = with_site(found, record.site, record.entry)
    return found


@dataclass
class Enrolment:
    """Safe to use from several threads.

    ``fingerprint`` returns the SHA-256 of the server's certificate, empty without TLS.  ``taken`` returns the
    addresses of jobs, which a site may not claim by joining; ``jobs_at`` the names of those that use given
    addresses.  Nothing is accepted in a block of ``frozen``.  The listeners of ``on_changed`` get the
    addresses of a site that joined or was removed.
    """

    store: Store
    inventory: LiveInventory
    registry: Registry
    clock: Callable[[], float]
    listed: ListedTokens = field(default_factory=NoTokens)
    fingerprint: Callable[[], bytes] = bytes
    taken: Callable[[], Set[str]] = frozenset
    jobs_at: Callable[[Collection[str]], Sequence[str]] = lambda _: ()
    frozen: Callable[[], AbstractContextManager[None]] = nullcontext
    on_changed: list[Callable[[Collection[str]], object]] = field(default_factory=list)
    _own: Inventory = field(default_factory=Inventory, init=False)  # without the sites that joined
    _records: dict[str, AgentRecord] = field(default_factory=dict, init=False)
    _sites: dict[str, str] = field(default_factory=dict, init=False)  # by the hash of their token
    _kept: int = field(default=0, init=False)  # the number of records that were kept
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def __post_init__(self) -> None:
        """Read the records, and add the sites that joined to the inventory.

        Raises :class:`~speck.errors.InvalidInput` for one that contradicts the inventory.
        """
        self._own = Inventory(self.inventory.sites, self.inventory.brokers, self.inventory.links)
        for record in self.store.agents():
            self._keep(record)
        self.inventory.replace(with_joined(self._own, self._records.values()))

    # --- connections

    def site_of(self, token: bytes) -> str | None:
        """The site whose agent has this token; ``None`` for an unknown or revoked one."""
        sha256 = _hash(token)
        site = self._sites.get(sha256) or self.listed.site_of(token)
        return None if site is None or sha256 in self.record(site).revoked else site

    def mark(self) -> Hashable:
        """A value that is another one once any token may have become valid or invalid."""
        return self._kept, self.listed.mark()

    def record(self, site: str) -> AgentRecord:
        """The record of a site's agent; one without anything if there is none."""
        return self._records.get(site, AgentRecord(site=site))

    def note(self, hellos: Iterable[Hello], seen: float) -> None:
        """Note the computers and versions of agents, and their last contact (Unix time, s)."""
        with self._lock:
            known = ((self.record(each.site), each) for each in hellos)
            records = [
                replace(record, machine=each.machine, version=each.version, seen=seen)
                for record, each in known
            ]
            with self.store.transaction() as transaction:
                for record in records:
                    transaction.put_agent(record)
            for record in records:
                self._keep(record)

    def note_journal(self, site: str, entries: Sequence[JournalEntry], mark: str, most: int) -> None:
        """Write the entries of an agent's journal as events, at most this number; the others are counted.

        The journal had this mark before they were read.
        """
        last = max((each.number for each in entries), default=0)
        with self._lock:
            known = self.record(site)
            started = sum(each.started for each in entries)
            read = at_least(mark, max(last, number_in(known.journal, mark)))
            record = replace(known, journal=read, restarts=known.restarts + started)
            with self.store.transaction() as transaction:
                for each in entries[:most]:
                    transaction.add_event(self._event(site, each))
                transaction.put_agent(record)
            self._keep(record)

    def note_former_journal(self, site: str, mark: str, text: str) -> None:
        """Read an agent's journal from this mark on, which is a former one; an event has the text."""
        with self._lock:
            record = replace(self.record(site), journal=mark)
            with self.store.transaction() as transaction:
                transaction.add_event(Event(self.clock(), EventKind.IGNORED, text, automatic=True))
                transaction.put_agent(record)
            self._keep(record)

    def _event(self, site: str, entry: JournalEntry) -> Event:
        done = "was started again" if entry.started else "is not started again"
        where = f"at site {site!r}, {site_time(entry)} by its clock"
        text = f"job {entry.job!r}, attempt {entry.attempt}: {done} {where}: {entry.text}"
        kind = EventKind.RESTARTED if entry.started else EventKind.NOT_RESTARTED
        job = self.store.job(entry.job)
        composition, name = (job.composition, job.name) if job is not None else ("", "")
        return Event(self.clock(), kind, text, composition=composition, job=name, automatic=True)

    # --- requests of users

    def invite(self, site: str, author: str = "") -> Invitation:
        """Make a code for a site, which makes earlier ones invalid.

        Raises :class:`~speck.errors.InvalidInput` for a site that cannot have an agent.
        """
        self._check_site(site)
        made = JoinCode(site=site, server=server_mark(self.store.identity), fingerprint=self.fingerprint())
        now = self.clock()
        with self._lock, self.store.transaction() as transaction:
            for each in self.store.join_codes():
                if each.until + KEPT < now:
                    transaction.delete_join_code(each)
                elif each.site == site and each.state is CodeState.OPEN:
                    transaction.put_join_code(replace(each, state=CodeState.REPLACED))
            transaction.put_join_code(CodeRecord(sha256=made.sha256, site=site, until=now + LIFETIME))
            text = f"site {site!r}: a code to join was made, valid for {LIFETIME / 60:.0f} minutes"
            transaction.add_event(Event(now, EventKind.INVITED, text, author=author))
        return Invitation(site, made.text(), now + LIFETIME)

    def revoke(self, site: str, author: str = "") -> None:
        """Refuse the tokens of a site's agent from now on, and its open codes.

        Raises :class:`~speck.errors.NotFound` for a site without an agent.
        """
        known = self._known(site)
        if site not in known:
            raise NotFound(f"site {site!r} has no agent{similar_names(site, known)}")
        with self._lock:
            self._refuse(
                self.record(site), EventKind.REVOKED, f"site {site!r}: its agent was revoked", author
            )

    def remove(self, site: str, author: str = "") -> None:
        """Remove a site that joined from the inventory, and refuse its agent and its open codes.

        Raises :class:`~speck.errors.NotFound` for an unknown site, :class:`~speck.errors.InvalidInput` for
        one of the server's own inventory, and :class:`~speck.errors.Conflict` while jobs use it.
        """
        with self.frozen(), self._lock:  # no job comes to the site meanwhile
            addresses = self._unused(site)
            known = self.record(site)
            record = AgentRecord(site=site, sha256=known.sha256, revoked=known.revoked)
            text = f"site {site!r} was removed from the inventory"
            self._refuse(record, EventKind.REMOVED, text, author)
            sites = {name: each for name, each in self.inventory.sites.items() if name != site}
            self.inventory.replace(Inventory(sites, self.inventory.brokers, self.inventory.links))
        for listener in self.on_changed:
            listener(addresses)

    def _unused(self, site: str) -> Set[str]:
        """The addresses of a site that joined, which no job uses."""
        if site in self._own.sites:
            raise _wrong(
                f"site {site!r} is in the server's own inventory (remove it there, and restart the server)"
            )
        if site not in self.inventory.sites:
            joined = set(self.inventory.sites) - set(self._own.sites)
            raise NotFound(f"there is no site {site!r} that joined{similar_names(site, joined)}")
        addresses = self.inventory.addresses_at(site)
        if jobs := self.jobs_at(addresses):
            raise Conflict(
                f"site {site!r} is used by {_shown(jobs)} (expected no job there: move or delete them; "
                "speck left-behind lists those that were abandoned)"
            )
        return addresses

    def _refuse(self, record: AgentRecord, kind: EventKind, text: str, author: str) -> None:
        """Refuse the tokens of a site, and its open codes, from now on; an event says so."""
        tokens = {*record.revoked, record.sha256, *self.listed.hashes_of(record.site)} - {""}
        revoked = replace(record, sha256="", revoked=tuple(sorted(tokens)))
        with self.store.transaction() as transaction:
            for each in self.store.join_codes():
                if each.site == record.site and each.state is CodeState.OPEN:
                    transaction.put_join_code(replace(each, state=CodeState.REVOKED))
            transaction.put_agent(revoked)
            transaction.add_event(Event(self.clock(), kind, text, author=author))
        self._keep(revoked)

    def _known(self, site: str) -> set[str]:
        agents = {name for name, each in self.inventory.sites.items() if each.agent}
        return agents | set(self._records)

    def _check_site(self, name: str) -> None:
        site = self.inventory.sites.get(name)
        fault = "has a reserved name (expected another)" if name == ANY else check_name(name)
        if fault is not None:
            raise _wrong(f"site {name!r}: {fault}")
        if site is not None and not site.agent:
            raise _wrong(
                f"site {name!r} is reached directly (write 'agent: true' in its entry of the inventory first)"
            )
        if site is None and name in self.inventory.brokers:
            raise _wrong(f"{name!r} is the name of a broker in the inventory (expected that of a site)")

    # --- joining

    def join(self, request: JoinRequest) -> Joined:
        """Let a site join by its code.

        Raises :class:`~speck.errors.InvalidInput` with the reason why not, and nothing has changed then.
        """
        if fault := identity_fault(request.machine, request.version):
            raise _wrong(fault)
        if request.protocol != PROTOCOL:
            raise _wrong(
                f"the site speaks protocol {request.protocol} (expected {PROTOCOL}; "
                f"{versions(request.version)}: update the older of the two)"
            )
        code = JoinCode.parse(request.code)
        if code.server != server_mark(self.store.identity):
            raise _wrong("the code belongs to another server (expected one that this server printed)")
        self._usable(code, self.clock())  # before anything is frozen: anyone may try a code
        with self.frozen(), self._lock:  # no job comes meanwhile to the addresses that are checked
            token, inventory = self._admit(request, code)
            addresses = self.inventory.addresses_at(code.site) | inventory.addresses_at(code.site)
            self.inventory.replace(inventory)
        for listener in self.on_changed:
            listener(addresses)
        site = inventory.sites[code.site]
        engines = tuple(replace(each, scale=None, hook=None) for each in site.engines)
        return Joined(token=token, site=replace(site, engines=engines))

    def _admit(self, request: JoinRequest, code: JoinCode) -> tuple[str, Inventory]:
        """Write the records of a site that joins; returns its token, and the inventory with it."""
        now, token = self.clock(), secrets.token_urlsafe(32)
        used = replace(self._usable(code, now), state=CodeState.USED)
        inventory, entry = self._with(code.site, request.entry)
        record = replace(
            self.record(code.site),
            sha256=_hash(token.encode()),
            machine=request.machine,
            version=request.version,
            entry=entry,
            joined=now,
        )
        with self.store.transaction() as transaction:
            transaction.put_join_code(used)
            transaction.put_agent(record)
            text = f"site {code.site!r} joined, on machine {request.machine or 'without an id'}"
            transaction.add_event(Event(now, EventKind.JOINED, text))
        self._keep(record)
        return token, inventory

    def _usable(self, code: JoinCode, now: float) -> CodeRecord:
        """The record of a code that may be used now.  Raises :class:`~speck.errors.InvalidInput`."""
        found = next((each for each in self.store.join_codes() if each.sha256 == code.sha256), None)
        how = "make another with: speck sites add NAME"
        if found is None or found.site != code.site:
            raise _wrong(f"the code is not known here, or was made more than a day ago ({how})")
        if found.state is not CodeState.OPEN:
            raise _wrong(f"the code of site {code.site!r} {_STATES[found.state]} ({how})")
        if found.until < now:
            minutes = round((now - found.until) / 60)
            ago = {0: "just now", 1: "a minute ago"}.get(minutes, f"{minutes} minutes ago")
            raise _wrong(f"the code of site {code.site!r} expired {ago} ({how})")
        return found

    def _with(self, site: str, entry: Mapping[str, Any] | None) -> tuple[Inventory, Mapping[str, Any] | None]:
        """The inventory with a site that joins, and its entry; one of the server's own inventory stays."""
        self._check_site(site)
        if site in self._own.sites:
            return self.inventory, None
        if entry is None:
            entry = self.record(site).entry
        if entry is None:
            raise _wrong(
                f"site {site!r} is not in the server's inventory (give its servers: --engine and --broker)"
            )
        check_joining(site, entry)
        found = with_site(self.inventory, site, entry)
        if taken := (found.addresses_at(site) - self.inventory.addresses_at(site)) & self.taken():
            raise _wrong(
                f"site {site!r}: jobs use {min(taken)} already (expected the site in the server's inventory, "
                "with 'agent: true')"
            )
        for gone in sorted(self.inventory.addresses_at(site) - found.addresses_at(site)):
            if jobs := self.jobs_at([gone]):
                raise _wrong(
                    f"site {site!r}: {gone} is used by {_shown(jobs)} (expected it among --engine and "
                    "--broker as before, or no job there: move or delete them)"
                )
        if faults := list(support_faults(Inventory({site: found.sites[site]}), self.registry)):
            raise InvalidInput(faults, "site")
        return found, entry

    def _keep(self, record: AgentRecord) -> None:
        """Take over a record; other threads find the site of a token that stays valid at any moment."""
        former = self._records.get(record.site)
        self._records[record.site] = record
        if record.sha256:
            self._sites[record.sha256] = record.site
        if former is not None and former.sha256 != record.sha256:
            self._sites.pop(former.sha256, None)
        self._kept += 1


_STATES = {
    CodeState.USED: "was used before",
    CodeState.REPLACED: "was replaced by a later one",
    CodeState.REVOKED: "was revoked",
}


def _hash(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "site")


def _shown(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
    return f"{', '.join(jobs[:_SHOWN])}{more}"
