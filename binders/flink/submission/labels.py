"""Whose a job of a cluster is, told by the cluster alone: by the job's global parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from binders.flink.rest.client import JobLine
from binders.flink.submission.job_config import PARAMETERS
from speck.core.runtime import Found


@dataclass(frozen=True)
class Tag:
    """What is not told is empty.

    ``job`` is SpecK's name of it, ``code`` the hash of what was uploaded, ``reads`` the fingerprint of its
    session, ``hash`` that of the file which the job names, ``number`` its attempt's, ``form`` its
    fingerprint, ``owner`` the identity of the store that has it.
    """

    job: str = ""
    code: str = ""
    reads: str = ""
    hash: str = ""
    number: str = ""
    form: str = ""
    owner: str = ""


def tag_of(told: Mapping[str, str]) -> Tag:
    """The tag among a job's global parameters."""
    return Tag(**{each.name: told.get(f"{PARAMETERS}.{each.name}", "") for each in fields(Tag)})


def found(line: JobLine, tag: Tag) -> Found:
    """A job of the cluster as SpecK knows it."""
    if not tag.job:
        return Found(line.id, line.name)
    number = int(tag.number) if tag.number.isdecimal() else 0
    return Found(line.id, tag.job, line.id, tag.hash, tag.reads, number, tag.form, tag.owner)
