"""Hops: each passes the messages of a topic at one broker on to a topic at the same or another broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

# Where messages are sent, and counted; names that are valid at brokers of each kind.
SOURCE, SINK = "rivals-in", "rivals-out"


@dataclass(frozen=True)
class End:
    """A topic at a broker; ``broker`` is ``tcp://HOST:PORT``, or ``kafka://HOST:PORT``."""

    broker: str
    topic: str

    @property
    def host(self) -> str:
        """The host of the broker."""
        return urlsplit(self.broker).hostname or ""

    @property
    def port(self) -> int:
        """The port of the broker."""
        return urlsplit(self.broker).port or 1883


@dataclass(frozen=True)
class Hop:
    """A topic that is read, and the topic to which its messages are written."""

    source: End
    sink: End


def side_by_side(broker: str, number: int) -> Sequence[Hop]:
    """Hops at one broker with topics of their own; the first is from :data:`SOURCE` to :data:`SINK`."""
    suffixes = ["", *(f"-{each}" for each in range(1, number))]
    return [Hop(End(broker, SOURCE + each), End(broker, SINK + each)) for each in suffixes]


def through(first: str, between: str) -> Sequence[Hop]:
    """Two hops in a chain: from a broker to another, and back."""
    middle = End(between, "rivals-mid")
    return [Hop(End(first, SOURCE), middle), Hop(middle, End(first, SINK))]


def ends(hops: Sequence[Hop]) -> list[End]:
    """The ends of all hops, each once, in order."""
    return list(dict.fromkeys(end for hop in hops for end in (hop.source, hop.sink)))


def brokers(hops: Sequence[Hop]) -> list[str]:
    """The addresses of all brokers of the hops, each once, in order."""
    return list(dict.fromkeys(end.broker for end in ends(hops)))
