"""Running jobs as values: attempts, handles, statuses, states, drift, metrics, capacity, health."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from speck.core.job import Scalar

_STAMPS = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})(?:\.([0-9a-f]{1,64}))?")


@dataclass(frozen=True, slots=True)
class State:
    """The location of a job's state; ``kind`` is ``spark-checkpoint`` or ``flink-savepoint``.

    ``address`` is an engine that can access the location; empty if none is known.
    """

    kind: str
    location: str
    address: str = ""

    def at(self, address: str) -> State:
        """The state, with the engine that left it there."""
        return State(self.kind, self.location, address)

    @property
    def periodic(self) -> bool:
        """True for a periodic checkpoint of a Flink job, since which it may have written messages."""
        folder = self.location.removesuffix("/_metadata").rpartition("/")[2]
        return self.kind == "flink-savepoint" and folder.startswith("chk-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to run a job on an engine.  It is stored before it is submitted.

    ``id`` is 32 hexadecimal digits, unique to this attempt.  ``number`` grows by one with each attempt of a
    job; fences compare it.  ``session`` is the MQTT client id of its source.  ``state`` is the state that it
    starts from, if any.  ``lineage`` is the id of the attempt that it repeats from the beginning, because
    that one ended before it had committed anything (empty: none).  ``owner`` is the identity of its store.

    ``incarnation`` and ``origin`` go into the stamps of what it writes: the numbers of the attempts with
    which the job last began to count its messages afresh, and the positions of its input (0: the first).
    """

    id: str
    job_name: str
    number: int
    session: str
    state: State | None = None
    lineage: str = ""
    owner: str = ""
    incarnation: int = 0
    origin: int = 0

    def stamps(self) -> str:
        """The numbers in its stamps as one mark: incarnation, origin and, if any, lineage, between dots."""
        return ".".join(filter(None, [str(self.incarnation), str(self.origin), self.lineage]))


@dataclass(frozen=True, slots=True)
class Handle:
    """An attempt at an engine: the engine's ``address`` and its own ``engine_id`` of the job.

    ``details`` is the binder's own data, which the store returns unchanged.
    """

    address: str
    engine_id: str
    details: Mapping[str, str] = field(default_factory=dict)


class JobState(Enum):
    """The state of a job at its engine, or as far as SpecK knows it."""

    PENDING = "pending"  # accepted by SpecK, not yet submitted to an engine
    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # the engine answers and has no such job
    UNKNOWN = "unknown"  # the engine does not answer

    @property
    def ended(self) -> bool:
        """True if the job is known to have ended."""
        return self in (JobState.FINISHED, JobState.FAILED, JobState.STOPPED, JobState.LOST)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job's status at ``observed_at`` (Unix time, s); ``message`` is in the engine's words."""

    state: JobState
    observed_at: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A job that runs at an engine, submitted by SpecK or not.

    ``engine_id`` is the engine's own id of it, which a handle has as its own or among its details.  The
    other fields are set as far as the engine has them: ``attempt`` is the attempt's id if SpecK submitted it,
    ``code`` the hash of its code, ``reads`` the fingerprint of its session (:func:`session_fingerprint`),
    ``number``, ``owner``, ``incarnation``, ``origin`` and ``lineage`` those of the :class:`Attempt`, ``form``
    the job's (:func:`form_fingerprint`).  ``incarnation`` is ``None`` if the engine has no numbers of stamps.
    """

    engine_id: str
    job_name: str
    attempt: str | None = None
    code: str = ""
    reads: str = ""
    number: int = 0
    form: str = ""
    owner: str = ""
    incarnation: int | None = None
    origin: int = 0
    lineage: str = ""

    def with_stamps(self, mark: str) -> Found:
        """The job with the numbers of a mark (:meth:`Attempt.stamps`); as it is for any other text."""
        stamps = _STAMPS.fullmatch(mark)
        if stamps is None:
            return self
        incarnation, origin, lineage = stamps.groups(default="")
        return replace(self, incarnation=int(incarnation), origin=int(origin), lineage=lineage)


class Drift(Enum):
    """A difference between a job as observed and as desired."""

    DIED = "died"
    FINISHED = "finished"  # it ended on its own, as no streaming job should
    LOST = "missing"  # its engine has no such job, for example after a restart
    STOPPED = "stopped by hand"
    TWICE = "running twice"
    OLD_CODE = "running old code"  # an attempt that is not in the store, or other code than desired
    FOREIGN = "foreign job of this name"  # never touched
    NOT_STARTED = "not started"
    NOT_UPDATED = "not updated"  # it runs as in an earlier revision
    NOT_STOPPED = "not stopped"  # it runs but is no longer desired


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """A job's metrics as its engine reported them at ``observed_at`` (Unix time, s); ``None``: not reported.

    Rates are in rows/s, durations in ms.  ``input_rows`` counts the rows since the attempt started, up to
    ``counted_at`` by the engine's clock (Unix time, s).  ``waiting`` are the rows that the source has
    buffered and the job has not processed.  ``details`` are further numbers, for example of the source.
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
    """An engine's capacity: ``slots`` and ``cores`` are counts, memory is bytes; ``None``: not reported."""

    slots: int | None = None
    slots_free: int | None = None
    cores: int | None = None
    memory: int | None = None
    memory_free: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker of an engine, by the engine's ``id`` of it; ``None``: not reported.

    ``processor`` is the processor time that it has taken since its start, s; memory is bytes.  ``free`` is
    true while it runs no part of any job.
    """

    id: str
    free: bool
    cores: float | None = None
    slots: int | None = None
    slots_free: int | None = None
    memory: int | None = None
    memory_free: int | None = None
    processor: float | None = None


@dataclass(frozen=True, slots=True)
class Complaint:
    """A problem of an engine or a broker; ``remedy`` is empty if the message contains it.

    A ``remark`` may be as intended: it is no fault.
    """

    message: str
    remedy: str = ""
    remark: bool = False


@dataclass(frozen=True, slots=True)
class Checkup:
    """The result of an engine's or broker's health check.

    ``version`` is in its own words, empty if it reports none.  ``limits`` are for display, by name (memory in
    bytes).  ``clock`` is the range (from, to; s) by which its clock is ahead of this machine's; ``None`` if
    it does not report the time.
    """

    version: str = ""
    limits: Mapping[str, Scalar] = field(default_factory=dict)
    clock: tuple[float, float] | None = None
    complaints: tuple[Complaint, ...] = ()
