"""The live view: jobs, operations, events and sites as they change, read once for all followers.

Nothing is read while there is no follower.  A section that takes long to read is read less often, so that
following costs a bounded share of the time.  Sites are read by a thread of their own, since engines and
brokers are asked, and may be slow to answer.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flask import current_app

from speck.apply.operation import Operation, summary_data
from speck.coordinator import Queries, Services, SiteQueries
from speck.errors import SpeckError
from speck.loop import Loop
from speck.server.api.feed import Feed, event

MOST = 32  # followers at once
BEAT = 10.0  # s; a follower gets an event at least so often
CHECK = 1.0  # s; a token that is withdrawn, or gets another role, ends its stream so soon
EVENTS = 200  # last lines of the audit log
LINKED_SITES = 50  # of which all links are in the view; of more, the measured ones
OPERATIONS = 8  # last operations that have their actions in the view; the others are at /operations/ID
_SHARE = 10  # times the duration of a read, after which the section is read again
_FIRST = 10.0  # s, that the first follower waits for the first items

_log = logging.getLogger(__name__)

Items = Mapping[str, Mapping[str, Any]]  # by kind and name


@dataclass(frozen=True)
class LiveSection:
    """A section of the view, read every ``period`` s at most; ``read`` returns all items of some kinds."""

    name: str
    period: float
    read: Callable[[], Items]


class Watcher:
    """Reads its sections in a thread of its own and puts the items into a feed, until it is ended."""

    def __init__(self, feed: Feed, sections: Sequence[LiveSection]) -> None:
        self._feed, self._sections = feed, sections
        self._due = {section.name: 0.0 for section in sections}  # monotonic, s
        self.has_read = threading.Event()
        name = sections[0].name
        self.loop = Loop(f"live {name}", f"a read of the live {name}", self._read_due)

    def start(self) -> None:
        """Begin to read."""
        self.loop.start()

    def end(self) -> None:
        """Stop reading; the result of a read that has begun is dropped."""
        self.loop.close(0.0)

    def join(self) -> None:
        """Wait for a read that has begun."""
        self.loop.close()

    def _read_due(self) -> float:
        """Read the sections that are due; returns the time until the next one is, s."""
        for section in self._sections:
            began = time.monotonic()
            if began >= self._due[section.name]:
                self._read(section)
                ended = time.monotonic()
                self._due[section.name] = ended + max(section.period, _SHARE * (ended - began))
        self.has_read.set()
        return max(0.01, min(self._due.values()) - time.monotonic())

    def _read(self, section: LiveSection) -> None:
        try:
            items, trouble = section.read(), {}
        except SpeckError as error:
            items, trouble = {}, {section.name: str(error)}
        except Exception as error:  # a fault of one section must not end the updates of all watchers
            _log.exception("reading the live %s failed", section.name)
            items, trouble = {}, {section.name: f"internal error: {error!r}"}
        if self.loop.is_closed:
            return
        for kind, found in (*items.items(), (f"trouble-{section.name}", trouble)):
            self._feed.put(kind, found)


@dataclass
class Live:
    """Counts the followers, and runs the watchers for them.  ``most`` may follow at once."""

    services: Services
    most: int = MOST
    feed: Feed = field(default_factory=Feed, init=False)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8], init=False)
    _watchers: list[Watcher] = field(default_factory=list, init=False)
    _followers: int = field(default=0, init=False)
    _closed: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def enter(self) -> bool:
        """Count one more follower; False if there are too many."""
        with self._lock:
            if self._closed or self._followers >= self.most:
                return False
            if not self._watchers:
                self._watchers = [Watcher(self.feed, sections) for sections in _sections(self.services)]
            try:
                for each in self._watchers:  # which may have been without a thread at the last attempt
                    each.start()
            except RuntimeError:
                if not self._followers:
                    self._end_watchers()
                raise
            self._followers += 1
            return True

    def leave(self) -> None:
        """Count one follower less; with the last one the watchers end."""
        with self._lock:
            self._followers -= 1
            if not self._followers:
                self._end_watchers()

    def faults(self) -> list[str]:
        """The faults of the threads that read for the followers, one sentence each."""
        return [fault for each in self._watchers if (fault := each.loop.fault())]

    def close(self) -> None:
        """End all streams, and wait for reads that have begun."""
        with self._lock:
            self._closed = True
            watchers = self._end_watchers()
        self.feed.close()
        for each in watchers:
            each.join()

    def _end_watchers(self) -> list[Watcher]:
        watchers, self._watchers = self._watchers, []
        for each in watchers:
            each.end()
        return watchers

    def follow(self, last: str, holds: Callable[[], bool] = lambda: True) -> Iterator[str]:
        """The stream of one follower, for as long as ``holds`` is true.

        ``last`` is the id of the last event that it has, or anything.
        """
        watchers = self._watchers
        if watchers:
            watchers[0].has_read.wait(_FIRST)
        since = _version(last, self.mark)
        while not self._closed and holds():
            news = self.feed.news(since)
            since = news.version
            yield "".join(event(news, self.mark, self.services.queries.clock()))
            self._rest(since, holds)

    def _rest(self, since: int, holds: Callable[[], bool]) -> None:
        """Wait for news, for the next beat, or until the follower's token no longer holds."""
        until = time.monotonic() + BEAT
        while holds() and (remaining := until - time.monotonic()) > 0:
            if self.feed.wait(since, min(remaining, CHECK)):
                return


def live_view() -> Live:
    """The live view of the present application."""
    found: Live = current_app.extensions["live"]
    return found


def _version(last: str, mark: str) -> int:
    """The version that an event's id names; 0 when it is of another feed, or none."""
    known, _, number = last.partition("-")
    return int(number) if known == mark and number.isascii() and number.isdigit() and len(number) < 16 else 0


# --- the sections


def _sections(services: Services) -> tuple[Sequence[LiveSection], ...]:
    """The sections of each watcher."""
    queries = services.queries
    quick = (
        LiveSection("operations", 0.25, lambda: operations(queries.operations.recent())),
        LiveSection("jobs", 1.0, lambda: _jobs(queries)),
        LiveSection("compositions", 1.0, lambda: _compositions(queries)),
        LiveSection("events", 1.0, lambda: {"event": lines(queries.events(EVENTS))}),
        LiveSection("rates", 1.0, lambda: _rates(queries)),
        LiveSection("placement", 1.0, lambda: _placement(services)),
        LiveSection("workers", 2.0, lambda: _workers(services.sites)),
        LiveSection("links", 10.0, lambda: _links(services)),
    )
    return quick, (LiveSection("sites", 10.0, lambda: _reached(services.sites)),)


def _jobs(queries: Queries) -> Items:
    """Each job, and apart from it the time of its observation, which changes with each round."""
    jobs = queries.jobs()
    observed = {each["job_name"]: round(each.pop("observed_at"), 1) for each in jobs}
    return {"job": {each["job_name"]: each for each in jobs}, "observed": observed}


def _rates(queries: Queries) -> Items:
    return {"rate": {each["job_name"]: each for each in queries.rates()["jobs"]}}


def _placement(services: Services) -> Items:
    """The state of the loop that adapts placements, by composition, with its last decision."""
    return {"placement": {each["composition"]: each for each in services.adaptation.all()["compositions"]}}


def _workers(sites: SiteQueries) -> Items:
    """The engines whose workers come and go, without times that change with each look."""
    found = sites.workers()
    for each in found:
        del each["observed_at"]
        for worker in each["workers"]:
            del worker["free_for"]
    return {"worker": {each["engine"]: each for each in found}}


def _links(services: Services) -> Items:
    """The links as they are known, without having jobs sampled for that; of many sites the measured ones.

    There is a link for each two sites: a million of a thousand.
    """
    measures = services.profiles.measures
    few = len(services.queries.inventory.places()) <= LINKED_SITES
    links = measures.links() if few else measures.measured_links()
    return {"link": {f"{source} {target}": asdict(each) for (source, target), each in links.items()}}


def _compositions(queries: Queries) -> Items:
    sites = queries.inventory.places()
    return {
        "composition": {each["name"]: each for each in queries.compositions()},
        "site": {
            each.name: {
                "name": each.name,
                "engines": [engine.spe_address for engine in each.engines],
                "broker": each.broker_address,
                "uplink": asdict(each.uplink),
            }
            for each in sites
        },
    }


def _reached(sites: SiteQueries) -> Items:
    return {"reach": {each["name"]: each for each in sites.sites()}}


def operations(recent: Sequence[Operation]) -> Items:
    """The operations without their actions, and the actions of the last ones, without those of kept jobs."""
    found: dict[str, Any] = {}
    actions: dict[str, Any] = {}
    for each in recent[-OPERATIONS:]:
        data = each.to_dict()
        found[each.id] = summary_data(data)
        for action in data["actions"]:
            if action["state"] != "kept":
                actions[f"{each.id} {action['job']}"] = action
    return {"operation": found, "action": actions}


def lines(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Lines of the audit log by names that sort as they came: their times, and a number among equal ones."""
    seen = Counter[float]()
    named = {}
    for each in events:
        named[f"{each['at']:017.6f}-{seen[each['at']]:04}"] = each
        seen[each["at"]] += 1
    return named
