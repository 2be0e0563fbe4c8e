"""The nouns that a user writes: job, composition; and what a change of each field costs.  Frozen values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

Scalar = str | int | float | bool

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


class Change(IntEnum):
    """What a change of a field costs; the worst grade of all changed fields decides the action."""

    NOTE = 0  # stored, and no engine is touched
    UPDATE = 1  # the job is restarted where it is
    MOVE = 2  # the job is stopped here and started elsewhere


def _costs(change: Change, **kwargs: Any) -> Any:
    return field(metadata={"change": change}, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job as wanted: every address resolved, its code named by content.

    ``code_hash`` is the SHA-256 of the job's file, in hexadecimal; ``trigger`` a Spark interval such as
    ``"2 seconds"``; ``parallelism`` a number of tasks.  ``None`` means the engine's own default.
    """

    job_name: str
    spe_address: str = _costs(Change.MOVE)
    source_broker: str = _costs(Change.UPDATE)
    source_topic: str = _costs(Change.UPDATE)
    sink_broker: str = _costs(Change.UPDATE)
    sink_topic: str = _costs(Change.UPDATE)
    entry_class: str = _costs(Change.UPDATE)
    job_path: str = _costs(Change.NOTE)  # the code counts by its hash, wherever it lies
    engine: str = _costs(Change.MOVE)
    site: str | None = _costs(Change.NOTE, default=None)  # its addresses count, not its name
    arguments: Mapping[str, Scalar] = _costs(Change.UPDATE, default_factory=dict)
    parallelism: int | None = _costs(Change.UPDATE, default=None)
    upgrade: str = _costs(Change.NOTE, default="stateful")
    trigger: str | None = _costs(Change.UPDATE, default=None)
    restart: str = _costs(Change.NOTE, default="always")
    labels: Mapping[str, str] = _costs(Change.NOTE, default_factory=dict)
    code_hash: str = _costs(Change.UPDATE, default="")

    def to_dict(self) -> dict[str, Any]:
        """The job as plain data; fields at their default are left out, so that the stored form is small."""
        return {
            each.name: dict(value) if isinstance(value, Mapping) else value
            for each in dataclasses.fields(self)
            if (value := getattr(self, each.name)) != _DEFAULTS.get(each.name)
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        """The inverse of :meth:`to_dict`."""
        return cls(**data)


_DEFAULTS: dict[str, Any] = {
    each.name: each.default_factory() if each.default_factory is not dataclasses.MISSING else each.default
    for each in dataclasses.fields(Job)
    if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
}

JOB_FIELDS: Mapping[str, Change] = {
    each.name: each.metadata["change"] for each in dataclasses.fields(Job) if "change" in each.metadata
}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs between what is deployed and what is wanted."""

    field: str
    before: Any
    after: Any


def changed_fields(before: Job, after: Job) -> tuple[FieldChange, ...]:
    """The fields that differ, in the order in which the job declares them."""
    # Most jobs are equal, which is quick to see; but to Python 1, 1.0 and True are equal, and not to a job.
    if before == after and _kinds(before.arguments) == _kinds(after.arguments):
        return ()
    return tuple(
        FieldChange(name, old, new)
        for name in JOB_FIELDS
        if (old := getattr(before, name)) != (new := getattr(after, name))
        or (name == "arguments" and _kinds(old) != _kinds(new))
    )


def _kinds(arguments: Mapping[str, Scalar]) -> dict[str, type]:
    return {key: type(value) for key, value in arguments.items()}


@dataclass(frozen=True, slots=True)
class Composition:
    """A named graph of jobs, by job name."""

    name: str
    jobs: Mapping[str, Job]


def client_id(job_name: str) -> str:
    """The MQTT client id, and so the persistent session, through which a job reads."""
    return f"speck-{job_name}"


def fence_topic(session: str) -> str:
    """The topic of the retained message that names the attempt which may read through a session."""
    return f"speck/fence/{session}"


def session_fingerprint(broker: str, session: str) -> str:
    """What tells one session from all others, in 16 letters and digits that fit anywhere."""
    return hashlib.sha256(f"{broker} {session}".encode()).hexdigest()[:16]


def form_fingerprint(job: Job) -> str:
    """What tells a job in this form from itself in any other that an engine would notice, in 16 letters."""
    form = {name: getattr(job, name) for name, change in JOB_FIELDS.items() if change > Change.NOTE}
    text = json.dumps([job.job_name, form], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
