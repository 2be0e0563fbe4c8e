"""Retention of revisions, operations and code within the store's bounds."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from speck.core.lifecycle import OperationState
from speck.store import DeletedComposition, Head, Store
from speck.store.artifacts import Artifacts
from speck.store.history import History, surplus
from speck.store.served_files import ServedFiles


def deletion_order(deleted: DeletedComposition) -> str:
    """The key by which deletions are sorted, the first one first: ids of operations follow no clock."""
    return deleted.operation or f"{int(deleted.at * 1000):011x}"


@dataclass
class Retention:
    """Forgets what is beyond the bounds.  The caller sees to it that nothing is accepted meanwhile."""

    store: Store
    artifacts: Artifacts
    history: History
    served: ServedFiles | None = None
    _readers: int = 0
    _unswept: bool = True  # a crash may have left code that nothing names
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def trim(self, composition: str, running: Container[str]) -> None:
        """After an operation on this composition; the ``running`` ones, by id, are spared."""
        head = self.store.head(composition)
        self._forget_decoded(composition, head)
        if self._trim_revisions(composition, head) or (head is None and self._trim_deleted()):
            self._unswept = True
        self.sweep_code()
        self.store.trim_operations(running)
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
                named = self.named_code()
                gone = self.artifacts.forget_all_but(named)
                if self.served is not None:
                    attempts = {each.attempt.id for each in self.store.attempts()}
                    self.served.forget_unused(named, gone, attempts)
                self._unswept = False

    def named_code(self) -> set[str]:
        """The hashes of the code that revisions name."""
        heads, deletions = self.store.heads(), self.store.deletions()
        return {
            code
            for name in (*(each.name for each in heads), *(each.name for each in deletions))
            for number in self.store.revision_numbers(name)
            for code in self.history.code(name, number)
        }

    def _forget_decoded(self, name: str, head: Head | None) -> None:
        """Keep in memory the last revision and those that hold a form which runs, and no former ones."""
        if head is None:
            self.store.retain_decoded(name, ())
        elif self.store.decoded_revisions(name) > 1:
            self.store.retain_decoded(name, self._needed(head))

    def _trim_revisions(self, name: str, head: Head | None) -> bool:
        numbers = self.store.revision_numbers(name)
        if len(numbers) <= self.store.bounds.revisions:
            return False
        gone = surplus(numbers, self.store.bounds.revisions, self._needed(head) if head else ())
        with self.store.transaction() as transaction:
            for number in gone:
                transaction.delete_revision(name, number)
        self.history.forget_revisions(name, gone)
        return bool(gone)

    def _trim_deleted(self) -> bool:
        """Forget the compositions beyond the bound that were deleted first, with their revisions."""
        deletions = sorted(self.store.deletions(), key=deletion_order)
        gone = [each.name for each in deletions[: -self.store.bounds.deleted]]
        if gone:
            with self.store.transaction() as transaction:
                for name in gone:
                    transaction.forget_composition(name)
            for name in gone:
                self.history.forget(name)
        return bool(gone)

    def _needed(self, head: Head) -> set[int]:
        """The revisions that are still needed.

        These are the last one, the one that an atomic operation goes back to, those that hold a form which
        runs, and that of a job whose end is not done yet.
        """
        needed = {head.revision, *self._way_back(head)}
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

    def _way_back(self, head: Head) -> Iterator[int]:
        """The revision to which an atomic operation that was not carried out wholly goes back next."""
        outcome = self.store.outcome(head.name, head.revision)
        data = self.store.operation(outcome.operation) if outcome is not None else None
        if data is not None and data.get("atomic") and data["state"] != OperationState.SUCCEEDED:
            yield data["base_revision"]
