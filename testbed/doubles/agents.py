"""The connections of agents, which a test makes and breaks."""

from __future__ import annotations

from dataclasses import dataclass, field

from speck.link.hello import Hello


@dataclass
class Present:
    """An agent that is connected ``since`` (Unix time, s)."""

    hello: Hello
    since: float


@dataclass
class Wires:
    """See :class:`speck.coordinator.agents.presence.Connections`; ``checks`` counts the rechecks."""

    there: dict[str, Present] = field(default_factory=dict)
    checks: int = 0

    def presence(self, site: str) -> Present | None:
        """The agent of a site that is connected now."""
        return self.there.get(site)

    def recheck(self) -> None:
        """Count the request."""
        self.checks += 1

    def connect(self, site: str, now: float, machine: str = "m1", version: str = "7") -> None:
        """Have the agent of a site connected."""
        hello = Hello(protocol=1, version=version, site=site, engines=(), broker="tcp://b:1", machine=machine)
        self.there[site] = Present(hello, now)
