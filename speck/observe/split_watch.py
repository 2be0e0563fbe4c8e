"""Watches the splits that are deployed: reads the reports of their parts, and answers with measured work.

One thread reads at all brokers where parts of splits write, without a session: reports that come while it is
away are gone, and no job waits for it.  Each metrics slide a partitioner that takes measured work is sent
that of its combiners; without this, its last table stays.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speck.binder import Capability, Feed
from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.split import SPLIT_TOPICS, Part, Role, part_of, split_topic
from speck.core.split.metrics import Work, WorkWindow
from speck.errors import SpeckError
from speck.loop import Loop
from speck.observe.losses import LossRecorder
from speck.observe.splits import SplitMeter
from speck.store import Event
from speck.store.deployments import Deployments, Snapshot

_log = logging.getLogger(__name__)

PERIOD = 0.25  # s between two rounds
IDLE_PERIOD = 30.0  # s between two readings of the store while nothing has changed
SOON = 2.0  # s between two readings of the store, at least
LEAST_PAUSE, MOST_PAUSE = 5.0, 60.0  # s until a broker that is away is tried again


@dataclass(frozen=True, slots=True)
class WatchedSplit:
    """A deployed split: its routing part, the brokers of its reports, and the partitioner's session."""

    composition: str
    part: Part
    brokers: frozenset[str]
    control: tuple[str, str] | None = None
    """Broker and session of the partitioner, where it runs."""


@dataclass
class _Subscription:
    """A broker: the subscription there, and when to try again (monotonic time, s) while there is none."""

    topics: tuple[str, ...] = ()
    feed: Feed | None = None
    retry_at: float = 0.0
    pause: float = LEAST_PAUSE

    def close(self) -> None:
        if self.feed is not None:
            self.feed.close()
            self.feed = None


@dataclass
class SplitWatch:
    """Reads the reports of splits, and sends them the measured work.

    ``clock`` gives Unix time, ``now`` monotonic time, s.
    """

    deployments: Deployments
    pool: BinderPool
    losses: LossRecorder
    clock: Callable[[], float] = time.time
    now: Callable[[], float] = time.monotonic
    _splits: dict[str, WatchedSplit] = field(default_factory=dict, init=False)
    _meters: dict[str, SplitMeter] = field(default_factory=dict, init=False)
    _subscriptions: dict[str, _Subscription] = field(default_factory=dict, init=False)
    _refreshed_at: float = field(default=float("-inf"), init=False)
    _changed_at: float | None = field(default=None, init=False)  # the first change that was not read yet
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = Loop("split watch", "a round of the split watch", self._timed_round)

    # --- queries

    def meters(self) -> dict[str, dict[str, Any]]:
        """The last window of each split as plain data, by name."""
        with self._lock:
            return {name: meter.data(self.clock()) for name, meter in self._meters.items()}

    def parts(self, name: str) -> dict[str, dict[str, Any]]:
        """The work of the parts of a split in the last window, by the last level of their reports' topics."""
        with self._lock:
            meter = self._meters.get(name)
            return {} if meter is None else {each: meter.part_data(each) for each in meter.totals}

    def windows(self, name: str, after: float = 0.0) -> list[dict[str, Any]]:
        """The windows of a split that ended later than ``after`` (Unix time, s), the oldest first.

        None for a split that is not watched, or not yet.
        """
        with self._lock:
            meter = self._meters.get(name)
            return [] if meter is None else [each.data() for each in meter.windows if each.end > after]

    def totals(self) -> dict[str, tuple[Mapping[str, Work], Mapping[str, int]]]:
        """By split: work by part and faults by name, since this coordinator began to watch it."""
        with self._lock:
            return {name: (dict(each.totals), dict(each.faults)) for name, each in self._meters.items()}

    # --- the thread

    def note_event(self, event: Event) -> None:
        """Read the store soon: something was changed, or is about to be."""
        if event.job and self._changed_at is None:
            self._changed_at = self.now()
            self.loop.wake()

    def start(self) -> None:
        """Begin to watch."""
        self.loop.start()

    def close(self) -> None:
        """Stop the thread, and disconnect."""
        self.loop.close()
        for subscription in self._subscriptions.values():
            subscription.close()

    def _timed_round(self) -> float:
        self.round()
        if self._splits:
            return PERIOD
        return IDLE_PERIOD if self._changed_at is None else SOON

    def round(self) -> None:
        """Read the store if it is due, then what has arrived, and send the windows that have ended."""
        if self._is_due():
            self.refresh()
        self._connect()
        for address, subscription in self._subscriptions.items():
            self._read(address, subscription)
        for name in list(self._meters):
            with self._lock:
                window = self._meters[name].advance(self.clock())
            if window is not None:
                self._send(self._splits[name], window)

    # --- the splits

    def _is_due(self) -> bool:
        now, changed = self.now(), self._changed_at
        if now - self._refreshed_at >= IDLE_PERIOD:
            return True
        # A change comes with many events, and the first ones before it is stored.
        return changed is not None and now - max(changed, self._refreshed_at) >= SOON

    def refresh(self) -> None:
        """Read from the store which splits are deployed, and where."""
        self._refreshed_at = self.now()
        self._changed_at = None
        found = {
            each.part.of: each for snapshot in self.deployments.snapshots() for each in _splits(snapshot)
        }
        with self._lock:
            self._splits = found
            for name in self._meters.keys() - found.keys():
                del self._meters[name]
            for name, each in found.items():
                if name in self._meters:
                    self._meters[name].change(each.part)
                else:
                    self._meters[name] = SplitMeter(each.part, self.clock())
        self._update_subscriptions()

    def _update_subscriptions(self) -> None:
        """Update the subscription at each broker to the topics that are read there."""
        topics: dict[str, list[str]] = defaultdict(list)
        for name, each in sorted(self._splits.items()):
            for broker in each.brokers:
                topics[broker].append(split_topic(name, "report/+"))
        for address in self._subscriptions.keys() - topics.keys():
            self._subscriptions.pop(address).close()
        for address, filters in topics.items():
            subscription = self._subscriptions.setdefault(address, _Subscription())
            if subscription.topics != tuple(filters):
                subscription.close()
                subscription.topics, subscription.retry_at = tuple(filters), 0.0

    # --- the brokers

    def _connect(self) -> None:
        """Connect to one broker that is due: one that does not answer takes some seconds."""
        now = self.now()
        due = [
            each for each in self._subscriptions.items() if each[1].feed is None and each[1].retry_at <= now
        ]
        if not due:
            return
        address, subscription = min(due, key=lambda each: each[1].retry_at)
        try:
            broker = self.pool.broker(address)
            if Capability.REPORTS not in broker.capabilities:
                subscription.retry_at = float("inf")
                return
            subscription.feed, subscription.pause = broker.subscribe(subscription.topics), LEAST_PAUSE
        except SpeckError as error:
            self._disconnect(address, subscription, error)

    def _disconnect(self, address: str, subscription: _Subscription, error: SpeckError) -> None:
        _log.info("reports of splits at %s are not read: %s", address, error)
        subscription.close()
        subscription.retry_at, subscription.pause = (
            self.now() + subscription.pause,
            min(2 * subscription.pause, MOST_PAUSE),
        )

    def _read(self, address: str, subscription: _Subscription) -> None:
        if subscription.feed is None:
            return
        try:
            messages = subscription.feed.receive()
        except SpeckError as error:
            self._disconnect(address, subscription, error)
            return
        found = [self._record_report(topic, payload) for topic, payload in messages]
        if any(found):
            self.losses.report()

    def _record_report(self, topic: str, payload: bytes) -> bool:
        """Count a report; true if there are losses in it."""
        name = topic.removeprefix(SPLIT_TOPICS).rpartition("/report/")[0]
        with self._lock:
            meter = self._meters.get(name)
            losses = [] if meter is None else meter.add_report(topic, payload, self.clock())
        for loss in losses:
            self.losses.add(self._splits[name].composition, loss.job, loss.reason, loss.number)
        return bool(losses)

    def _send(self, split: WatchedSplit, window: WorkWindow) -> None:
        """Send a window to a partitioner that takes it, unless no combiner reported."""
        if not split.part.metered or split.control is None or not any(window.workers):
            return
        address, session = split.control
        try:
            broker = self.pool.broker(address)
            if Capability.REPORTS in broker.capabilities:
                broker.send_control(session, window.control(), window.seconds)
        except SpeckError as error:
            _log.info("split %r was not sent its measured work: %s", split.part.of, error)


def _splits(snapshot: Snapshot) -> Iterable[WatchedSplit]:
    """The splits of a composition whose routing part is known."""
    found: dict[str, list[tuple[Part, Job]]] = defaultdict(list)
    for job in snapshot.forms.values():
        if (part := part_of(job)) is not None:
            found[part.of].append((part, job))
    for members in found.values():
        routing = [each for each in members if each[0].role in (Role.PARTITIONER, Role.WHOLE)]
        if not routing:
            continue
        part, job = routing[0]
        attempt = snapshot.attempt(job.job_name)
        control = None if attempt is None else (job.source_broker, attempt.attempt.session)
        brokers = frozenset(each.sink_broker for _, each in members)
        yield WatchedSplit(snapshot.head.name, part, brokers, control)
