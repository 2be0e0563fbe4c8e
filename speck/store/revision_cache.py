"""Decoded revisions in memory: those that were read as the present of a composition."""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from speck.core.job import Job, changed_fields
from speck.store.records import Revision


@dataclass
class RevisionCache:
    """Revisions by composition and number.  Safe to use from several threads.

    Those of one composition share the jobs that did not change between them.
    """

    _revisions: dict[str, dict[int, Revision]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, composition: str, number: int) -> Revision | None:
        """A revision, if it is here."""
        return self._revisions.get(composition, {}).get(number)

    def put(self, revision: Revision) -> Revision:
        """Keep a revision; returns it with the jobs that it shares."""
        with self._lock:
            known = self._revisions.setdefault(revision.composition, {})
            nearest = max(known, key=lambda number: -abs(number - revision.number), default=None)
            if nearest is not None:
                revision = replace(revision, jobs=_shared(revision.jobs, known[nearest].jobs))
            known[revision.number] = revision
            return revision

    def drop(self, composition: str, number: int) -> None:
        """Forget a deleted revision."""
        with self._lock:
            self._revisions.get(composition, {}).pop(number, None)

    def retain(self, composition: str, numbers: Container[int]) -> None:
        """Forget all revisions of a composition but these."""
        with self._lock:
            known = self._revisions.pop(composition, {})
            if retained := {number: each for number, each in known.items() if number in numbers}:
                self._revisions[composition] = retained

    def count(self, composition: str) -> int:
        """The number of a composition's revisions."""
        return len(self._revisions.get(composition, {}))


def _shared(jobs: Mapping[str, Job], others: Mapping[str, Job]) -> Mapping[str, Job]:
    return {name: _same(others.get(name), job) or job for name, job in jobs.items()}


def _same(other: Job | None, job: Job) -> Job | None:
    """The other job if it is the same; one with the argument 1 is not the one with 1.0."""
    return other if other == job and not changed_fields(other, job) else None
