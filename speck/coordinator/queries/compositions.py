"""Queries about compositions, jobs, their history and the store: desired and observed, as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import speck
from speck.apply.operations import Operations
from speck.binder.pool import BinderPool
from speck.controller.reconciler import Reconciler
from speck.coordinator.planning.code_changes import CodeChanges
from speck.coordinator.shared_calls import SharedCalls
from speck.core.code import changes_data
from speck.core.inventory import Inventory
from speck.core.runtime import JobMetrics, JobState, JobStatus
from speck.core.split import shown_job
from speck.errors import BinderError, NotFound
from speck.observe.losses import LossRecorder
from speck.observe.observer import Observer
from speck.observe.rates import Rates
from speck.observe.readers import ReaderWatch
from speck.observe.sampler import NO_READING, Reading, Sampler
from speck.observe.split_watch import SplitWatch
from speck.store import AttemptRecord, Head, JobRecord, auditlog
from speck.store.abandoned import AbandonedAttempt
from speck.store.deployments import Deployments, Snapshot
from speck.store.history import History
from speck.store.maintenance.backup import archive
from speck.store.maintenance.integrity import Finding
from speck.store.maintenance.repair import check
from speck.store.retention import Retention, deletion_order
from speck.store.sizes import sizes


@dataclass(frozen=True)
class Queries:
    """Nothing is changed in here.  ``clock`` gives Unix time, s."""

    deployments: Deployments
    history: History
    retention: Retention
    operations: Operations
    observer: Observer
    reconciler: Reconciler
    sampler: Sampler
    losses: LossRecorder
    readers: ReaderWatch
    splits: SplitWatch
    pool: BinderPool
    inventory: Inventory
    clock: Callable[[], float]
    code: CodeChanges
    _calls: SharedCalls = field(default_factory=SharedCalls, repr=False)

    # --- compositions

    def compositions(self) -> list[dict[str, Any]]:
        """Each composition: name, last revision, number of desired jobs, the operation in progress on it."""
        found = []
        for head in self.deployments.store.heads():
            with suppress(NotFound):  # deleted since
                found.append(self._summary(head))
        return found

    def _summary(self, head: Head) -> dict[str, Any]:
        declared = self.deployments.declared(head)
        return {
            "name": head.name,
            "revision": head.revision,
            "jobs": len(self.deployments.desired(head)),
            "deleting": head.deleting,
            "operation": self.operations.running_on(head.name),
        } | ({"declared": declared} if declared else {})

    def deleted_compositions(self) -> list[dict[str, Any]]:
        """The deleted compositions whose history is retained, the last deleted first."""
        deletions = sorted(self.deployments.store.deletions(), key=deletion_order, reverse=True)
        return [asdict(each) for each in deletions]

    def composition(self, name: str) -> dict[str, Any]:
        """One composition with its jobs, desired and observed, and its revisions."""
        head = self.deployments.known_head(name)
        jobs = self._jobs_of(self.deployments.snapshot(head), self._abandoned())
        return self._summary(head) | {"jobs": jobs, "revisions": self.history.revisions(name)}

    # --- jobs

    def jobs(self, snapshots: Iterable[Snapshot] | None = None) -> list[dict[str, Any]]:
        """Every job, desired and as last observed, by name; of ``snapshots`` where the caller has them."""
        abandoned = self._abandoned()
        found = self.deployments.snapshots() if snapshots is None else snapshots
        jobs = [job for each in found for job in self._jobs_of(each, abandoned)]
        return sorted(jobs, key=lambda job: str(job["job_name"]))

    def job(self, name: str) -> dict[str, Any]:
        """One job, observed now: its attempt, and its metrics where its engine has them."""
        snapshot = self.deployments.snapshot_of_job(name)
        self.observer.observe(each for each in snapshot.deployed() if each[0].job_name == name)
        data = self._job_data(snapshot, name, self.observer.seen(), self._abandoned())
        data |= self._rollout(snapshot.head.name, name)
        attempt = snapshot.attempt(name)
        return data if attempt is None else data | {"metrics": self._metrics(snapshot, attempt)}

    def _rollout(self, composition: str, name: str) -> dict[str, Any]:
        """The wave of a job in the roll-out that is in progress, and the state of its change."""
        operation = self.operations.live(self.operations.running_on(composition) or "")
        if operation is None or not operation.request.waves or name not in operation.actions:
            return {}
        action = operation.actions[name]
        ended = f", {action.state}" if action.ended is not None else ""
        return {"rollout": f"{action.wave or 'no change'}{ended}"}

    def curves(self, name: str) -> dict[str, Any]:
        """The rates of a job over the last hour, a point a minute (:mod:`speck.observe.curves`)."""
        self.deployments.known_job(name)
        found = {} if self.sampler.curves is None else self.sampler.curves.of_job(name)
        return {"job_name": name} | found

    def log(self, name: str, lines: int) -> dict[str, Any]:
        """The last lines that the engine of a job has of it, and their source.

        Raises :class:`~speck.errors.BinderError` when the engine does not answer.
        """
        snapshot = self.deployments.snapshot_of_job(name)
        attempt = snapshot.attempt(name)
        answer = {"job_name": name, "address": snapshot.forms[name].spe_address, "observed_at": self.clock()}
        if attempt is None or attempt.handle is None:
            return answer | {"about": "the job has no log: it does not run at any engine", "lines": []}
        engine = self.pool.engine(snapshot.forms[name])
        return answer | {
            "about": engine.log_about,
            "lines": list(engine.log_tail(attempt.handle, lines)),
            "attempt": attempt.attempt.number,
        }

    def _abandoned(self) -> Mapping[str, Sequence[AbandonedAttempt]]:
        found: dict[str, list[AbandonedAttempt]] = defaultdict(list)
        for copy in self.deployments.store.abandoned_attempts():
            found[copy.attempt.job_name].append(copy)
        return found

    def _jobs_of(
        self, snapshot: Snapshot, abandoned: Mapping[str, Sequence[AbandonedAttempt]]
    ) -> list[dict[str, Any]]:
        seen = self.observer.seen()
        return [self._job_data(snapshot, name, seen, abandoned) for name in sorted(snapshot.records)]

    def _job_data(
        self,
        snapshot: Snapshot,
        name: str,
        seen: dict[str, JobStatus],
        abandoned: Mapping[str, Sequence[AbandonedAttempt]],
    ) -> dict[str, Any]:
        record, attempt = snapshot.records[name], snapshot.attempt(name)
        desired, form = snapshot.desired.get(name), snapshot.forms[name]
        status = self._status(record, attempt, seen)
        unread = self.readers.fault(name) if status.state in (JobState.RUNNING, JobState.STARTING) else ""
        return {
            "job_name": name,
            "composition": record.composition,
            "wanted": "stopped" if desired is None else "running",
            "state": status.state.value,
            "observed_at": status.observed_at,
            "message": "; ".join(filter(None, (unread, status.message))),
            "reading": not unread,
            "error": record.error,
            "up_to_date": form == desired and attempt is not None and attempt.phase == "running",
            **self._drift_data(name),
            **self._behind(record),
            "losses": self.losses.of_job(name),
            "attempt": None if attempt is None else attempt.attempt.number,
            "job": shown_job(form),
            "sessions": [asdict(each) for each in record.sessions],
            "left_behind": [
                {"address": each.address, "attempt": each.attempt.number} for each in abandoned.get(name, ())
            ],
        }

    def _behind(self, record: JobRecord) -> dict[str, Any]:
        """The messages that the broker has for a job, also while it is down, and the age of the oldest, s.

        ``None``: not known.
        """
        backlog = self.sampler.backlog(record.sessions[-1]) if record.sessions else None
        return {
            "behind": None if backlog is None else backlog.messages,
            "behind_seconds": None if backlog is None else backlog.seconds,
        }

    def _drift_data(self, name: str) -> dict[str, Any]:
        note = self.reconciler.drifts.of(name)
        return {
            "drift": None if note is None else note.drifted.drift.value,
            "drift_message": "" if note is None else note.drifted.message,
            "drift_since": None if note is None else note.since,
            "waits": "" if note is None else note.waits,
            "next_try": self.reconciler.next_try(name),
        }

    def _status(
        self, record: JobRecord, attempt: AttemptRecord | None, seen: dict[str, JobStatus]
    ) -> JobStatus:
        now = self.clock()
        if attempt is None and self.reconciler.next_try(record.name) is not None:
            return JobStatus(JobState.FAILED, now, record.error)
        if attempt is None:
            return JobStatus(JobState.PENDING, now, "not started")
        if attempt.phase == "intended":
            return JobStatus(JobState.STARTING, now, "submitted to its engine, no response yet")
        return seen.get(record.name, JobStatus(JobState.UNKNOWN, now, "not observed yet"))

    def _metrics(self, snapshot: Snapshot, attempt: AttemptRecord) -> dict[str, Any] | None:
        if attempt.handle is None:
            return None
        try:
            engine = self.pool.engine(snapshot.forms[attempt.attempt.job_name])
            metrics: JobMetrics = engine.metrics(attempt.handle)
        except BinderError as error:
            return {"error": str(error)}
        return asdict(metrics)

    # --- rates

    def rates(self, snapshots: Iterable[Snapshot] | None = None) -> dict[str, Any]:
        """The rates of each job as last sampled; sampling continues for some time after this call."""
        readings = self.sampler.readings()
        found = self.deployments.snapshots() if snapshots is None else snapshots
        jobs = [
            self._rates_data(snapshot, name, readings.get(name))
            for snapshot in found
            for name in snapshot.records
        ]
        observed = [each["observed"] for each in jobs if each["observed"] is not None]
        return {
            "observed": max(observed, default=None),
            "jobs": sorted(jobs, key=lambda job: str(job["job_name"])),
        }

    def _rates_data(self, snapshot: Snapshot, name: str, reading: Reading | None) -> dict[str, Any]:
        form, attempt = snapshot.forms[name], snapshot.attempt(name)
        handle = None if attempt is None else attempt.handle
        if reading is None or handle is None or reading.engine_id != handle.engine_id:
            reading = NO_READING  # or it is of an attempt that was replaced since
        rates = reading.rates or Rates()
        site = self.inventory.site_of_engine(form.spe_address, *form.site_hints)
        return {
            "job_name": name,
            "composition": snapshot.head.name,
            "site": site.name if site is not None else form.site,
            "source_topic": form.source_topic,
            "sink_topic": form.sink_topic,
            **asdict(rates),
            **self._behind(snapshot.records[name]),
            "error": reading.error or None,
        }

    # --- history

    def revisions(self, name: str) -> list[dict[str, Any]]:
        """A composition's revisions, oldest first, without their jobs."""
        self.deployments.last_revision(name)  # raises for an unknown name
        return self.history.revisions(name)

    def revision(self, name: str, number: int) -> dict[str, Any]:
        """One revision with its jobs."""
        self.deployments.last_revision(name)
        return self.history.revision(name, number)

    def difference(self, name: str, before: int | None = None, after: int | None = None) -> dict[str, Any]:
        """The differences between two revisions; by default between the last one and the one before it."""
        last = self.deployments.last_revision(name)
        after = last if after is None else after
        before = self.history.before(name, after) if before is None else before
        return self._with_code(self.history.difference(name, before, after), lines=False)

    def code_difference(
        self, name: str, before: int | None = None, after: int | None = None
    ) -> dict[str, Any]:
        """As :meth:`difference`, with the lines of code that differ."""
        found = self.difference(name, before, after)
        return self._with_code(found, lines=True)

    def _with_code(self, difference: dict[str, Any], *, lines: bool) -> dict[str, Any]:
        """A difference between revisions with that of the code of each job."""
        name, before, after = (difference[each] for each in ("composition", "before", "after"))
        old = self.history.store.revision_once(name, before).jobs if before else {}
        new = self.history.store.revision_once(name, after).jobs
        with self.retention.code_pinned():
            changes = self.code.of_forms(old, (new[job] for job in new.keys() & old.keys()))
        code = changes_data(changes, lines=lines)
        jobs = (
            each | ({"code": code[each["job"]]} if each["job"] in code else {}) for each in difference["jobs"]
        )
        return difference | {"jobs": list(jobs)}

    def events(self, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        """The audit log's last entries, oldest first; ``filters`` are those of :class:`auditlog.Filter`."""
        return auditlog.entries(self.deployments.store, limit, auditlog.Filter(**filters))

    # --- the store itself

    def backup(self) -> Iterator[bytes]:
        """The store as it is now, with its code, as the pieces of one file."""
        pieces = self._backup()
        next(pieces)  # an error at the beginning is raised here
        return pieces

    def _backup(self) -> Iterator[bytes]:
        store = self.deployments.store
        with self.retention.code_pinned():
            records = store.records()
            yield b""
            yield from archive(records, store.directory, self.clock(), speck.__version__)

    def store_size(self) -> dict[str, int]:
        """See :func:`speck.store.sizes.sizes`."""
        return sizes(self.deployments.store.directory)

    def check_store(self) -> list[dict[str, str]]:
        """The faults of the store as it is now; a check that is under way is shared, as it reads all code."""
        found = self._calls.of("check", self._checked)
        return [{"what": each.what, "message": each.message} for each in found]

    def _checked(self) -> list[Finding]:
        store = self.deployments.store
        with self.retention.code_pinned():  # the records that were read name it, also if it is to go
            return check(store.records(), store.directory)
