"""Retention of revisions, operations and code within the store's bounds."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from speck.store import Head, Store
from speck.store.artifacts import Artifacts
from speck.store.history import History, surplus


@dataclass
class Retention:
    """Forgets what is beyond the bounds.  The caller sees to it that nothing is accepted meanwhile."""

    store: Store
    artifacts: Artifacts
    history: History
    _readers: int = 0
    _unswept: bool = True  # a crash may have left code that nothing names
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def trim(self, composition: str, at_work: Container[str]) -> None:
        """After an operation on this composition; those ``at_work``, by id, are spared."""
        head = self.store.head(composition)
        if head is None:
            self.history.forget(composition)
        if head is None or self._trim_revisions(head):
            self._unswept = True
        self.sweep_code()
        self.store.trim_operations(at_work)
        self.store.compact()

    @contextmanager
    def code_pinned(self) -> Iterator[None]:
        """Inside, no code is forgotten."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def sweep_code(self) -> None:
        """Forget the code that no revision names, where there may be some."""
        with self._lock:
            if self._unswept and not self._readers:
                self.artifacts.forget_all_but(self._named_code())
                self._unswept = False

    def _named_code(self) -> set[str]:
        return {
            code
            for head in self.store.heads()
            for number in self.store.revision_numbers(head.name)
            for code in self.history.code(head.name, number)
        }

    def _trim_revisions(self, head: Head) -> bool:
        numbers = self.store.revision_numbers(head.name)
        if len(numbers) <= self.store.bounds.revisions:
            return False
        gone = surplus(numbers, self.store.bounds.revisions, self._needed(head))
        with self.store.transaction() as transaction:
            for number in gone:
                transaction.delete_revision(head.name, number)
        self.history.forget_revisions(head.name, gone)
        return bool(gone)

    def _needed(self, head: Head) -> set[int]:
        """The last one, those that hold a form which runs, and that of a job whose end is not done yet."""
        needed = {head.revision}
        desired = self.store.revision(head.name, head.revision).jobs if head.revision else {}
        runs = {each.attempt.job_name: each.revision for each in self.store.attempts()}
        for record in self.store.jobs(head.name):
            if record.rollback_revision:
                needed.add(record.rollback_revision)
            if record.name in runs:
                needed.add(runs[record.name])
            elif record.name not in desired:
                needed.add(self.history.last_form(head.name, record.name)[0])
        return needed
