"""The past of a composition: its revisions, what differs between two of them, and which are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from speck.core.graph import Endpoint, source_of
from speck.core.job import (
    JOB_FIELDS,
    FieldChange,
    Job,
    changed_fields,
    changed_options,
    form_fingerprint,
    shown_name,
)
from speck.core.plan import change_data
from speck.errors import NotFound
from speck.store import Revision, RevisionOutcome, Store

KINDS = ("added", "removed", "changed")


@dataclass(frozen=True, slots=True)
class Difference:
    """One job that differs between two revisions: it is ``added``, ``removed`` or ``changed``."""

    job: str
    kind: str
    changes: tuple[FieldChange, ...]


def differences(before: Mapping[str, Job], after: Mapping[str, Job]) -> list[Difference]:
    """The jobs that differ, by name, with each field that does."""
    found = (
        _difference(name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())
    )
    return [each for each in found if each.changes]


def _difference(name: str, before: Job | None, after: Job | None) -> Difference:
    if before is not None and after is not None:
        return Difference(name, "changed", changed_fields(before, after))
    old, new = (each.to_dict() if each else {} for each in (before, after))
    shown = [(each, shown_name(each)) for each in JOB_FIELDS]
    found = [(field, old.get(name), new.get(name)) for field, name in shown if name in old or name in new]
    changes = tuple(FieldChange(*each) for each in found)
    return Difference(name, "added" if before is None else "removed", changes)


def count(found: Sequence[Difference]) -> dict[str, int]:
    """The numbers of jobs that were added, removed and changed."""
    counted = Counter(each.kind for each in found)
    return {kind: counted[kind] for kind in KINDS}


def surplus(numbers: Sequence[int], bound: int, needed: Collection[int]) -> list[int]:
    """The revisions to forget: the oldest beyond the bound, except for those that are still needed."""
    return [each for each in sorted(numbers)[: max(0, len(numbers) - bound)] if each not in needed]


@dataclass(frozen=True)
class History:
    """The past of compositions as plain data."""

    store: Store
    _summaries: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    _code: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    # By composition: the last revision that was read, and the engines of each job.
    _engines: dict[str, tuple[int, dict[str, set[str]]]] = field(default_factory=dict)

    def revisions(self, name: str) -> list[dict[str, Any]]:
        """A composition's revisions, oldest first, without their jobs."""
        numbers, outcomes = self.store.revision_numbers(name), self.store.outcomes(name)
        found = []
        for number in numbers:
            with suppress(NotFound):  # it was forgotten just now
                found.append(self._summary(name, number) | _outcome_data(outcomes.get(number)))
        return found

    def _summary(self, name: str, number: int) -> dict[str, Any]:
        # A revision never changes, and to read a hundred of them with a thousand jobs each takes its time.
        if (name, number) not in self._summaries:
            revision = self.store.revision_once(name, number)
            self._summaries[name, number] = _summary_data(revision) | {"jobs": len(revision.jobs)}
        return dict(self._summaries[name, number])

    def forget_revisions(self, name: str, numbers: Iterable[int]) -> None:
        """Drop what is cached of deleted revisions."""
        for number in numbers:
            self._summaries.pop((name, number), None)
            self._code.pop((name, number), None)

    def forget(self, name: str) -> None:
        """Drop what is cached of a deleted composition; another may have its name later."""
        for known in (self._summaries, self._code):
            for key in [key for key in list(known) if key[0] == name]:
                known.pop(key, None)
        self._engines.pop(name, None)

    def code(self, name: str, number: int) -> frozenset[str]:
        """The content hashes of the code that a revision names."""
        if (name, number) not in self._code:
            jobs = self.store.revision_once(name, number).jobs.values()
            self._code[name, number] = frozenset(job.code_hash for job in jobs)
        return self._code[name, number]

    def engines(self, name: str, revision: int) -> Mapping[str, Set[str]]:
        """The addresses of the engines of each job in the revisions of a composition up to the last one.

        Those of revisions that were forgotten meanwhile are among them.
        """
        read, found = self._engines.get(name, (0, {}))
        if read < revision:
            for number in [each for each in self.store.revision_numbers(name) if each > read]:
                with suppress(NotFound):  # it was forgotten just now
                    for job in self.store.revision_once(name, number).jobs.values():
                        found.setdefault(job.job_name, set()).add(job.spe_address)
            self._engines[name] = revision, found
        return found

    def last_form(self, name: str, job: str) -> tuple[int, Job]:
        """The last revision that has a job, by number, and the job as it stands there.

        Raises :class:`~speck.errors.NotFound` if no revision that is kept has the job.
        """
        found = self._last(name, job, lambda form: True)
        if found is None:
            raise NotFound(f"composition {name!r} has no revision with a job {job!r}")
        return found

    def last_form_at(self, name: str, job: str, engine: str) -> Job | None:
        """A job as it stands in the last revision in which it is at an engine; ``None`` if none is kept."""
        found = self._last(name, job, lambda form: form.spe_address == engine)
        return None if found is None else found[1]

    def last_form_of(self, name: str, job: str, fingerprint: str) -> Job | None:
        """A job of the last revision that contains it in a form; ``None`` if no such revision is kept.

        ``fingerprint`` is that of the form (:func:`~speck.core.job.form_fingerprint`).
        """
        found = self._last(name, job, lambda form: form_fingerprint(form) == fingerprint)
        return None if found is None else found[1]

    def last_reader(self, name: str, job: str, sources: Collection[Endpoint]) -> tuple[int, Job] | None:
        """The last revision in which a job reads from one of these sources, and the job there."""
        return self._last(name, job, lambda form: source_of(form) in sources)

    def is_reverted(self, name: str, job: str, source: Endpoint, running: Endpoint | None = None) -> bool:
        """True if the change by which a job was to read from a source was reverted.

        After the last revision in which it does, it reads where it did before that one, or where the copy
        reads that is ``running``.
        """
        later: set[Endpoint] = set()
        found = False
        for _, form in self._forms(name, job):
            read = None if form is None else source_of(form)
            if read == source:
                found = True
                if not later or running in later:
                    return bool(later)
            elif found and read in later:
                return True
            elif not found and read is not None:
                later.add(read)
        return False

    def _forms(self, name: str, job: str) -> Iterator[tuple[int, Job | None]]:
        """The revisions of a composition, the last one first, by number, each with the job's form there."""
        for number in reversed(self.store.revision_numbers(name)):
            with suppress(NotFound):  # it was forgotten just now
                yield number, self.store.revision_once(name, number).jobs.get(job)

    def _last(self, name: str, job: str, accept: Callable[[Job], bool]) -> tuple[int, Job] | None:
        """The last revision whose form of a job is accepted, by number, and that form; ``None`` for none."""
        forms = ((number, form) for number, form in self._forms(name, job) if form is not None)
        return next(((number, form) for number, form in forms if accept(form)), None)

    def revision(self, name: str, number: int) -> dict[str, Any]:
        """One revision with its jobs in full, and its options of placement where it has any."""
        revision = self.store.revision_once(name, number)
        jobs = [job.to_dict() for _, job in sorted(revision.jobs.items())]
        options = {"placement": revision.placement.to_dict()} if revision.placement else {}
        outcome = _outcome_data(self.store.outcome(name, number))
        return _summary_data(revision) | outcome | {"jobs": jobs} | options

    def difference(self, name: str, before: int, after: int) -> dict[str, Any]:
        """The differences between two revisions, job by job and field by field (0: before the first)."""
        old = self.store.revision_once(name, before) if before else None
        new = self.store.revision_once(name, after)
        found = differences(old.jobs if old else {}, new.jobs)
        options = changed_options(old.placement if old else None, new.placement)
        return {
            "composition": name,
            "before": before,
            "after": after,
            "counts": count(found),
            "jobs": [
                {"job": each.job, "kind": each.kind, "changes": [change_data(one) for one in each.changes]}
                for each in found
            ],
        } | ({"placement": [change_data(each) for each in options]} if options else {})

    def before(self, name: str, number: int) -> int:
        """The number of the revision before this one, of those kept; NotFound when there is none."""
        earlier = [each for each in self.store.revision_numbers(name) if each < number]
        if not earlier:
            raise NotFound(f"composition {name!r} has no revision before {number}")
        return earlier[-1]


def _outcome_data(outcome: RevisionOutcome | None) -> dict[str, Any]:
    """The outcome of a revision; ``None`` where it is not known."""
    if outcome is None:
        return {"outcome": None, "operation": None, "by": None}
    return {"outcome": outcome.state, "operation": outcome.operation or None, "by": outcome.by or None}


def _summary_data(revision: Revision) -> dict[str, Any]:
    return {
        "number": revision.number,
        "at": revision.at,
        "author": revision.author,
        "message": revision.message,
        "restored": revision.restored or None,
        "changes": dict(zip(KINDS, revision.counts, strict=True)),
    }
