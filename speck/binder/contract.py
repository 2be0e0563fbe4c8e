"""What an adapter to one kind of engine, or of broker, must offer; and how it is found.

A binder is found by its entry point in the group ``speck.binders``: the entry point's object is an
:class:`EngineKind` or a :class:`BrokerKind`.  SpecK imports no binder by name.

All methods may be called from several threads at once.  They raise only errors of
:mod:`speck.errors`, mostly :class:`~speck.errors.BinderError` and its children, with the cause chained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, runtime_checkable

from speck.core.job import Job
from speck.core.runtime import Attempt, Capacity, Checkup, Found, Handle, JobMetrics, JobStatus, State
from speck.errors import BinderError

MOST_COUNTED = 1000  # of the messages in a session


class EngineBinder(Protocol):
    """The adapter to one engine (one address)."""

    def check(self, job: Job, state: State | None) -> None:
        """Say whether the engine could take the job now: reached, has room, can read the state.

        Starts and stops nothing there; it may bring the job's code.  Raises the
        :class:`~speck.errors.BinderError` that a submit would meet.
        """

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start the job.  Asked again with the same attempt, answers the same, and starts nothing more."""

    def find(self, attempt: Attempt) -> Handle | None:
        """The handle of an attempt that the engine runs (recovers a submit whose answer was lost)."""

    def status(self, handle: Handle) -> JobStatus:
        """What the engine says of the job.  LOST and UNKNOWN are answers, not errors."""

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Finish the work in hand and stop; answers where the state is.  Of a job that is gone: no error."""

    def metrics(self, handle: Handle) -> JobMetrics:
        """The job's rates, durations and counts as last told by the engine."""

    def capacity(self) -> Capacity:
        """The engine's room, used and free."""

    def close(self) -> None:
        """Let go of connections and helper processes; jobs go on."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that an engine may fetch from the coordinator.

    ``sha256`` is of its content, in hexadecimal.  ``url`` is good for this content alone, and for whoever
    knows it.
    """

    name: str
    sha256: str
    url: str = field(repr=False)


class ArtifactServer(Protocol):
    """Serves files to engines that have no other way to them."""

    def offer(self, name: str, content: bytes) -> Artifact:
        """Serve this content under this name, from now on and after a restart.

        Raises :class:`~speck.errors.StoreError` when it cannot be kept.
        """

    def token(self, purpose: str) -> str:
        """A secret that only this coordinator can make, and makes again for the same purpose."""


@runtime_checkable
class FetchesArtifacts(Protocol):
    """An engine binder whose engine fetches files; it is handed their server before its first call."""

    def take_artifacts(self, server: ArtifactServer) -> None:
        """Have the engine fetch from this server."""


@runtime_checkable
class BatchStatus(Protocol):
    """An engine binder that asks its engine about all of its jobs at once."""

    def statuses(self, handles: Iterable[Handle]) -> Mapping[str, JobStatus]:
        """The statuses of these jobs by ``engine_id``, each as ``status`` has it; raises nothing."""


@runtime_checkable
class BatchMetrics(Protocol):
    """An engine binder that tells the metrics of many jobs with fewer questions than one by one."""

    def measure(self, handles: Iterable[Handle]) -> Mapping[str, JobMetrics | BinderError]:
        """The metrics of these jobs by ``engine_id``, each as ``metrics`` has it, or why there are none.

        Raises the :class:`~speck.errors.BinderError` of an engine that cannot be asked.
        """


@runtime_checkable
class OfflineState(Protocol):
    """An engine binder that knows where a job's state is though its engine cannot be asked."""

    def left_state(self, handle: Handle) -> State | None:
        """The newest state of the job, which may still run; ``None`` when it has none.

        It must not be older than what the job has acknowledged to its source broker.  Asks the engine
        nothing.  Raises :class:`~speck.errors.Rejected` when that state cannot be found.
        """


@runtime_checkable
class ListsRunning(Protocol):
    """An engine binder that can say what runs at its engine, whoever started it."""

    def running(self) -> Sequence[Found]:
        """All jobs that run or start there now; asks a number of questions that does not grow with them.

        Raises a :class:`~speck.errors.BinderError`; of an engine that cannot tell, ``Refused``.
        """


@runtime_checkable
class StateLocator(Protocol):
    """An engine binder that can tell of a state before a job is stopped, and of another engine's."""

    def state_of(self, handle: Handle) -> State | None:
        """Where the job's state is, or will be once it is stopped, as far as that is settled before."""

    def state_fault(self, state: State) -> str | None:
        """Why no job could start here from a state at this place; ``None`` when one could, or may.

        Raises the :class:`~speck.errors.BinderError` of an engine that cannot be asked.
        """


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files that a job needs to go on from a state: content by path below the state's place."""

    kind: str
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 over all names and contents, in hexadecimal."""
        total = sha256()
        for name, content in sorted(self.files.items()):
            total.update(f"{len(name)} {name} {len(content)} ".encode())
            total.update(content)
        return total.hexdigest()


@runtime_checkable
class StateTransferable(StateLocator, Protocol):
    """An engine binder through which a state can be read and written, for engines that share no storage."""

    def state_size(self, state: State) -> int:
        """How large a snapshot of the state would be now, bytes; a job may be at work on it."""

    def read_state(self, state: State) -> Snapshot:
        """What a job needs to go on from the state; of a job that has stopped."""

    def state_place(self, job_name: str, name: str) -> State:
        """The place of this name for a state of the job at this engine."""

    def check_state_place(self, job_name: str) -> None:
        """Raise the :class:`~speck.errors.BinderError` that :meth:`write_state` would meet."""

    def write_state(self, state: State, snapshot: Snapshot) -> None:
        """Write the snapshot to a place of :meth:`state_place`, again if need be; compare what is there."""

    def delete_state(self, state: State) -> None:
        """Delete what is at a place; of none: no error."""


@runtime_checkable
class DisposableState(Protocol):
    """An engine binder whose jobs leave a state with each stop, which no job changes afterwards."""

    def dispose_state(self, state: State) -> None:
        """Delete what a job has left there; of none: no error."""


@runtime_checkable
class ProgressAware(Protocol):
    """An engine binder that knows of a job which ended whether it had come to keep anything."""

    def kept_nothing(self, handle: Handle) -> bool:
        """Whether a job that began without a state has ended with all of its work still to be done.

        Then it has acknowledged nothing, and the next attempt in the same form writes the same once more.
        """


@runtime_checkable
class LogReader(Protocol):
    """An engine binder that can show what a job has lately said, and what was said of it."""

    log_about: str
    """Where the lines come from, and what of a job's words cannot be had: a sentence for people."""

    def log_tail(self, handle: Handle, lines: int) -> Sequence[str]:
        """The last lines, at most so many, the newest last, each without its line's end.

        Also of a job that has failed.  Raises a :class:`~speck.errors.BinderError`; of a job that the engine
        does not know, ``Refused``.
        """


@runtime_checkable
class HealthCheckable(Protocol):
    """An engine or broker binder that can say what answers at its address, and what is wrong with it."""

    def checkup(self) -> Checkup:
        """Version, limits and clock, and what in its settings keeps jobs from working there.

        Starts and stops nothing.  Raises the :class:`~speck.errors.BinderError` of one that cannot be asked.
        """


@runtime_checkable
class ReadinessProbe(Protocol):
    """An engine binder whose engine tells when a job is through with its first work."""

    def has_worked(self, handle: Handle) -> bool:
        """Whether a job that runs has done a first piece of work, or waits because there is none."""


class BrokerBinder(Protocol):
    """The adapter to one broker (one address).  A session belongs to one job and outlives its attempts."""

    def check(self) -> None:
        """Raise the :class:`~speck.errors.BinderError` that says why the broker cannot be used."""

    def warnings(self) -> list[str]:
        """What in the broker's limits or settings will lose messages, one sentence each."""

    def ensure_session(self, session: str, topic: str) -> None:
        """Make the persistent session, subscribed to this topic filter and no other; keep what it holds.

        To be called only while no job reads through the session: it takes the session over.
        """

    def session_exists(self, session: str) -> bool:
        """Whether the broker keeps the session.  The same caution as for :meth:`ensure_session`."""

    def delete_session(self, session: str) -> None:
        """Delete the session, what waits in it, and its fence.  Of none: no error."""

    def fence(self, session: str, attempt: int) -> None:
        """Say, for good, that only this attempt (or a newer one) may read through the session."""

    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        """Whether the job has committed all that waits in its session now, as it says within so many seconds.

        May be asked while a job reads through the session, and with the same marker again.  ``None`` when
        the job's connector cannot tell.
        """

    def waiting(self, session: str) -> int:
        """How many messages wait in the session, :data:`MOST_COUNTED` for so many or more.

        The same caution as for :meth:`ensure_session`.
        """

    def close(self) -> None:
        """Let go of connections."""


@runtime_checkable
class CountsStored(Protocol):
    """A broker binder whose broker says how much it keeps."""

    def stored(self) -> int | None:
        """How many messages the broker keeps for whoever is to have them; ``None``: it does not say.

        Disturbs no session.
        """
