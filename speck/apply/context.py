"""What all steps of one operation share: the store as that operation sees it, and its calls and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from speck.apply.operation import Operation
from speck.binder.pool import BinderPool
from speck.binder.retry import with_retries
from speck.core.job import Job
from speck.store import AttemptRecord, Event, JobRecord, Store

_T = TypeVar("_T")


@dataclass(frozen=True)
class OperationContext:
    """``clock`` tells Unix time, s."""

    store: Store
    pool: BinderPool
    operation: Operation
    clock: Callable[[], float]

    def call(self, method: str, call: Callable[[], _T]) -> _T:
        """Make a call to an engine, counted by its method, and again while it gives no answer."""

        def counted() -> _T:
            self.operation.count(method)
            return call()

        return with_retries(counted)

    def record(self, name: str) -> JobRecord:
        """What is kept of a job; of a new one, nothing yet."""
        known = self.store.job(name)
        return known or JobRecord(name, self.operation.composition, self.store.first_attempt)

    def form(self, record: AttemptRecord) -> Job:
        """The job as this attempt runs it."""
        return self.wanted_in(record.revision)[record.attempt.job_name]

    def wanted_in(self, revision: int) -> Mapping[str, Job]:
        """The jobs of a revision of the operation's composition."""
        return self.store.revision(self.operation.composition, revision).jobs

    def event(self, kind: str, job: str, message: str) -> Event:
        """An entry of the audit log, of this operation."""
        operation = self.operation
        by_loop = operation.kind == "heal"
        return Event(self.clock(), kind, message, operation.composition, job, operation.id, by_loop=by_loop)
