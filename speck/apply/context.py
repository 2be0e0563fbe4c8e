"""The context of one operation: its view of the store, its calls to engines, its audit events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from speck.apply import job_events, job_state
from speck.apply.job_state import lifecycle_of
from speck.apply.operation import Operation
from speck.binder.pool import BinderPool
from speck.binder.retry import with_retries
from speck.core.job import Job
from speck.core.lifecycle import AUTOMATIC, EventKind
from speck.store import AttemptRecord, Event, JobRecord, Store, Transaction

_T = TypeVar("_T")


@dataclass(frozen=True)
class OperationContext:
    """The store, the binders and the progress of one operation.  ``clock`` returns Unix time, s."""

    store: Store
    pool: BinderPool
    operation: Operation
    clock: Callable[[], float]

    @property
    def left_behind(self) -> Collection[str]:
        """The addresses of engines and brokers that are not asked: what is there is abandoned."""
        return self.operation.request.leave_behind

    def call(self, method: str, call: Callable[[], _T]) -> _T:
        """Call an engine, counted by the method's name; repeated while the outcome is unknown."""

        def counted() -> _T:
            self.operation.count(method)
            return call()

        return with_retries(counted)

    @contextmanager
    def advance(self, name: str, *events: job_events.Event) -> Iterator[Transaction]:
        """Write the transitions of a job in one transaction, with whatever the block adds to it."""
        with self.store.transaction() as transaction:
            job_state.write(transaction, lifecycle_of(self.store, name, self.operation.composition), *events)
            yield transaction

    def note(self, name: str, *events: job_events.Event) -> None:
        """Write the transitions of a job."""
        with self.advance(name, *events):
            pass

    def record(self, name: str) -> JobRecord:
        """The record of a job; of a new one, an empty record."""
        return lifecycle_of(self.store, name, self.operation.composition).record

    def form(self, record: AttemptRecord) -> Job:
        """The job in the form that this attempt runs."""
        return self.jobs_of(record.revision)[record.attempt.job_name]

    def jobs_of(self, revision: int) -> Mapping[str, Job]:
        """The jobs of a revision of the operation's composition."""
        return self.store.revision(self.operation.composition, revision).jobs

    def event(self, kind: EventKind | str, job: str, message: str, messages: int = 0) -> Event:
        """An entry of the audit log, of this operation; ``messages`` is the number of those given up."""
        operation = self.operation
        automatic = operation.kind in AUTOMATIC
        return Event(
            self.clock(),
            kind,
            message,
            operation.composition,
            job,
            operation.id,
            automatic=automatic,
            messages=messages,
        )

    def report(self, kind: EventKind | str, job: str, message: str, messages: int = 0) -> None:
        """Write an entry of the audit log; ``messages`` is the number of those given up."""
        self.store.add_events([self.event(kind, job, message, messages)])
