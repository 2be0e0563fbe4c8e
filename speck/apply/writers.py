"""The jobs whose stamps the readers of an operation believe.

A connector drops a message whose stamp it has seen.  Anybody who may publish at a broker can forge stamps, so
each session names the jobs that write what it collects, and its reader believes only those.  A job is named
before it starts to write, and as long as it may: the lists hold the writers of the desired forms, of those
that run, and of all that was abandoned.  At its end an operation names what is left.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from speck.apply.context import OperationContext
from speck.binder.retry import with_retries
from speck.core.graph import Endpoint, sinks_of
from speck.core.job import Job
from speck.core.topic import is_filter, matches
from speck.errors import BinderError, NotFound, Rejected
from speck.store import SessionRecord, Store

_log = logging.getLogger(__name__)

_Lists = Mapping[SessionRecord, Collection[str]]


@dataclass(frozen=True)
class Topics:
    """The written topics, by broker, with the names of the jobs that write each."""

    by_broker: Mapping[str, Mapping[str, Collection[str]]]
    everywhere: frozenset[str]

    @classmethod
    def of(cls, forms: Iterable[Job], everywhere: Iterable[str] = ()) -> Topics:
        """The topics that these forms of jobs write; ``everywhere`` are jobs of unknown form."""
        found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for form in forms:
            for sink in sinks_of(form):
                found[sink.broker][sink.topic].add(form.job_name)
        return cls(found, frozenset(everywhere))

    def writers(self, session: SessionRecord) -> frozenset[str]:
        """The jobs that may write what a session collects."""
        topics = self.by_broker.get(session.broker, {})
        if not is_filter(session.topic):
            return self.everywhere.union(topics.get(session.topic, ()))
        matching = (names for topic, names in topics.items() if matches(session.topic, topic))
        return self.everywhere.union(*matching)


@dataclass
class Writers:
    """Names the writers at the sessions that an operation touches.

    ``desired`` are the jobs of its revision; brokers that are left behind are not asked.
    """

    context: OperationContext
    desired: Mapping[str, Job]
    _topics: Topics = field(init=False)
    _lists: _Lists = field(init=False)
    _exact: Mapping[Endpoint, list[SessionRecord]] = field(init=False)
    _filters: Mapping[str, list[SessionRecord]] = field(init=False)  # by broker
    _named: dict[SessionRecord, Collection[str]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        """Look up who writes where as the operation begins."""
        self._topics = self._present()
        self._lists = self._present_lists(self._topics)
        exact, filters = defaultdict(list), defaultdict(list)
        for session in self._lists:
            if is_filter(session.topic):
                filters[session.broker].append(session)
            else:
                exact[Endpoint(session.broker, session.topic)].append(session)
        self._exact, self._filters = exact, filters

    def admit(self, job: Job) -> None:
        """Name the writers at the session of a job that is to start, and the job at those that it feeds."""
        fed = self._fed(job)
        own = self.context.record(job.job_name).sessions[-1:]
        for session in dict.fromkeys([*own, *fed]):
            self._name(job.job_name, session, self._topics.writers(session))

    def _fed(self, job: Job) -> list[SessionRecord]:
        """The sessions of the beginning that collect what a job writes."""
        found: list[SessionRecord] = []
        for sink in sinks_of(job):
            found += self._exact.get(sink, [])
            filters = self._filters.get(sink.broker, [])
            found += [session for session in filters if matches(session.topic, sink.topic)]
        return found

    def finish(self) -> None:
        """Name, where it has changed since the beginning, the writers that are left; a broker may be away."""
        away: set[str] = set()
        for session, names in self._present_lists(self._present()).items():
            unchanged = names == self._named.get(session, self._lists.get(session, names))
            if unchanged or session.broker in away:
                continue
            try:
                self._publish(session, names)
            except BinderError as error:
                away.add(session.broker)
                _log.warning("sessions at %s still name writers that have gone: %s", session.broker, error)

    def _name(self, job: str, session: SessionRecord, names: Collection[str]) -> None:
        with self._lock:
            if session in self._named or session.broker in self.context.left_behind:
                return
            try:
                with_retries(partial(self._publish, session, names))
            except Rejected as error:  # by its access control; all stamps are believed then, as before
                text = f"the readers of {session.topic!r} believe the stamps of any publisher: {error}"
                self.context.operation.note(job, text)
            self._named[session] = names

    def _publish(self, session: SessionRecord, names: Collection[str]) -> None:
        self.context.pool.broker(session.broker).name_writers(session.name, sorted(names))

    def _present(self) -> Topics:
        store = self.context.store
        abandoned = {each.attempt.job_name for each in store.abandoned_attempts()}
        return Topics.of([*self.desired.values(), *_stored_forms(store)], abandoned)

    def _present_lists(self, topics: Topics) -> _Lists:
        sessions = (session for record in self.context.store.jobs() for session in record.sessions)
        return {
            each: topics.writers(each) for each in sessions if each.broker not in self.context.left_behind
        }


def _stored_forms(store: Store) -> Iterator[Job]:
    """The desired forms of all jobs, and those that run or may run."""
    for head in store.heads():
        if head.revision and not head.deleting:
            yield from store.revision(head.name, head.revision).jobs.values()
    compositions = {record.name: record.composition for record in store.jobs()}
    for attempt in store.attempts():
        composition = compositions.get(attempt.attempt.job_name)
        try:
            if composition is not None:
                yield store.revision(composition, attempt.revision).jobs[attempt.attempt.job_name]
        except (NotFound, KeyError):  # deleted meanwhile by an operation on another composition
            continue
