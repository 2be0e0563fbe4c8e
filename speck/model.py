"""The nouns: job, composition, revision, site, attempt, state; and what a change of each field costs.

Everything here is a frozen value without behaviour of its own.  No third party is imported.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
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


# --- what runs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """Where an engine left a job's state: ``kind`` is ``spark-checkpoint`` or ``flink-savepoint``.

    ``address`` is an engine that sees the place; empty where none is known.
    """

    kind: str
    location: str
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to run a job on an engine.  It is stored before the engine hears of it.

    ``id`` is 32 hexadecimal digits, minted for this try alone.  ``number`` grows by one for each attempt
    of a job; it is what the fence compares.  ``session`` is the MQTT client id through which it reads.
    ``state`` is what it starts from, if anything.  ``lineage`` is the id of the attempt whose work it does
    again from the beginning, since that one ended before it had kept anything (empty: nobody's).
    ``owner`` is the identity of the store that has it.
    """

    id: str
    job_name: str
    number: int
    session: str
    state: State | None = None
    lineage: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Handle:
    """What an engine knows an attempt by: the engine's ``address`` and its own ``engine_id`` of the job.

    ``details`` is the binder's own (text to text), kept by the store and given back unchanged.
    """

    address: str
    engine_id: str
    details: Mapping[str, str] = field(default_factory=dict)


class JobState(Enum):
    """What an engine says of a job, or what SpecK knows when it says nothing."""

    PENDING = "pending"  # accepted by SpecK, not yet given to an engine
    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # the engine answers and does not know the job
    UNKNOWN = "unknown"  # the engine does not answer


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as observed at ``observed_at`` (Unix time, s); ``message`` holds the engine's own words."""

    state: JobState
    observed_at: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A job that an engine runs now, whoever started it.

    ``engine_id`` is what the engine knows it by: a handle of it has it as its own, or among its details.
    ``attempt`` is the attempt's id where the engine tells that SpecK started it, ``code`` the hash of its
    code and ``reads`` the fingerprint of its session (:func:`session_fingerprint`) where it tells those;
    likewise ``number``, ``owner`` (as of :class:`Attempt`) and ``form`` (:func:`form_fingerprint`).
    """

    engine_id: str
    job_name: str
    attempt: str | None = None
    code: str = ""
    reads: str = ""
    number: int = 0
    form: str = ""
    owner: str = ""


class Drift(Enum):
    """How a job as it is differs from what is wanted."""

    DIED = "died"
    FINISHED = "finished"  # it came to an end, which a stream should not
    LOST = "missing"  # its engine was restarted, and does not know it
    STOPPED = "stopped by hand"
    TWICE = "running twice"
    OLD_CODE = "running old code"  # an attempt that the store does not name, or code that is not the wanted
    FOREIGN = "foreign job of this name"  # never touched
    NOT_STARTED = "not started"
    NOT_UPDATED = "not updated"  # it runs as it was wanted before
    NOT_STOPPED = "not stopped"  # nobody wants it any more


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """A job's work, as its engine last told at ``observed_at`` (Unix time, s).

    Rates are rows/s, durations ms.  ``input_rows`` counts since the attempt started (``None``: not told);
    ``counted_at`` is the moment up to which they had come in, by the engine's own clock (Unix time, s).
    ``waiting`` are the rows that the job's reader holds and the job has not worked on yet.
    ``details`` holds the engine's own further numbers (of the source, for example).
    """

    observed_at: float
    input_rate: float | None = None
    output_rate: float | None = None
    processing_rate: float | None = None
    batch_duration_ms: float | None = None
    state_rows: int | None = None
    input_rows: int | None = None
    counted_at: float | None = None
    waiting: int | None = None
    batch_id: int | None = None
    details: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Capacity:
    """An engine's room: ``slots`` and ``cores`` are counts, memory is bytes; ``None`` means not told."""

    slots: int | None = None
    slots_free: int | None = None
    cores: int | None = None
    memory: int | None = None
    memory_free: int | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with an engine or a broker, and what mends it (empty: the message says)."""

    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Checkup:
    """What an engine or a broker tells of itself.

    ``version`` is in its own words, empty where it does not tell.  ``limits`` are for people, by name (memory
    is bytes).  ``clock`` is by how much its clock is ahead of this machine's: from, to, in s; ``None`` where
    it does not tell the time.
    """

    version: str = ""
    limits: Mapping[str, Scalar] = field(default_factory=dict)
    clock: tuple[float, float] | None = None
    complaints: tuple[Complaint, ...] = ()
