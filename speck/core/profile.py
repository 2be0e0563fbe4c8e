"""Raw counts of the work of jobs, as binders report them; all are cumulative since the job's start."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

# Reference cores per root of the messages/s in and out of all jobs of one Flink process: its event loop of
# the connections to brokers, which finds the more messages at a time the more there are.  Where it was not
# measured: 0.0024 to 0.0032 by thread with messages that are sent one by one, at 600 to 3,600 messages/s
# (benchmarks/placement/README.md); 0.0011 with messages that are sent several at a time.
EVENT_LOOP = 0.0028
# Messages/s that are left of sums and differences; the root would make much of them.
_ROUNDING = 1e-6


def event_loop_cores(messages: float, constant: float = EVENT_LOOP) -> float:
    """The reference cores of the event loop of a Flink process, by its messages/s in and out."""
    return constant * math.sqrt(messages) if messages > _ROUNDING else 0.0


def mean_event_loop(measured: Iterable[tuple[float | None, float]]) -> float:
    """The constant of an event loop from the measured ones of jobs, each with its messages or their rate.

    :data:`EVENT_LOOP` where none was measured.
    """
    known = [(constant, weight) for constant, weight in measured if constant is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(constant * weight for constant, weight in known) / total if total > 0 else EVENT_LOOP


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexSample:
    """The counts of one vertex of a job graph, over all of its ``subtasks``.

    ``busy``, ``idle`` and ``back_pressured`` are s, summed over the subtasks; ``busiest`` is the present
    share (0 to 1) of the busiest subtask.
    """

    name: str
    subtasks: int
    records_in: int = 0
    records_out: int = 0
    busy: float = 0.0
    idle: float = 0.0
    back_pressured: float = 0.0
    busiest: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSample:
    """One micro-batch: its number, its rows, and its work (s) without the wait for messages."""

    number: int
    rows: int
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AckSample:
    """The acknowledgements of a job's writer by one broker within the last minute.

    ``least`` and ``median`` are s from a message to its acknowledgement; ``window_full`` is the share of time
    in which the in-flight window was full.
    """

    broker: str
    least: float | None = None
    median: float | None = None
    window_full: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbe:
    """A link from an engine to a broker: round trip (s) and bytes/s to it, measured by ``bytes_sent``."""

    rtt: float
    bandwidth: float
    bytes_sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreProbe:
    """The speed of a core: generated readings that it parses and filters, and also counts by key (1/s)."""

    stateless: float
    keyed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """The counts of a job at ``observed`` (Unix time of the engine, s).

    Messages and bytes (payload and topic) in and out are cumulative; ``None``: the engine does not report
    it.  ``cores_used`` is the number of cores that its batches run on; ``state_bytes`` the size of its state.
    ``processor_share`` is the processor time of the engine's workers per busy time of its jobs within the
    last minute: on a machine with more work than cores, busy time is longer than the work; it is shorter
    where much of the work is done outside of tasks (sending and receiving).  On Flink it leaves out what is
    not of any one job: an idle process, idle jobs, and the event loop.  ``event_loop`` is the cores of its
    process's event loop per root of the messages/s in and out of the process, over the last minute.
    """

    engine_id: str
    observed: float
    messages_in: int | None = None
    messages_out: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    vertices: tuple[VertexSample, ...] = ()
    batches: tuple[BatchSample, ...] = ()
    cores_used: int = 1
    state_bytes: int | None = None
    acks: tuple[AckSample, ...] = ()
    processor_share: float | None = None
    event_loop: float | None = None
