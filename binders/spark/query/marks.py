"""The marks of a running query: by them any coordinator recognises the job, the attempt and the store."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from speck.core.job import Job, form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt, Found


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one query; missing ones are empty.

    ``attempt`` is the id of its attempt, ``job`` the job's name, ``number`` the attempt's, ``owner`` the
    identity of the store that submitted it, ``code`` the hash of the job's file, ``reads`` the fingerprint of
    its session, ``form`` that of the job's definition, ``checkpoint`` the location of its state, and
    ``stamps`` the numbers in the attempt's stamps (:meth:`~speck.core.runtime.Attempt.stamps`).
    """

    attempt: str = ""
    job: str = ""
    number: str = ""
    owner: str = ""
    code: str = ""
    reads: str = ""
    form: str = ""
    checkpoint: str = ""
    stamps: str = ""

    @classmethod
    def of(cls, job: Job, attempt: Attempt, checkpoint: str) -> Self:
        """The marks of the query of an attempt."""
        return cls(
            attempt=attempt.id,
            job=job.job_name,
            number=str(attempt.number),
            owner=attempt.owner,
            code=job.code_hash,
            reads=session_fingerprint(job.source_broker, attempt.session),
            form=form_fingerprint(job),
            checkpoint=checkpoint,
            stamps=attempt.stamps(),
        )

    def present(self) -> dict[str, str]:
        """Those that are not empty, by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name))}

    def found(self, engine_id: str) -> Found:
        """The query as a job of its engine, which has this id of it."""
        number = int(self.number) if self.number.isdecimal() else 0
        known = Found(engine_id, self.job, self.attempt, self.code, self.reads, number, self.form, self.owner)
        return known.with_stamps(self.stamps)
