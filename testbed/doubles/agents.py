"""The connections of agents, which a test makes and breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from speck.errors import OutcomeUnknown, Rejected
from speck.link.hello import EpochRefusal, Hello
from speck.link.journal import JournalEntry, mark_of


@dataclass
class Present:
    """An agent that is connected ``since`` (Unix time, s)."""

    hello: Hello
    since: float


@dataclass
class Wires:
    """See :class:`speck.coordinator.agents.presence.Connections`; ``checks`` counts the rechecks.

    ``answers`` are the agents' answers to calls, by site and method; one that has none is an earlier version.
    """

    there: dict[str, Present] = field(default_factory=dict)
    checks: int = 0
    journals: dict[str, list[JournalEntry]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    epoch_refusals: dict[str, EpochRefusal] = field(default_factory=dict)
    answers: dict[tuple[str, str], Callable[[dict[str, Any]], Any]] = field(default_factory=dict)

    def presence(self, site: str) -> Present | None:
        """The agent of a site that is connected now."""
        return self.there.get(site)

    def journal(self, site: str) -> str:
        """The mark of the journal of a site."""
        found = self.journals.get(site)
        return mark_of("j", found[-1].number) if found else ""

    def read_journal(self, site: str, after: int, seconds: float) -> list[JournalEntry]:
        """The entries after this one, unless the site is ``silent``."""
        if site in self.silent:
            raise OutcomeUnknown(f"the agent of site {site!r} has not answered")
        return [each for each in self.journals[site] if each.number > after]

    def recheck(self) -> None:
        """Count the request."""
        self.checks += 1

    def call(self, site: str, call: dict[str, Any], seconds: float, address: str) -> Any:
        """The answer of the agent of a site."""
        found = self.answers.get((site, call["m"]))
        if found is None:
            raise Rejected(f"None is neither an engine nor the broker of site {site!r}")
        return found(call["a"])

    def connect(self, site: str, now: float, machine: str = "m1", version: str = "7") -> None:
        """Have the agent of a site connected."""
        hello = Hello(protocol=1, version=version, site=site, engines=(), broker="tcp://b:1", machine=machine)
        self.there[site] = Present(hello, now)
