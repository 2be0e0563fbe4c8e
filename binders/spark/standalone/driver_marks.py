"""The marks of a driver: its attempt, job, store and stamps, as Spark properties of its command line.

The worker writes the command line to the head of the driver's log, so that it contains no secret.  Drivers of
version 0.1 have the marks ``attempt`` and ``job`` only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import quote, unquote

from speck.core.job import Job, form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt, Found

_PREFIX = "spark.speck."
_MARK = re.compile(r"-Dspark\.speck\.(?P<name>[a-z]+)=(?P<value>[A-Za-z0-9._~%/:-]+)")
_ATTEMPT = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class DriverMarks:
    """The marks of one driver; missing ones are empty.

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

    def properties(self) -> dict[str, str]:
        """The marks as Spark properties; a character that a command line may quote is percent-encoded."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {f"{_PREFIX}{name}": quote(value, safe="/:") for name, value in found.items() if value}

    def found(self) -> Found:
        """The driver as a job of the cluster."""
        number = int(self.number) if self.number.isdecimal() else 0
        known = Found(
            self.attempt, self.job, self.attempt, self.code, self.reads, number, self.form, self.owner
        )
        return known.with_stamps(self.stamps)


FOREIGN = DriverMarks()  # of a driver that is not SpecK's


def marks_of(job: Job, attempt: Attempt, checkpoint: str) -> DriverMarks:
    """The marks of the driver of an attempt."""
    return DriverMarks(
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


def marks_in(command: str) -> DriverMarks:
    """The marks on the command line of a driver; :data:`FOREIGN` without an attempt and a job."""
    written: Mapping[str, str] = {each["name"]: unquote(each["value"]) for each in _MARK.finditer(command)}
    marks = DriverMarks(**{each.name: written.get(each.name, "") for each in fields(DriverMarks)})
    return marks if _ATTEMPT.fullmatch(marks.attempt) and marks.job else FOREIGN
