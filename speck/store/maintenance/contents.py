"""All records of a store at once, decoded as far as they can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from speck.core.job import Job
from speck.placement.profile import JobProfile
from speck.store.kinds import kind_of
from speck.store.profiles import CutCorrection
from speck.store.records import AttemptRecord, DeletedComposition, Head, JobRecord, Revision
from speck.store.transaction import Record


@dataclass
class Contents:
    """The records that refer to others, and those that are referred to.

    ``job_profiles`` and ``cut_corrections`` have the name and the form of their job.  ``unreadable`` are the
    keys whose values could not be decoded, each with why.
    """

    format: str = ""
    heads: dict[str, Head] = field(default_factory=dict)
    deleted: dict[str, DeletedComposition] = field(default_factory=dict)
    revisions: dict[tuple[str, int], Revision] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    attempts: list[AttemptRecord] = field(default_factory=list)
    job_profiles: list[tuple[str, str]] = field(default_factory=list)
    cut_corrections: list[tuple[str, str]] = field(default_factory=list)
    unreadable: dict[bytes, str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> Contents:
        """Decode all of them."""
        contents = cls()
        for key, value in records:
            try:
                contents._add(key, value)
            except Exception as error:  # whatever the bytes may bring about
                contents.unreadable[key] = f"{type(error).__name__}: {error}"
        return contents

    def _add(self, key: bytes, value: bytes) -> None:
        match key.decode().split("/"):
            case ["meta", "format"]:
                self.format = value.decode()
            case ["meta", "identity" | "position"]:
                value.decode("ascii")
            case ["meta", "first" | "epoch"]:
                int(value)
            case parts:
                self._keep(parts, kind_of(key).decoded(key, value))

    def _keep(self, parts: list[str], record: object) -> None:
        """Keep a record of these parts of its key, if others refer to it or it refers to others."""
        match record:
            case Head():
                self.heads[record.name] = record
            case DeletedComposition():
                self.deleted[record.name] = record
            case Revision():
                self.revisions[record.composition, record.number] = record
            case JobRecord():
                self.jobs[record.name] = record
            case AttemptRecord():
                self.attempts.append(record)
            case JobProfile():
                self.job_profiles.append((parts[-2], parts[-1]))
            case CutCorrection():
                self.cut_corrections.append((parts[-2], parts[-1]))

    def last_revision(self, composition: str) -> int:
        """The number of the last revision of a composition that can be read; 0 when there is none."""
        return max((number for name, number in self.revisions if name == composition), default=0)

    def desired(self, head: Head) -> Mapping[str, Job]:
        """The jobs that a composition's last revision holds, as far as it can be read."""
        revision = self.revisions.get((head.name, head.revision))
        return revision.jobs if revision else {}

    def form(self, attempt: AttemptRecord) -> tuple[str, Job] | None:
        """The composition and the form of the job that an attempt runs, if there is just one such."""
        name = attempt.attempt.job_name
        record = self.jobs.get(name)
        found = [
            (composition, revision.jobs[name])
            for (composition, number), revision in self.revisions.items()
            if number == attempt.revision
            and name in revision.jobs
            and (record is None or record.composition == composition)
        ]
        return found[0] if len(found) == 1 else None
