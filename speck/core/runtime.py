"""What runs and what engines tell of it: attempts, handles, states, drift, metrics, capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from speck.core.job import Scalar


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
