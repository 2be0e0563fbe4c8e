"""Messages lost, given up, set aside or dropped as duplicates: counted for each job, by reason.

Readers and writers count them and their engines report the counts with the other metrics; the apply reports
messages that are deleted with a session.  A :class:`LossRecorder` adds up the differences of two reports, so
that a counter which begins anew with a restarted reader loses nothing, and writes an event at the first
difference of a job and reason, and then once in :data:`EVENT_PERIOD` at most.

Nothing of it is stored but the events: a new coordinator counts the present readers from their start again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, TypeVar

from speck.core.clocks import Clock, steady_beside
from speck.core.job import Scalar
from speck.core.lifecycle import EventKind
from speck.core.waiting import MOST_COUNTED
from speck.store import Event

EVENT_PERIOD = 60.0  # s between two events of one job and reason
RECENT = 86_400.0  # s, for which a loss marks its job
MOST_JOBS = 2000  # of which the counts are kept beside those of all that run: the latest ones
MOST_BROKERS = 2000  # the same of brokers
MOST_COPIES = 4  # of a job, of which the last counts are kept


class LossKind(StrEnum):
    """The meaning of a count, the gravest first."""

    LOST = "lost"  # a message that is never processed
    SUSPECT = "suspect"  # a message that may be lost, or may be processed twice
    ASIDE = "set aside"  # parked in another topic
    NOTED = "noted"  # delivered, and odd
    REPEATED = "repeated"  # dropped, since it had arrived before: no harm


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which messages are counted; ``text`` follows their number and ``unit`` in an event."""

    name: str
    kind: LossKind
    text: str
    unit: str = "message"

    @property
    def alarms(self) -> bool:
        """True if the job needs attention."""
        return self.kind not in (LossKind.NOTED, LossKind.REPEATED)


_REASONS = (
    Reason("session lost", LossKind.LOST, "lost with a session that the broker no longer has"),
    Reason("redelivery", LossKind.LOST, "discarded: the broker did not deliver them again"),
    Reason("batch", LossKind.LOST, "discarded with a batch that was not committed"),
    Reason("retention", LossKind.LOST, "deleted by the broker before the job read them"),
    Reason("reader", LossKind.LOST, "lost by the reader"),
    Reason("session deleted", LossKind.LOST, "discarded with a deleted session"),
    Reason("skipped", LossKind.LOST, "skipped, since the job's code failed on them (on_error: skip)"),
    Reason(
        "skipped result",
        LossKind.LOST,
        "skipped, since the sink's broker does not accept them (on_error: skip)",
        "result",
    ),
    Reason("late", LossKind.LOST, "dropped, since their windows were closed", "row"),
    Reason("bad row", LossKind.LOST, "dropped: no key, or no valid time", "row"),
    Reason("lost frame", LossKind.LOST, "lost between the parts of a split, with the rows in them", "frame"),
    Reason("damaged frame", LossKind.LOST, "dropped as damaged, with the rows in them", "frame"),
    Reason("outdated frame", LossKind.LOST, "dropped: from before the split restarted", "frame"),
    Reason(
        "late partial", LossKind.LOST, "dropped, since their windows were already closed", "partial result"
    ),
    Reason(
        "session",
        LossKind.SUSPECT,
        "lost sessions or topics: unread messages are lost unless their writers send them again",
        "",
    ),
    Reason(
        "qos 0",
        LossKind.SUSPECT,
        "replacements of a reader whose messages come at QoS 0: those that it had not committed, and those "
        "of the time between both readers, are lost (docs/mqtt.md, Messages at QoS 0)",
        "",
    ),
    Reason("collision", LossKind.SUSPECT, "delivered although their stamp was seen with another content"),
    Reason(
        "unsafe",
        LossKind.SUSPECT,
        "dropped early by the sink that retained them: lost only if the broker loses what it has not saved",
    ),
    Reason("stamp", LossKind.NOTED, "delivered with a stamp that was ignored"),
    Reason("parked", LossKind.ASIDE, "parked, since the job's code failed on them (on_error: park)"),
    Reason(
        "parked result",
        LossKind.ASIDE,
        "parked, since the sink's broker does not accept them (on_error: park)",
        "result",
    ),
    Reason("repetition", LossKind.REPEATED, "dropped as duplicates"),
    Reason("changed", LossKind.REPEATED, "dropped as duplicates with different content"),
)
REASONS: Mapping[str, Reason] = {each.name: each for each in _REASONS}

# The reason of each counter of the connectors.  The first ones are parts of ``lostMessages``.
_PARTS = {
    "lostSession": "session lost",
    "redeliveryGivenUp": "redelivery",
    "batchGivenUp": "batch",
    "retentionGivenUp": "retention",
}
_COUNTERS: Mapping[str, str] = {
    **_PARTS,
    "lostMessages": "reader",
    "lostSessions": "session",
    "collisions": "collision",
    "retainedDropped": "unsafe",
    "badStamps": "stamp",
    "skipped": "skipped",
    "parked": "parked",
    "skippedResults": "skipped result",
    "parkedResults": "parked result",
    "duplicatesDropped": "repetition",
    "changedRepetitions": "changed",
}
COUNTERS = tuple(_COUNTERS)

RECEIVED_QOS0 = "receivedQos0"  # of readers: messages without an acknowledgement; not a loss in itself

_EVENTS = {
    LossKind.LOST: EventKind.LOST,
    LossKind.SUSPECT: EventKind.SUSPECT,
    LossKind.ASIDE: EventKind.ASIDE,
    LossKind.NOTED: EventKind.NOTED,
    LossKind.REPEATED: EventKind.REPEATED,
}


def counts_of(details: Mapping[str, Scalar]) -> dict[str, int]:
    """The counts in a job's metrics by reason; a counter that is absent has no reason here."""
    found = {
        reason: int(value)
        for name, reason in _COUNTERS.items()
        if isinstance(value := details.get(name), int | float) and 0 <= value < inf
    }
    if "reader" in found:
        found["reader"] = max(0, found["reader"] - sum(found.get(part, 0) for part in _PARTS.values()))
    return found


def receives_qos0(details: Mapping[str, Scalar]) -> bool:
    """True if a job has received messages at QoS 0, according to its metrics."""
    count = details.get(RECEIVED_QOS0)
    return isinstance(count, int | float) and count > 0


@dataclass(slots=True)
class _Count:
    """The messages of one job and reason: since when and until when (Unix time, s), and not yet reported.

    ``seen`` and ``reported_at`` are times of the steady clock.  ``uncounted`` are abandoned sessions, whose
    messages are counted once their broker is back; ``incomplete``: others were never counted, or not all.
    """

    counted: int = 0
    uncounted: set[str] = field(default_factory=set)
    incomplete: bool = False
    first: float = 0.0
    last: float = 0.0
    unreported: int = 0
    seen: float = float("-inf")
    reported_at: float = float("-inf")

    @property
    def at_least(self) -> bool:
        """True if there may be more than ``total``."""
        return self.incomplete or bool(self.uncounted)

    @property
    def total(self) -> int:
        """The number of messages; 1 while none is counted, so that the job is marked."""
        return self.counted or int(self.at_least)


@dataclass(slots=True)
class _JobLosses:
    composition: str = ""
    copy: str = ""  # the newest one, by the engine's id of it
    # The last counts of the newest copies: the answer of a slow engine comes when the next copy has reported.
    last: dict[str, dict[str, int]] = field(default_factory=dict)
    unacknowledged: bool = False  # the newest copy has received messages at QoS 0
    counts: dict[str, _Count] = field(default_factory=dict)


@dataclass(slots=True)
class _BrokerDrops:
    last: int = 0  # the broker's last report
    count: _Count = field(default_factory=_Count)


@dataclass(frozen=True, slots=True)
class LossCount:
    """The messages of one job and reason since this coordinator began; ``at_least``: there may be more."""

    composition: str
    job: str
    reason: Reason
    total: int
    first: float
    last: float
    at_least: bool = False

    @property
    def number(self) -> str:
        """The number in words."""
        return f"{'at least ' * self.at_least}{self.total}"


@dataclass
class LossRecorder:
    """Adds up the losses of all jobs; safe to use from several threads.

    ``clock`` gives Unix time, s; ``write`` puts events into the audit log.
    """

    clock: Callable[[], float]
    write: Callable[[list[Event]], None]
    steady: Clock = field(init=False)
    _running: int = field(default=0, init=False)  # jobs
    _brokers: int = field(default=0, init=False)  # that these use
    _jobs: OrderedDict[str, _JobLosses] = field(default_factory=OrderedDict, init=False)
    _dropped: OrderedDict[str, _BrokerDrops] = field(default_factory=OrderedDict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _reporting: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)

    def make_room(self, jobs: int, brokers: int) -> None:
        """Keep the counts of this number of jobs that run, and of brokers that they use, beside others.

        One whose counts were dropped would count all of its messages again with its next report.
        """
        with self._lock:
            self._running, self._brokers = jobs, brokers

    def record_sample(self, composition: str, job: str, copy: str, details: Mapping[str, Scalar]) -> None:
        """Add what a copy of a job has counted since its last report; ``copy`` is its engine's id of it."""
        counts = counts_of(details)
        with self._lock:
            known = self._known(composition, job)
            is_new, before = copy not in known.last, known.last.get(copy, {})
            gap = is_new and known.unacknowledged
            self._add(known, "qos 0", int(gap))
            known.unacknowledged &= not gap
            known.copy = copy if is_new else known.copy
            known.unacknowledged |= copy == known.copy and receives_qos0(details)
            known.last[copy] = {reason: count for reason, count in (before | counts).items() if count}
            if len(known.last) > MOST_COPIES:
                del known.last[next(iter(known.last))]
            grown = {reason: _growth(before.get(reason, 0), count) for reason, count in counts.items()}
            for reason, number in grown.items():
                self._add(known, reason, number)
        if gap or any(grown.values()):  # a report reads the counts of all jobs
            self.report()

    def add(self, composition: str, job: str, reason: str, number: int) -> None:
        """Add what a part of a split has reported beyond its last report; :meth:`report` writes the event."""
        with self._lock:
            self._add(self._known(composition, job), reason, number)

    def note_event(self, event: Event) -> None:
        """Count the messages that the apply or the reaper gave up; the event itself is in the log already."""
        if not event.job or (event.kind != EventKind.DROPPED and not event.session):
            return
        with self._lock:
            known = self._jobs.get(event.job)
            if event.kind == EventKind.DROPPED:
                known = self._known(event.composition, event.job)
            if known is not None:
                self._add_deleted(known, event)

    def record_dropped(self, broker: str, total: int) -> None:
        """Add the messages that a broker has dropped since its start, as a session was full.

        A broker does not report the session, and so not the job.
        """
        with self._lock:
            known = _touched(self._dropped, broker, _BrokerDrops, self._brokers + MOST_BROKERS)
            self._count(known.count, _growth(known.last, total))
            known.last = total
        self.report()

    def dropped(self) -> dict[str, int]:
        """The messages that each broker has dropped as far as it has reported them, by address."""
        with self._lock:
            return {broker: known.count.total for broker, known in self._dropped.items()}

    def _known(self, composition: str, job: str) -> _JobLosses:
        known = _touched(self._jobs, job, _JobLosses, self._running + MOST_JOBS)
        known.composition = composition
        return known

    def _add(self, known: _JobLosses, reason: str, number: int, *, reported: bool = False) -> None:
        if number > 0:
            self._count(known.counts.setdefault(reason, _Count()), number, reported=reported)

    def _add_deleted(self, known: _JobLosses, event: Event) -> None:
        """Add the messages of a deleted session; one event says that an abandoned one has an unknown number.

        The reaper counts these once their broker is back, or finds that there were none, as far as it can.
        Those of a session that a user forgets instead stay unknown.
        """
        count = known.counts.setdefault("session deleted", _Count())
        was_uncounted = event.session in count.uncounted
        count.uncounted.discard(event.session)
        if event.kind == EventKind.DROPPED and not event.messages:
            count.uncounted |= {event.session} - {""}
            count.incomplete |= not event.session
            self._touch(count)
        count.incomplete |= event.messages == MOST_COUNTED
        count.incomplete |= event.at_least and (was_uncounted or event.messages > 0)
        count.incomplete |= event.kind == EventKind.FORGOTTEN and was_uncounted
        self._count(count, event.messages, reported=True)
        if not count.total:
            del known.counts["session deleted"]

    def _count(self, count: _Count, number: int, *, reported: bool = False) -> None:
        """Add to a count; ``reported``: by an event of its own."""
        if number > 0:
            self._touch(count)
            count.counted += number
            count.unreported += 0 if reported else number

    def _touch(self, count: _Count) -> None:
        now, count.seen = self.clock(), self.steady()
        count.first, count.last = count.first or now, now

    def report(self) -> None:
        """Write the events that are due; those that the store does not take are due again."""
        with self._reporting:
            with self._lock:
                due = list(self._due())
            if not due:
                return
            self.write([event for _, _, event in due])
            with self._lock:
                now = self.steady()
                for count, number, _ in due:
                    count.unreported, count.reported_at = count.unreported - number, now

    def _due(self) -> Iterator[tuple[_Count, int, Event]]:
        now, oldest = self.clock(), self.steady() - EVENT_PERIOD
        for job, known in self._jobs.items():
            for name, count in known.counts.items():
                if count.unreported and count.reported_at <= oldest:
                    event = _event(now, job, known.composition, REASONS[name], count)
                    yield count, count.unreported, event
        for broker, drops in self._dropped.items():
            count = drops.count
            if count.unreported and count.reported_at <= oldest:
                message = f"broker {broker}: {count.unreported} messages dropped, since a session was full"
                yield count, count.unreported, Event(now, EventKind.LOST, message, automatic=True)

    # --- queries

    def counts(self) -> list[LossCount]:
        """All counts, by job and reason."""
        with self._lock:
            return [
                LossCount(
                    known.composition, job, REASONS[name], each.total, each.first, each.last, each.at_least
                )
                for job, known in sorted(self._jobs.items())
                for name, each in sorted(known.counts.items())
            ]

    def of_job(self, job: str) -> list[dict[str, Any]]:
        """The counts of one job as plain data, the gravest first; ``alarm`` marks those to look at now."""
        with self._lock:
            known = self._jobs.get(job)
            counts = [(REASONS[name], each) for name, each in known.counts.items()] if known else []
            recent = self.steady() - RECENT
        return [
            {
                "kind": reason.kind.value,
                "reason": reason.name,
                "unit": reason.unit,
                "text": reason.text,
                "count": count.total,
                "at_least": count.at_least,
                "first": count.first,
                "last": count.last,
                "alarm": reason.alarms and count.seen >= recent,
            }
            for reason, count in sorted(counts, key=lambda each: list(LossKind).index(each[0].kind))
        ]


_Known = TypeVar("_Known")


def _touched(known: OrderedDict[str, _Known], name: str, new: Callable[[], _Known], most: int) -> _Known:
    """The entry of a name, made if there is none, which becomes the latest; the oldest are dropped."""
    found = known.get(name)
    if found is None:
        found = known[name] = new()
    known.move_to_end(name)
    if len(known) > most:
        known.popitem(last=False)
    return found


def _growth(before: int, after: int) -> int:
    """The growth of a counter; one that has decreased was reset."""
    return after - before if after >= before else after


def _event(now: float, job: str, composition: str, reason: Reason, count: _Count) -> Event:
    so_far = f" ({count.total} so far)" if count.total > count.unreported else ""
    unit = f"{reason.unit}{'s' * (count.unreported != 1)} " if reason.unit else ""
    message = f"job {job!r}: {count.unreported} {unit}{reason.text}{so_far}"
    return Event(now, _EVENTS[reason.kind], message, composition, job, automatic=True)
