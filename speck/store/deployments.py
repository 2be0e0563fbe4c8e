"""Compositions as the store holds them at one moment: desired jobs, records, attempts and their forms."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from speck.core.graph import source_of
from speck.core.job import Composition, Job, form_fingerprint
from speck.core.lifecycle import AttemptPhase
from speck.core.plan import Deployed
from speck.core.runtime import Handle
from speck.core.suggestions import similar_names
from speck.errors import Conflict, NotFound
from speck.store import AttemptRecord, Head, JobRecord, Revision, SessionRecord, Store
from speck.store.history import History

_log = logging.getLogger(__name__)

Deployment = tuple[Job, Handle]
EngineKey = tuple[str, str]  # kind and address
_MOST_NAMED = 3  # jobs of a composition in a message


@dataclass(frozen=True)
class Snapshot:
    """One composition.  All by job name: ``attempts`` the oldest first, ``forms`` what runs or ran last.

    ``desired`` is empty of a composition that is being deleted.
    """

    head: Head
    desired: Mapping[str, Job]
    records: Mapping[str, JobRecord]
    attempts: Mapping[str, Sequence[AttemptRecord]]
    forms: Mapping[str, Job]

    def attempt(self, name: str) -> AttemptRecord | None:
        """The last attempt of a job that its engine runs or may run."""
        attempts = self.attempts.get(name)
        return attempts[-1] if attempts else None

    def engines(self, name: str) -> set[EngineKey]:
        """The engines that run attempts of a job or may."""
        kind = self.forms[name].engine if name in self.forms else ""
        return {
            (kind, each.handle.address if each.handle else self.forms[name].spe_address)
            for each in self.attempts.get(name, ())
        }

    def engine_addresses(self) -> set[str]:
        """Of the engines that run its jobs, may run one, are to, or have the state from which one starts."""
        desired = {job.spe_address for job in self.desired.values()}
        present = {address for name in self.attempts for _, address in self.engines(name)}
        states = {
            record.state.address
            for name, record in self.records.items()
            if record.state is not None and name in self.desired and not self._started(name)
        }
        return (desired | present | states) - {""}

    def is_carried_out(self) -> bool:
        """True if every job is in its desired form at its engine, and no other is left."""
        return self.records.keys() == self.desired.keys() and all(
            self._started(name) and self.forms[name] == job for name, job in self.desired.items()
        )

    def runs_as_desired(self, names: Iterable[str]) -> bool:
        """True if each of these jobs runs in its desired form."""
        return all(self._started(name) and self.forms.get(name) == self.desired.get(name) for name in names)

    def addresses(self) -> set[str]:
        """Of the engines and the brokers that its jobs use, or did before a change that is not through."""
        used = {
            address
            for form in self.forms.values()
            for address in (form.spe_address, form.source_broker, form.sink_broker)
        }
        return used | {each.broker for record in self.records.values() for each in record.sessions}

    def current_sessions(self) -> dict[str, SessionRecord]:
        """The session through which each job reads, or is to read, by the job's name."""
        return {name: record.sessions[-1] for name, record in self.records.items() if record.sessions}

    def begun(self, first_attempt: int) -> set[str]:
        """The jobs that have a session and had an attempt once; ``first_attempt`` is the store's."""
        return {
            name for name, each in self.records.items() if each.sessions and each.attempts > first_attempt
        }

    def stored(self) -> dict[str, Deployed]:
        """The jobs as a plan takes them."""
        return {name: self._stored(name) for name in self.records}

    def _stored(self, name: str) -> Deployed:
        attempt = self.attempt(name)
        logins = None if attempt is None else attempt.logins
        return Deployed(self.forms[name], self._started(name), logins)

    def _started(self, name: str) -> bool:
        attempt = self.attempt(name)
        return attempt is not None and attempt.phase is AttemptPhase.RUNNING

    def deployed(self) -> list[Deployment]:
        """The running jobs according to the store, each with its handle."""
        last = ((name, self.attempt(name)) for name in self.records)
        return [
            (self.forms[name], attempt.handle)
            for name, attempt in last
            if attempt is not None and attempt.handle is not None and attempt.phase is AttemptPhase.RUNNING
        ]


@dataclass(frozen=True)
class Deployments:
    """Reads snapshots out of the store."""

    store: Store
    history: History
    _left_out: set[Head] = field(default_factory=set, repr=False, compare=False)  # logged

    def head(self, name: str) -> Head:
        """A composition's head; of none, one without a revision."""
        return self.store.head(name) or Head(name, 0)

    def known_head(self, name: str) -> Head:
        """A composition's head.  Raises :class:`~speck.errors.NotFound`."""
        head = self.store.head(name)
        if head is None and self.store.deleted(name) is not None:
            remedy = f"its history is kept: see speck history {name}; speck rollback {name} restores it"
            raise NotFound(f"composition {name!r} is deleted ({remedy})")
        if head is None:
            job = self.store.job(name)
            near = similar_names(name, (each.name for each in self.store.heads()))
            hint = near if job is None else f" (it is a job of composition {job.composition!r})"
            raise NotFound(f"there is no composition {name!r}{hint}")
        return head

    def last_revision(self, name: str) -> int:
        """The number of the last revision of a composition, also of a deleted one (0: there is none yet).

        Raises :class:`~speck.errors.NotFound`.
        """
        deleted = self.store.deleted(name)
        return self.known_head(name).revision if deleted is None else deleted.revision

    def known_job(self, name: str) -> JobRecord:
        """The record of a job.  Raises :class:`~speck.errors.NotFound`."""
        record = self.store.job(name)
        if record is None:
            jobs = self.store.jobs()
            near = similar_names(name, (each.name for each in jobs))
            own = [each.name for each in jobs if each.composition == name]
            hint = near if self.store.head(name) is None else f" (it is a composition{_with_jobs(own)})"
            raise NotFound(f"there is no job {name!r}{hint}")
        return record

    def changeable_head(self, name: str) -> Head:
        """The head of a composition.  Raises :class:`~speck.errors.Conflict` while it is being deleted."""
        head = self.head(name)
        if head.deleting:
            raise Conflict(f"composition {name!r} is being deleted (delete it again, or wait)")
        return head

    def last(self, head: Head) -> Composition:
        """The last revision of a composition; without jobs if it has none."""
        if not head.revision:
            return Composition(head.name, {})
        last = self.store.revision(head.name, head.revision)
        return Composition(head.name, last.jobs, last.placement, last.declared)

    def composition(self, name: str) -> Composition:
        """The last revision of the composition of this name; without jobs if it has none."""
        return self.last(self.head(name))

    def next_number(self, name: str) -> int:
        """The number of the next revision; that of a deleted composition continues to count."""
        return max(self.store.revision_numbers(name), default=0) + 1

    def desired(self, head: Head) -> Mapping[str, Job]:
        """The jobs of a composition's last revision, also while it is being deleted."""
        return self.store.revision(head.name, head.revision).jobs if head.revision else {}

    def declared(self, head: Head) -> Mapping[str, Mapping[str, str]]:
        """The declared topics of a composition's last revision."""
        return self.store.revision(head.name, head.revision).declared if head.revision else {}

    def form(self, composition: str, record: AttemptRecord) -> Job:
        """The job as an attempt runs it."""
        return self.store.revision(composition, record.revision).jobs[record.attempt.job_name]

    def snapshot(self, head: Head) -> Snapshot:
        """One composition now."""
        return self._snapshot(head, self.store.jobs(head.name), _by_job(self.store.attempts()))

    def snapshot_of_job(self, name: str) -> Snapshot:
        """The composition of a job now.  Raises :class:`~speck.errors.NotFound`."""
        return self.snapshot(self.head(self.known_job(name).composition))

    def last_run(self, snapshot: Snapshot) -> dict[str, Deployed]:
        """The jobs of a composition, each in the form that runs or ran last: the one that left its state.

        A job that is down has one, too, also after a later form was accepted that has not come to run.
        ``started`` is false for a job that no engine has run.
        """
        return {name: self._last_run(snapshot, name, each) for name, each in snapshot.stored().items()}

    def _last_run(self, snapshot: Snapshot, name: str, stored: Deployed) -> Deployed:
        record, attempt = snapshot.records[name], snapshot.attempt(name)
        stopping = attempt is not None and attempt.phase is AttemptPhase.STOPPING
        if stored.started or stopping:
            return Deployed(stored.job)
        if not record.form:  # perhaps one of a store that did not keep the form yet
            return Deployed(stored.job, started=attempt is not None or record.state is not None)
        if record.form == form_fingerprint(stored.job):
            return Deployed(stored.job)
        return Deployed(self.history.last_form_of(record.composition, name, record.form) or stored.job)

    def snapshots(self) -> list[Snapshot]:
        """Every composition now, by name; reads the store once."""
        heads, attempts = self.store.heads(), _by_job(self.store.attempts())
        records: dict[str, list[JobRecord]] = defaultdict(list)
        for record in self.store.jobs():
            records[record.composition].append(record)
        found = []
        for head in heads:
            try:
                found.append(self._snapshot(head, records[head.name], attempts))
            except (NotFound, KeyError):  # it was deleted since, perhaps another has its name by now
                found += self._read_again(head.name)
        return found

    def _read_again(self, name: str) -> Iterator[Snapshot]:
        """A composition as it is now, unless it is gone.  One that is there and cannot be read is logged."""
        head = self.store.head(name)
        if head is None:
            return
        try:
            yield self.snapshot(head)
        except (NotFound, KeyError) as error:
            if head not in self._left_out and self.store.head(name) == head:
                self._left_out.add(head)
                _log.error(
                    "composition %r is left out, and none of its jobs is observed or healed: %s (see speck "
                    "store check)",
                    name,
                    error if isinstance(error, NotFound) else f"no revision has the form of job {error}",
                )

    def _snapshot(
        self, head: Head, records: Iterable[JobRecord], attempts: Mapping[str, Sequence[AttemptRecord]]
    ) -> Snapshot:
        desired = self.desired(head)
        named = {each.name: each for each in records}
        forms = {}
        for name in named:
            tries = attempts.get(name)
            form = self._former(named[name], desired) if not tries else self.form(head.name, tries[-1])
            # It went in an earlier revision, and it has not been stopped yet.
            forms[name] = form or self.history.last_form(head.name, name)[1]
        own = {name: attempts[name] for name in named if name in attempts}
        return Snapshot(head, {} if head.deleting else desired, named, own, forms)

    def _former(self, record: JobRecord, desired: Mapping[str, Job]) -> Job | None:
        """The last form of a job that nothing runs: the one that read through a session which it leaves."""
        job = desired.get(record.name)
        sources = {each.source for each in record.sessions if each.start}
        if job is None or not (others := sources - {source_of(job)}):
            return job
        is_reverted = partial(self.history.is_reverted, record.composition, record.name)
        former = {each for each in others if not is_reverted(each)}
        found = self.history.last_reader(record.composition, record.name, former) if former else None
        return found[1] if found else job


def last_revisions(store: Store) -> Iterator[tuple[Head, Revision]]:
    """Each composition that has a revision, and its last one.

    One whose revision is missing is left out: damage of one composition keeps no other from being changed.
    """
    for head in store.heads():
        try:
            last = store.revision(head.name, head.revision) if head.revision else None
        except NotFound:
            continue
        if last is not None:
            yield head, last


def _with_jobs(names: Sequence[str]) -> str:
    """The first jobs of a composition, as the end of a sentence; empty without one."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"; its jobs: {', '.join(names[:_MOST_NAMED])}{more}" if names else ""


def by_engine(deployed: Iterable[Deployment]) -> dict[EngineKey, list[Deployment]]:
    """Deployed jobs by the engine that runs them."""
    grouped: dict[EngineKey, list[Deployment]] = defaultdict(list)
    for job, handle in deployed:
        grouped[job.engine, handle.address].append((job, handle))
    return dict(grouped)


def _by_job(attempts: Iterable[AttemptRecord]) -> dict[str, list[AttemptRecord]]:
    found: dict[str, list[AttemptRecord]] = defaultdict(list)
    for each in attempts:
        found[each.attempt.job_name].append(each)
    return dict(found)
