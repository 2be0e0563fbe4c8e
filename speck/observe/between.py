"""Faults that no broker has alone: bridges, two names of one broker, and limits that differ along an edge.

A bridge that passes on every topic carries SpecK's retained records to another broker, which takes them for
its own.  A probe is a message to a topic of SpecK's that is used once; it is not retained.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from speck.binder import BrokerBinder, Feed
from speck.binder.asking import ask
from speck.core.runtime import Complaint
from speck.errors import BinderError
from speck.store.deployments import Snapshot

PATIENCE = 1.0  # s, in which a bridge passes a message on; over a link that is slower it is not found
_LONGEST = 3.0  # s, for a broker to take a subscription or a probe, and to send its own probe back
_POLL = 0.02
_TOPIC = "speck/probe"

BRIDGE_REMEDY = "let the bridge carry only the topics that it is for, not '#' (see docs/mqtt.md, Bridges)"


@dataclass(frozen=True, slots=True)
class Edge:
    """A job that reads at one broker and writes at another, by their addresses."""

    job: str
    source: str
    sink: str


def edges_of(snapshots: Iterable[Snapshot]) -> list[Edge]:
    """The edges of all jobs of these compositions, by job name."""
    forms = {name: form for snapshot in snapshots for name, form in snapshot.forms.items()}
    return [Edge(name, form.source_broker, form.sink_broker) for name, form in sorted(forms.items())]


def bridge_complaints(brokers: Mapping[str, BrokerBinder]) -> dict[str, list[Complaint]]:
    """The complaints about bridges and double names, by the address of the broker that got the message.

    ``brokers`` are those that answer, by address.
    """
    if len(brokers) < 2:
        return {}
    found: dict[str, list[Complaint]] = defaultdict(list)
    for source, target in _passed_on(brokers):
        if _is_same(brokers[source], brokers[target]):
            if source < target:
                found[target].append(_same(source, target))
        else:
            message = (
                f"a bridge passes SpecK's topics on to it from {source}, and with them records that are "
                "valid there only: jobs lose messages"
            )
            found[target].append(Complaint(message, BRIDGE_REMEDY))
    return dict(found)


def _same(source: str, target: str) -> Complaint:
    return Complaint(
        f"it is the broker {source} under another name: SpecK does not see that jobs which use both share "
        "topics",
        f"name it {source} in all entries (job_broker_address is for a name that only jobs use)",
    )


def _passed_on(brokers: Mapping[str, BrokerBinder]) -> list[tuple[str, str]]:
    """The pairs of brokers of which the second gets what is published at the first."""
    run, names = uuid.uuid4().hex, sorted(brokers)
    own = {name: str(number) for number, name in enumerate(names)}
    with _Feeds() as feeds:
        # Of a broker that fails or is silent, its own check has the reason.
        found = ask(
            names, lambda name: feeds.open(brokers[name], f"{_TOPIC}/{run}/+"), _LONGEST, name="bridges"
        ).answers
        ask(
            names,
            lambda name: brokers[name].send_probe(f"{_TOPIC}/{run}/{own[name]}"),
            _LONGEST,
            name="bridges",
        )
        arrived = _collect(found, own)
    return [(names[int(number)], name) for name, numbers in arrived.items() for number in sorted(numbers)]


class _Feeds:
    """Feeds that are open until the block ends; one that is opened later is closed at once."""

    def __init__(self) -> None:
        self._open: list[Feed] | None = []
        self._lock = threading.Lock()  # a broker that was silent may answer while the block ends

    def open(self, broker: BrokerBinder, topic: str) -> Feed:
        feed = broker.subscribe([topic])
        with self._lock:
            if self._open is not None:
                self._open.append(feed)
                return feed
        feed.close()
        return feed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            feeds, self._open = self._open or [], None
        for feed in feeds:
            feed.close()


def _collect(feeds: Mapping[str, Feed], own: Mapping[str, str]) -> dict[str, set[str]]:
    """The numbers of the foreign probes that arrive at each broker; other messages there are ignored."""
    numbers_of_all = set(own.values())
    arrived: dict[str, set[str]] = {name: set() for name in feeds}
    begun = time.monotonic()
    complete = 0.0  # when all brokers had sent their own probes back
    while time.monotonic() < begun + _LONGEST and (not complete or time.monotonic() < complete + PATIENCE):
        for name, feed in feeds.items():
            with suppress(BinderError):
                arrived[name] |= numbers_of_all & {topic.rpartition("/")[2] for topic, _ in feed.receive()}
        if not complete and all(own[name] in numbers for name, numbers in arrived.items()):
            complete = time.monotonic()
        time.sleep(_POLL)
    return {name: numbers - {own[name]} for name, numbers in arrived.items()}


def _is_same(one: BrokerBinder, other: BrokerBinder) -> bool:
    """True if both are one broker: a client that one of them knows is known to the other."""
    client = f"speck-probe-{uuid.uuid4().hex}"
    with suppress(BinderError):
        one.leave_client(client)
        return other.forget_client(client)
    return False


def packet_complaints(edges: Iterable[Edge], limits: Mapping[str, int]) -> dict[str, list[Complaint]]:
    """The complaints about brokers that accept less than the brokers whose messages jobs write to them.

    ``limits`` are the largest packets that the brokers accept, in bytes; one without a limit is absent.
    """
    found: dict[str, list[Complaint]] = defaultdict(list)
    jobs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for edge in edges:
        jobs[edge.source, edge.sink].append(edge.job)
    for (source, sink), names in sorted(jobs.items()):
        accepted, arrives = limits.get(sink), limits.get(source)
        if accepted is not None and (arrives is None or arrives > accepted):
            found[sink].append(_narrower(source, arrives, accepted, names))
    return dict(found)


def _narrower(source: str, arrives: int | None, accepted: int, names: Sequence[str]) -> Complaint:
    of_source = "any size" if arrives is None else f"up to {arrives} bytes"
    return Complaint(
        f"it accepts packets of up to {accepted} bytes, and {source}, from which {_listed(names)} its "
        f"messages, accepts {of_source}: a larger message can arrive that cannot be passed on",
        "give both brokers the same limit (Mosquitto: max_packet_size), or set on_error of the jobs",
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{'jobs' if len(names) > 1 else 'job'} {shown} {'take' if len(names) > 1 else 'takes'}"
