"""The agents that are connected, and since when; events when one is away and back."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from speck.agent.machine import is_machine
from speck.binder.asking import ask
from speck.coordinator.agents.enrolment import Enrolment, Invitation
from speck.core.clocks import Clock, steady_beside
from speck.core.event_limit import EventLimit
from speck.core.lifecycle import EventKind
from speck.errors import Conflict, StoreError
from speck.link.hello import EpochRefusal, Hello
from speck.link.journal import MOST, JournalEntry, number_in
from speck.loop import Loop
from speck.store import Event

LOOK = 2.0  # s between two looks at the connections
_READING = 5.0  # s, for the journals of all agents
MOST_SECOND = 10  # events an hour about other machines with a site's token
GRACE = 30.0  # s without a connection before an event says so: an uplink may break for moments


class Present(Protocol):
    """An agent that is connected ``since`` (Unix time, s)."""

    @property
    def since(self) -> float:
        """The time of the connection."""

    @property
    def hello(self) -> Hello:
        """Its description."""


class Connections(Protocol):
    """The connections of agents: :class:`speck.link.hub.Hub`."""

    def presence(self, site: str) -> Present | None:
        """The agent of a site that is connected now."""

    def journal(self, site: str) -> str:
        """The mark of the journal of the site's agent; empty without one."""

    def read_journal(self, site: str, after: int, seconds: float) -> Sequence[JournalEntry]:
        """The entries after this one.  Raises :class:`~speck.errors.SpeckError`."""

    @property
    def epoch_refusals(self) -> Mapping[str, EpochRefusal]:
        """The refusals of this server because of its epoch, by site, unless it was accepted since."""

    def recheck(self) -> None:
        """End the connections whose tokens are no longer valid."""

    def call(self, site: str, call: dict[str, Any], seconds: float, address: str) -> Any:
        """See :meth:`speck.link.hub.Hub.call`."""


@dataclass(frozen=True, slots=True)
class SecondAgent:
    """A machine that was refused as the agent of a site, while that on machine ``first`` was connected."""

    site: str
    first: str
    second: str
    at: float  # Unix time, s


@dataclass
class Agents:
    """The agents of the sites: connected or away, and since when.

    ``connections`` is ``None`` for a server that accepts no agents.
    """

    enrolment: Enrolment
    connections: Connections | None = None
    steady: Clock = field(init=False)
    _last: dict[str, Hello] = field(default_factory=dict, init=False)  # of those that were connected
    _away: dict[str, float] = field(default_factory=dict, init=False)  # since, Unix time, s
    _quiet: dict[str, float] = field(default_factory=dict, init=False)  # the same by the steady clock
    _reported: set[str] = field(default_factory=set, init=False)  # as away, by an event
    _second: dict[str, SecondAgent] = field(default_factory=dict, init=False)
    _unwritten: list[SecondAgent] = field(default_factory=list, init=False)
    # A hostile site may not push the events of others out of the log: as many as an honest one keeps.
    _starts: EventLimit = field(default_factory=lambda: EventLimit(MOST), init=False)
    _seconds: EventLimit = field(default_factory=lambda: EventLimit(MOST_SECOND), init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.enrolment.clock)
        self.loop = Loop("presence", "a look at the agents", self.look)

    # --- requests of users

    def invite(self, site: str, author: str = "") -> Invitation:
        """See :meth:`Enrolment.invite`.

        Raises :class:`~speck.errors.Conflict` on a server that accepts no agents.
        """
        self.require_connections()
        return self.enrolment.invite(site, author)

    def revoke(self, site: str, author: str = "") -> None:
        """See :meth:`Enrolment.revoke`; the agent's connection ends."""
        self.enrolment.revoke(site, author)
        if self.connections is not None:
            self.connections.recheck()

    def remove(self, site: str, author: str = "") -> None:
        """See :meth:`Enrolment.remove`; the agent's connection ends."""
        self.enrolment.remove(site, author)
        for known in (self._last, self._away, self._quiet, self._second):
            known.pop(site, None)
        self._reported.discard(site)
        if self.connections is not None:
            self.connections.recheck()

    def require_connections(self) -> Connections:
        """The connections.  Raises :class:`~speck.errors.Conflict` on a server that accepts no agents."""
        if self.connections is None:
            raise Conflict("this server accepts no agents (start it with: speck serve --agents [HOST:]PORT)")
        return self.connections

    # --- contact

    def note_second(self, site: str, first: str, second: str) -> None:
        """Note that another machine came with the token of an agent that is connected, and was refused."""
        known, now = self._second.get(site), self.enrolment.clock()
        self._second[site] = SecondAgent(site, first, second, now)
        if known is None or known.second != second:
            with self._seconds.admission(site, now) as is_admitted:
                if is_admitted:
                    self._unwritten.append(self._second[site])

    def look(self) -> float:
        """Look at the connections once, and write the events; returns the time until the next look, s."""
        now = self.enrolment.clock()
        for site in self._sites():
            present = self._present(site)
            if present is not None:
                self._note_contact(site, present, now)
                continue
            self._away.setdefault(site, now)
            if self.steady() - self._quiet.setdefault(site, self.steady()) >= GRACE:
                self._note_loss(site)
        while self._unwritten:
            self._write_second(self._unwritten[0])
            del self._unwritten[0]
        self._report_left_out(now)
        self._read_journals(now)
        return LOOK

    def close(self) -> None:
        """End the looks, and note the last contact with those that are connected."""
        self.loop.close()
        with contextlib.suppress(StoreError):
            self._report_left_out(math.inf)
        present = [hello for site, hello in self._last.items() if site not in self._away]
        if present:
            with contextlib.suppress(StoreError):  # it is for display
                self.enrolment.note(present, self.enrolment.clock())

    def _note_contact(self, site: str, present: Present, now: float) -> None:
        hello, former = present.hello, self._last.get(site)
        known = {self.enrolment.record(site).machine, "" if former is None else former.machine} - {""}
        if hello.machine and known and not any(is_machine(each, hello.machine) for each in known):
            self._note_other_machine(site, ", ".join(sorted(known)), hello, now)
        self._last[site] = hello
        self._away.pop(site, None)
        self._quiet.pop(site, None)
        if site in self._reported:
            self._write(EventKind.AGENT_BACK, f"site {site!r}: its agent is connected again")
            self._reported.discard(site)

    def _note_other_machine(self, site: str, known: str, hello: Hello, now: float) -> None:
        """Note an agent on another machine than before, which nobody refused: the first one is away."""
        text = (
            f"site {site!r}: its agent runs on machine {hello.machine} now, and not on {known} (if it "
            f"was not moved, the disk was copied: speck sites revoke {site} makes its token invalid)"
        )
        with self._seconds.admission(site, now) as is_admitted:
            if is_admitted:
                self._write(EventKind.SECOND_AGENT, text)
            self.enrolment.note([hello], now)

    def _note_loss(self, site: str) -> None:
        hello, seen = self._last.get(site), self.enrolment.record(site).seen
        if site in self._reported or (hello is None and not seen):
            return  # it has never been connected, or an event says so already
        if hello is not None:
            seen = self._away[site]
            self.enrolment.note([hello], seen)
        self._write(EventKind.AGENT_AWAY, f"site {site!r}: its agent is away; the jobs there continue")
        self._reported.add(site)

    def _read_journals(self, now: float) -> None:
        """Read the journals that have new entries, and write these as events."""
        connections = self.connections
        if connections is None:
            return
        known = {site: self.enrolment.record(site).journal for site in self._sites()}
        marks = {site: mark for site in known if (mark := connections.journal(site)) not in ("", known[site])}
        read = {site: number_in(known[site], mark) for site, mark in marks.items()}
        # A mark is older than the entries that were read after it came, until the agent sends the next one.
        after = {site: min(number, _last_in(marks[site]) - 1) for site, number in read.items()}
        asked = ask(
            read,
            lambda site: connections.read_journal(site, after[site], _READING),
            _READING,
            name="journal",
        )
        for site, found in asked.answers.items():
            last = max((each.number for each in found), default=0)
            if max(last, _last_in(marks[site])) < read[site]:
                self._note_former_journal(site, marks[site], read[site], now)
                continue
            entries = [each for each in found if each.number > read[site]]
            most = self._starts.room(site, now)
            self.enrolment.note_journal(site, entries, marks[site], most)
            written = min(most, len(entries))
            self._starts.note(site, now, written, len(entries) - written)

    def _note_former_journal(self, site: str, mark: str, read: int, now: float) -> None:
        """Note a journal whose last entries are gone, as on a disk that was restored from an image.

        Its next entries have numbers that were read before.
        """
        if not self._starts.room(site, now):
            return  # of a hostile agent
        text = (
            f"site {site!r}: the journal of its agent ends with entry {_last_in(mark)}, and was read "
            f"up to entry {read} (a disk that was restored?): starts before this contact may be missing here"
        )
        self.enrolment.note_former_journal(site, mark, text)
        self._starts.note(site, now, 1)

    def _report_left_out(self, now: float) -> None:
        """Write the numbers of the events that were left out in the last hour."""
        for limit, what in (
            (self._starts, "starts that its agent reported"),
            (self._seconds, "other machines as its agent"),
        ):
            limit.report(now, partial(self._write_left_out, what, limit.most))

    def _write_left_out(self, what: str, most: int, site: str, number: int) -> None:
        text = f"site {site!r}: {number:,} {what} have no event (expected at most {most} an hour)"
        self._write(EventKind.IGNORED, text)

    def _write_second(self, found: SecondAgent) -> None:
        site, how = found.site, "a copied disk"
        text = f"machine {found.second} was refused as its agent, since the one on machine {found.first} is"
        if found.first == found.second:
            how = "a copied virtual machine or container"
            text = f"a second agent with the machine id {found.first!r} was refused, since the first one is"
        text = f"site {site!r}: {text} connected ({how}? speck sites revoke {site} makes its token invalid)"
        self._write(EventKind.SECOND_AGENT, text)

    def _write(self, kind: EventKind, message: str) -> None:
        event = Event(self.enrolment.clock(), kind, message, automatic=True)
        self.enrolment.store.add_events([event])

    # --- looking

    def of_site(self, site: str) -> dict[str, Any] | None:
        """The agent of a site as plain data; ``None`` for a site that is reached directly."""
        known = self.enrolment.inventory.sites.get(site)
        if known is None or not known.agent:
            return None
        present, record = self._present(site), self.enrolment.record(site)
        if present is None:
            hello = self._last.get(site)
            machine = hello.machine if hello is not None else record.machine
            version = hello.version if hello is not None else record.version
            since = self._away.get(site) if hello is not None else record.seen
        else:
            machine, version, since = present.hello.machine, present.hello.version, present.since
        return {
            "connected": present is not None,
            "since": since or None,
            "version": version,
            "machine": machine,
            "revoked": bool(record.revoked) and not record.sha256 and present is None,
            "restarts": record.restarts,
        }

    def all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The agents of all sites that have one, by the site's name."""
        for site in self._sites():
            found = self.of_site(site)
            if found is not None:
                yield site, found

    def second(self, site: str) -> SecondAgent | None:
        """The last machine that was refused as a second agent of a site."""
        return self._second.get(site)

    def epoch_refusal(self, site: str) -> EpochRefusal | None:
        """The refusal of this server by the site's agent, because of its epoch; ``None`` without one."""
        return None if self.connections is None else self.connections.epoch_refusals.get(site)

    def _present(self, site: str) -> Present | None:
        return None if self.connections is None else self.connections.presence(site)

    def _sites(self) -> list[str]:
        return [name for name, each in self.enrolment.inventory.sites.items() if each.agent]


def _last_in(mark: str) -> int:
    """The number of the last entry of a journal, by its mark."""
    return number_in(mark, mark)
