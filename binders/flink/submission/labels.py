"""Labels that identify a job on a cluster, stored in the job's global parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from binders.flink.rest.overviews import JobLine
from binders.flink.submission.job_config import PARAMETERS
from speck.core.runtime import Found


@dataclass(frozen=True)
class Labels:
    """The labels of one job; missing ones are empty.

    ``job`` is the name of the job in SpecK, ``code`` the hash of the uploaded jar, ``reads`` the fingerprint
    of its session, ``hash`` that of the job's file, ``number`` its attempt's, ``form`` the fingerprint of the
    job's definition, ``owner`` the identity of the store that deployed it.  ``stamps`` are the numbers in the
    attempt's stamps (:meth:`~speck.core.runtime.Attempt.stamps`).
    """

    job: str = ""
    code: str = ""
    reads: str = ""
    hash: str = ""
    number: str = ""
    form: str = ""
    owner: str = ""
    stamps: str = ""


def labels_of(parameters: Mapping[str, str]) -> Labels:
    """The labels among a job's global parameters."""
    return Labels(**{each.name: parameters.get(f"{PARAMETERS}.{each.name}", "") for each in fields(Labels)})


def found(line: JobLine, labels: Labels) -> Found:
    """A job of the cluster, with its identity in SpecK."""
    if not labels.job:
        return Found(line.id, line.name)
    number = int(labels.number) if labels.number.isdecimal() else 0
    known = Found(line.id, labels.job, line.id, labels.hash, labels.reads, number, labels.form, labels.owner)
    return known.with_stamps(labels.stamps)
