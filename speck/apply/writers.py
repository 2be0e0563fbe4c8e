"""The jobs whose stamps the readers of an operation believe.

A connector drops a message whose stamp it has seen.  Anybody who may publish at a broker can forge stamps, so
each session names the jobs that write what it collects, and its reader believes only those.  A job is named
before it starts to write, and as long as it may: the lists hold the writers of the desired forms, of those
that run or may be started again, and of all that was abandoned.  At its end an operation names what is left.

A list replaces the one before, and operations on several compositions may have writers in one.  So each list
is of the store as it is when it is published, one operation after the other at each broker.
"""

from __future__ import annotations

import logging
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
from speck.store import Head, SessionRecord, Store
from speck.store.deployments import last_revisions

_log = logging.getLogger(__name__)

_Lists = Mapping[SessionRecord, Collection[str]]
_Basis = tuple[frozenset[Head], frozenset[str]]  # heads of compositions, jobs that were abandoned


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
    _seen: tuple[_Basis, Topics] = field(init=False)
    _lists: _Lists = field(init=False)
    _exact: Mapping[Endpoint, list[SessionRecord]] = field(init=False)
    _filters: Mapping[str, list[SessionRecord]] = field(init=False)  # by broker
    _named: dict[SessionRecord, Collection[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Look up who writes where as the operation begins."""
        self._lists = self._present_lists()
        exact, filters = defaultdict(list), defaultdict(list)
        for session in self._lists:
            if is_filter(session.topic):
                filters[session.broker].append(session)
            else:
                exact[session.source].append(session)
        self._exact, self._filters = exact, filters

    def admit(self, job: Job) -> None:
        """Name the writers at the session of a job that is to start, and the job at those that it feeds."""
        fed = self._fed(job)
        own = self.context.record(job.job_name).sessions[-1:]
        for session in dict.fromkeys([*own, *fed]):
            self._name(job.job_name, session)

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
        for session, names in self._present_lists().items():
            unchanged = names == self._named.get(session, self._lists.get(session, names))
            if unchanged or session.broker in away:
                continue
            try:
                with self.context.pool.exclusive(session.broker):
                    self._publish(session)
            except BinderError as error:
                away.add(session.broker)
                _log.warning("sessions at %s still name writers that have gone: %s", session.broker, error)

    def _name(self, job: str, session: SessionRecord) -> None:
        with self.context.pool.exclusive(session.broker):
            if session in self._named or session.broker in self.context.left_behind:
                return
            try:
                with_retries(partial(self._publish, session))
            except Rejected as error:  # by its access control; all stamps are believed then, as before
                text = f"readers of {session.topic!r} accept the stamps of any publisher: {error}"
                self.context.operation.note(job, text)
            self._named[session] = self._writers(session)

    def _publish(self, session: SessionRecord) -> None:
        names = sorted(self._writers(session))
        self.context.pool.broker(session.broker).name_writers(session.name, names)

    def _writers(self, session: SessionRecord) -> frozenset[str]:
        """The writers of a session; looked up again if another operation has been accepted meanwhile."""
        basis, topics = self._seen
        if basis != _basis(self.context.store):
            topics = self._look_up()
        return topics.writers(session)

    def _look_up(self) -> Topics:
        store = self.context.store
        basis = _basis(store)
        topics = Topics.of([*self.desired.values(), *_stored_forms(store)], basis[1])
        self._seen = basis, topics
        return topics

    def _present_lists(self) -> _Lists:
        topics = self._look_up()
        sessions = (session for record in self.context.store.jobs() for session in record.sessions)
        return {
            each: topics.writers(each) for each in sessions if each.broker not in self.context.left_behind
        }


def _basis(store: Store) -> _Basis:
    """The facts on which the writers depend, except for the attempts, which begin and end all the time."""
    abandoned = frozenset(each.attempt.job_name for each in store.abandoned_attempts())
    return frozenset(store.heads()), abandoned


def _stored_forms(store: Store) -> Iterator[Job]:
    """The desired forms of all jobs, those that run or may run, and those that may be started again."""
    for head, last in last_revisions(store):
        if not head.deleting:
            yield from last.jobs.values()
    records = {record.name: record for record in store.jobs()}
    forms = [(each.attempt.job_name, each.revision) for each in store.attempts()]
    forms += [(each.name, each.rollback_revision) for each in records.values() if each.rollback_revision]
    for name, revision in forms:
        try:
            if name in records:
                yield store.revision(records[name].composition, revision).jobs[name]
        except (NotFound, KeyError):  # deleted meanwhile by an operation on another composition
            continue
