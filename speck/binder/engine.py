"""The base class of adapters to engines: the methods that a binder must have, and defaults for the others."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeVar

from speck.binder.contract import ArtifactServer, Capability, StateFiles, capabilities_of
from speck.core.engine_plan import EnginePlan
from speck.core.job import Job
from speck.core.profile import CoreProbe, JobSample, LinkProbe
from speck.core.runtime import (
    Attempt,
    Capacity,
    Checkup,
    Found,
    Handle,
    JobMetrics,
    JobState,
    JobStatus,
    State,
    Worker,
)
from speck.errors import BinderError, OutcomeUnknown, Rejected, SpeckError, Unreachable

_Answer = TypeVar("_Answer")


class EngineBinder(ABC):
    """The adapter to one engine (one address).

    The abstract methods are those of every engine.  A default says what is true where a binder does not know
    better; a method of a :class:`~speck.binder.contract.Capability` is called only if the binder has it.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    """The capabilities of this class: those whose methods it overrides, unless it states others."""

    log_about: str = "this kind of engine provides no logs"
    """The source of the lines of a log, and the lines that are unavailable: a sentence for display."""

    largest_state: int | None = None
    """The largest state (bytes) that :meth:`read_state` and :meth:`write_state` transfer; ``None``: any."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Find the capabilities; raises :class:`TypeError` for a part of one."""
        super().__init_subclass__(**options)
        if "capabilities" not in cls.__dict__:
            cls.capabilities = capabilities_of(cls, EngineBinder)

    # --- the life of a job

    @abstractmethod
    def check(self, job: Job, state: State | None) -> None:
        """Check that a submit could succeed now: the engine answers, has capacity, and can read the state.

        Starts and stops nothing at the engine; may upload the job's code.  Raises the
        :class:`~speck.errors.BinderError` that a submit would raise.
        """

    @abstractmethod
    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start the job.  Idempotent: called again with the same attempt, returns the same handle."""

    @abstractmethod
    def find(self, attempt: Attempt) -> Handle | None:
        """The handle of an attempt that the engine runs; recovers a submit whose answer was lost."""

    @abstractmethod
    def status(self, handle: Handle) -> JobStatus:
        """The job's status.  LOST and UNKNOWN are statuses, not errors."""

    @abstractmethod
    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Finish the current work and stop; returns the job's state.  No error for a job that is gone.

        With ``keep_state``, raises :class:`~speck.errors.StateLost` for a job that had a state which is not
        there any more: ``None`` means that it never had one.
        """

    @abstractmethod
    def metrics(self, handle: Handle) -> JobMetrics:
        """The job's rates, durations and counts as last reported by the engine."""

    @abstractmethod
    def capacity(self) -> Capacity:
        """The engine's capacity, used and free."""

    @abstractmethod
    def close(self) -> None:
        """Close connections and helper processes; jobs keep running."""

    # --- with a default for engines without it

    def take_artifacts(self, server: ArtifactServer) -> None:
        """Set the server from which the engine fetches files; called once, before any other method."""

    def check_acceptance(self) -> None:
        """Raise the :class:`~speck.errors.BinderError` that a check of any job would raise here.

        For an engine that may answer and yet accept no job, by its version or its settings.  It names the
        setting.  Starts and stops nothing, and uploads nothing.
        """

    def build_job(self, job: Job) -> None:
        """Build the job as far as its engine would run it; starts and stops nothing, and takes no slot.

        By default, a job is built when it starts.  Raises :class:`~speck.errors.Rejected` for code that
        cannot be built, with the place in its file where that is known, and any other
        :class:`~speck.errors.BinderError` if the engine cannot be asked.
        """

    def statuses(self, handles: Iterable[Handle]) -> Mapping[str, JobStatus]:
        """The statuses of these jobs by ``engine_id``, as of ``status``; raises nothing.

        By default, they are asked for one by one, until the engine does not answer.
        """
        return one_by_one(handles, partial(_status_of, self), lambda status: status.state is JobState.UNKNOWN)

    def measure(self, handles: Iterable[Handle]) -> Mapping[str, JobMetrics | BinderError]:
        """The metrics of these jobs by ``engine_id``, as of ``metrics``, or the error of a single job.

        By default, they are asked for one by one, until the engine does not answer.  Raises a
        :class:`~speck.errors.BinderError` for an engine that cannot be asked.
        """
        return one_by_one(
            handles,
            partial(_metrics_of, self),
            lambda answer: isinstance(answer, Unreachable | OutcomeUnknown),
        )

    def running(self) -> Sequence[Found]:
        """All jobs that run or start at the engine, submitted by SpecK or not.

        Takes a constant number of requests.  Raises a :class:`~speck.errors.BinderError`;
        :class:`~speck.errors.Rejected` for an engine that has no such list, which is the default.
        """
        raise _lacking(self, "does not list the jobs of its engine")

    def reported(self, handles: Iterable[Handle]) -> tuple[Mapping[str, JobStatus], Sequence[Found]] | None:
        """The answers of ``statuses`` and of ``running``, if both are known without a request.

        Such are those that the agent of a site has reported.  ``None``: they have to be asked for.
        """
        return None

    def state_of(self, handle: Handle) -> State | None:
        """The place of the job's state now or once it is stopped, as far as that is known before."""
        return None

    def state_fault(self, state: State) -> str | None:
        """The reason for which no job could start here from this state; ``None`` if one could, or might.

        Raises a :class:`~speck.errors.BinderError` for an engine that cannot be asked.
        """
        return None

    def log_tail(self, handle: Handle, lines: int) -> Sequence[str]:
        """The last ``lines`` lines at most, the newest last, without line ends; also of a failed job.

        Raises a :class:`~speck.errors.BinderError`; :class:`~speck.errors.Rejected` for a job that the engine
        does not have.
        """
        return ()

    def checkup(self) -> Checkup:
        """Version, limits and clock, and settings that keep jobs from working.

        Starts and stops nothing.  Raises a :class:`~speck.errors.BinderError` if it cannot be asked.
        """
        return Checkup()

    def reach(self, broker: str) -> float | None:
        """The time of a round trip from the engine to the broker at this address, s; ``None``: not tried.

        Takes a slot for a moment.  Raises a :class:`~speck.errors.BinderError` with the engine's reason.
        """
        return None

    # --- of capabilities

    def profile(self, handles: Iterable[Handle]) -> Mapping[str, JobSample | BinderError]:
        """The counts of these jobs by ``engine_id``, or the error of a single job; raises as ``measure``.

        ``Capability.PROFILES``: the cost of jobs is derived from them.
        """
        _lack(self, Capability.PROFILES)

    def probe_link(self, broker: str) -> LinkProbe:
        """Measure the link from the engine to the broker at this address, by up to 4 MiB.

        ``Capability.PROBES``: takes a slot for some seconds, and is not repeated.  Raises a
        :class:`~speck.errors.BinderError`; :class:`~speck.errors.NoCapacity` if no slot is free.
        """
        _lack(self, Capability.PROBES)

    def probe_core(self) -> CoreProbe:
        """Measure the speed of one core, by the processor time of one task; as :meth:`probe_link`."""
        _lack(self, Capability.PROBES)

    def workers(self) -> Sequence[Worker]:
        """The workers that are registered at the engine now; it may list one that died some seconds ago.

        ``Capability.WORKERS``.  Raises a :class:`~speck.errors.BinderError` for an engine that cannot be
        asked.
        """
        _lack(self, Capability.WORKERS)

    def left_state(self, handle: Handle) -> State | None:
        """The newest state of the job, which may still run; ``None`` if it has none.

        ``Capability.OFFLINE_STATE``.  It must not be older than the messages that the job has acknowledged to
        its source broker.  Sends no request to the engine.  Raises :class:`~speck.errors.Rejected` if the
        state cannot be found.
        """
        _lack(self, Capability.OFFLINE_STATE)

    def resumption_fault(self, job: Job, state: State) -> str | None:
        """The reason for which this form of a job cannot continue from the state; ``None`` if it can.

        ``Capability.RESUMPTION``.  Called while the job's former form runs and writes the state.  Starts and
        stops nothing.  Raises the :class:`~speck.errors.BinderError` of code that cannot be built.
        """
        _lack(self, Capability.RESUMPTION)

    def state_size(self, state: State) -> int:
        """The size (bytes) of a snapshot of the state now; the job may be running.

        ``Capability.TRANSFER``, as the five methods below.
        """
        _lack(self, Capability.TRANSFER)

    def read_state(self, state: State) -> StateFiles:
        """The files that a job needs to resume from the state of a job that has stopped."""
        _lack(self, Capability.TRANSFER)

    def state_place(self, job_name: str, name: str) -> State:
        """The place for a state of the job at this engine under this name."""
        _lack(self, Capability.TRANSFER)

    def check_state_place(self, job_name: str) -> None:
        """Raise the :class:`~speck.errors.BinderError` that :meth:`write_state` would raise."""
        _lack(self, Capability.TRANSFER)

    def write_state(self, state: State, snapshot: StateFiles) -> None:
        """Write the snapshot to a place of :meth:`state_place`, and compare the written files; idempotent."""
        _lack(self, Capability.TRANSFER)

    def delete_state(self, state: State) -> None:
        """Delete the state at a place; no error if there is none."""
        _lack(self, Capability.TRANSFER)

    def dispose_state(self, state: State) -> None:
        """Delete the state that a stop has left; no error if there is none.  ``Capability.DISPOSE``."""
        _lack(self, Capability.DISPOSE)

    def kept_nothing(self, handle: Handle) -> bool:
        """True if a job that started without a state has ended before it had acknowledged any message.

        ``Capability.PROGRESS``.  The next attempt in the same form then writes the same messages again.
        """
        _lack(self, Capability.PROGRESS)

    def last_ended(self, job_name: str, owner: str) -> int:
        """The highest number of an attempt at a job of this owner that the engine never runs again; 0: none.

        Above 0 where ended attempts are remembered, as by an agent: later attempts, also those at another job
        of this name, need a higher number.
        """
        return 0

    def has_worked(self, handle: Handle) -> bool | None:
        """True if a running job has completed a first piece of work, or has none to do; false if it has not.

        ``Capability.READINESS``.  ``None``: that cannot be told of this job, or not yet; it counts as started
        once it has run for :attr:`EngineKind.startup_seconds`.  Raises a :class:`~speck.errors.BinderError`.
        """
        _lack(self, Capability.READINESS)

    def engine_plan(self, handle: Handle) -> EnginePlan:
        """The operators of a running job and the edges between them; changes nothing at the engine.

        ``Capability.PLANS``.  An engine that makes the plan later returns one without operators, with a note
        that says so.  Raises a :class:`~speck.errors.BinderError`; :class:`~speck.errors.Rejected` for a job
        that the engine does not have.
        """
        _lack(self, Capability.PLANS)


# The helpers of the defaults are no methods, lest a binder has others of these names.


def _lacking(binder: EngineBinder, what: str) -> Rejected:
    """The error of a method that a binder does not have."""
    address = str(getattr(binder, "address", ""))
    return Rejected(
        ": ".join(filter(None, (address, f"binder {type(binder).__name__} {what}"))), address=address
    )


def _lack(binder: EngineBinder, capability: Capability) -> NoReturn:
    raise _lacking(binder, f"has no Capability.{capability.name}")


def _status_of(binder: EngineBinder, handle: Handle) -> JobStatus:
    try:
        return binder.status(handle)
    except SpeckError as error:
        return JobStatus(JobState.UNKNOWN, time.time(), str(error))


def _metrics_of(binder: EngineBinder, handle: Handle) -> JobMetrics | BinderError:
    try:
        return binder.metrics(handle)
    except BinderError as error:
        return error


def one_by_one(
    handles: Iterable[Handle], ask: Callable[[Handle], _Answer], is_silent: Callable[[_Answer], bool]
) -> dict[str, _Answer]:
    """The answers about each of an engine's jobs by ``engine_id``, asked one by one.

    An engine that does not answer costs one call: its other jobs have that answer without being asked.
    """
    found: dict[str, _Answer] = {}
    silence: list[_Answer] = []
    for handle in handles:
        found[handle.engine_id] = silence[0] if silence else ask(handle)
        if not silence and is_silent(found[handle.engine_id]):
            silence.append(found[handle.engine_id])
    return found
