"""The protocols of adapters to engines and brokers; all but the first of each are optional.

A binder is found by its entry point in the group ``speck.binders``, whose object is an
:class:`~speck.binder.registry.EngineKind` or a :class:`~speck.binder.registry.BrokerKind`.  SpecK imports no
binder by name.

All methods may be called from several threads at once.  They raise only errors of :mod:`speck.errors`,
mostly :class:`~speck.errors.BinderError` and its subclasses, with the cause chained.

Each method returns or raises within a bounded time, whatever the other side sends: those that check, build,
start or stop a job or transfer its state within :data:`LONGEST_ACTION`, the others within
:data:`LONGEST_QUERY`.  An answer takes a bounded amount of memory.  :mod:`speck.binder.bounded_http` makes
such requests; :func:`speck.binder.deadline.limited` gives the time that remains for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, runtime_checkable

from speck.core.engine_plan import EnginePlan
from speck.core.job import Job
from speck.core.profile import CoreProbe, JobSample, LinkProbe
from speck.core.runtime import Attempt, Capacity, Checkup, Found, Handle, JobMetrics, JobStatus, State, Worker
from speck.errors import BinderError

MOST_COUNTED = 1000  # messages of a session

LONGEST_QUERY = 300.0  # s: some hundred requests, of which one alone may have the limit of 30 s
LONGEST_ACTION = 900.0  # s: a savepoint may take 300 s, a large file minutes over a slow link


class EngineBinder(Protocol):
    """The adapter to one engine (one address)."""

    def check(self, job: Job, state: State | None) -> None:
        """Check that a submit could succeed now: the engine answers, has capacity, and can read the state.

        Starts and stops nothing at the engine; may upload the job's code.  Raises the
        :class:`~speck.errors.BinderError` that a submit would raise.
        """

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start the job.  Idempotent: called again with the same attempt, returns the same handle."""

    def find(self, attempt: Attempt) -> Handle | None:
        """The handle of an attempt that the engine runs; recovers a submit whose answer was lost."""

    def status(self, handle: Handle) -> JobStatus:
        """The job's status.  LOST and UNKNOWN are statuses, not errors."""

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Finish the current work and stop; returns the job's state.  No error for a job that is gone.

        With ``keep_state``, raises :class:`~speck.errors.StateLost` for a job that had a state which is not
        there any more: ``None`` means that it never had one.
        """

    def metrics(self, handle: Handle) -> JobMetrics:
        """The job's rates, durations and counts as last reported by the engine."""

    def capacity(self) -> Capacity:
        """The engine's capacity, used and free."""

    def close(self) -> None:
        """Close connections and helper processes; jobs keep running."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that an engine may fetch from the coordinator.

    ``sha256`` is that of its content, in hexadecimal.  ``url`` gives access to this content alone, to anyone
    who has it.
    """

    name: str
    sha256: str
    url: str = field(repr=False)


class ArtifactServer(Protocol):
    """A server of files for engines that cannot get them otherwise."""

    def offer(self, name: str, content: bytes) -> Artifact:
        """Serve this content under this name, also after a restart.

        Raises :class:`~speck.errors.StoreError` if it cannot be stored.
        """

    def token(self, purpose: str) -> str:
        """A secret that only this coordinator can derive, always the same for one purpose."""


@runtime_checkable
class FetchesArtifacts(Protocol):
    """An engine binder whose engine fetches files; it receives their server before its first call."""

    def take_artifacts(self, server: ArtifactServer) -> None:
        """Let the engine fetch from this server."""


@runtime_checkable
class BatchStatus(Protocol):
    """An engine binder that gets the statuses of all its jobs with one request."""

    def statuses(self, handles: Iterable[Handle]) -> Mapping[str, JobStatus]:
        """The statuses of these jobs by ``engine_id``, as of ``status``; raises nothing."""


@runtime_checkable
class BatchMetrics(Protocol):
    """An engine binder that gets the metrics of many jobs with fewer requests than one by one."""

    def measure(self, handles: Iterable[Handle]) -> Mapping[str, JobMetrics | BinderError]:
        """The metrics of these jobs by ``engine_id``, as of ``metrics``, or the error of a single job.

        Raises a :class:`~speck.errors.BinderError` for an engine that cannot be asked.
        """


@runtime_checkable
class Profiles(Protocol):
    """An engine binder that reports the counts from which the cost of its jobs is derived."""

    def profile(self, handles: Iterable[Handle]) -> Mapping[str, JobSample | BinderError]:
        """The counts of these jobs by ``engine_id``, or the error of a single job; raises as ``measure``."""


@runtime_checkable
class Probes(Protocol):
    """An engine binder that can run a short program at its engine, which measures a link or a core.

    Each takes a slot for some seconds, and is not repeated.  Raises a :class:`~speck.errors.BinderError`;
    :class:`~speck.errors.NoCapacity` if no slot is free.
    """

    def probe_link(self, broker: str) -> LinkProbe:
        """Measure the link from the engine to the broker at this address, by up to 4 MiB."""

    def probe_core(self) -> CoreProbe:
        """Measure the speed of one core, by the processor time of one task."""


@runtime_checkable
class ReachesBrokers(Protocol):
    """An engine binder that can try to reach a broker from its engine, as a job would."""

    def reach(self, broker: str) -> float:
        """The time of a round trip from the engine to the broker at this address, s.

        Takes a slot for a moment.  Raises a :class:`~speck.errors.BinderError` with the engine's reason.
        """


@runtime_checkable
class ListsWorkers(Protocol):
    """An engine binder whose engine consists of workers that may come and go."""

    def workers(self) -> Sequence[Worker]:
        """The workers that are registered at the engine now; it may list one that died some seconds ago.

        Raises a :class:`~speck.errors.BinderError` for an engine that cannot be asked.
        """


@runtime_checkable
class OfflineState(Protocol):
    """An engine binder that can locate a job's state while its engine does not answer."""

    def left_state(self, handle: Handle) -> State | None:
        """The newest state of the job, which may still run; ``None`` if it has none.

        It must not be older than the messages that the job has acknowledged to its source broker.  Sends no
        request to the engine.  Raises :class:`~speck.errors.Rejected` if the state cannot be found.
        """


@runtime_checkable
class ListsRunning(Protocol):
    """An engine binder that can list the jobs of its engine, submitted by SpecK or not."""

    def running(self) -> Sequence[Found]:
        """All jobs that run or start at the engine, by a constant number of requests.

        Raises a :class:`~speck.errors.BinderError`; :class:`~speck.errors.Rejected` for an engine that has no
        such list.
        """


@runtime_checkable
class StateLocator(Protocol):
    """An engine binder that can locate a state before the job is stopped, and check one of another engine."""

    def state_of(self, handle: Handle) -> State | None:
        """The place of the job's state now or once it is stopped, as far as that is known before."""

    def state_fault(self, state: State) -> str | None:
        """The reason for which no job could start here from this state; ``None`` if one could, or might.

        Raises a :class:`~speck.errors.BinderError` for an engine that cannot be asked.
        """


@runtime_checkable
class ChecksResumption(Protocol):
    """An engine binder whose engine cannot continue from every state in every form of a job."""

    def resumption_fault(self, job: Job, state: State) -> str | None:
        """The reason for which this form of a job cannot continue from the state; ``None`` if it can.

        Called while the job's former form runs and writes the state.  Starts and stops nothing.  Raises the
        :class:`~speck.errors.BinderError` of code that cannot be built.
        """


@runtime_checkable
class BuildsJobs(Protocol):
    """An engine binder whose engine can build a job and analyse its plan without starting it."""

    def build_job(self, job: Job) -> None:
        """Build the job as far as its engine would run it; starts and stops nothing, and takes no slot.

        Raises :class:`~speck.errors.Rejected` for code that cannot be built, with the place in its file where
        that is known, and any other :class:`~speck.errors.BinderError` if the engine cannot be asked.
        """


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files that a job needs to resume from a state: content by path below the state's place."""

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
    """An engine binder that can read and write a state, for engines that share no storage."""

    def state_size(self, state: State) -> int:
        """The size (bytes) of a snapshot of the state now; the job may be running."""

    def read_state(self, state: State) -> Snapshot:
        """The files that a job needs to resume from the state of a job that has stopped."""

    def state_place(self, job_name: str, name: str) -> State:
        """The place for a state of the job at this engine under this name."""

    def check_state_place(self, job_name: str) -> None:
        """Raise the :class:`~speck.errors.BinderError` that :meth:`write_state` would raise."""

    def write_state(self, state: State, snapshot: Snapshot) -> None:
        """Write the snapshot to a place of :meth:`state_place`, and compare the written files; idempotent."""

    def delete_state(self, state: State) -> None:
        """Delete the state at a place; no error if there is none."""


@runtime_checkable
class DisposableState(Protocol):
    """An engine binder whose jobs write a new state with each stop, which no job changes afterwards."""

    def dispose_state(self, state: State) -> None:
        """Delete the state; no error if there is none."""


@runtime_checkable
class ProgressAware(Protocol):
    """An engine binder that can determine if a job that ended had committed anything."""

    def kept_nothing(self, handle: Handle) -> bool:
        """True if a job that started without a state has ended before it had acknowledged any message.

        The next attempt in the same form then writes the same messages again.
        """


@runtime_checkable
class LogReader(Protocol):
    """An engine binder that can read the log of a job, its own lines and the engine's about it."""

    log_about: str
    """The source of the lines, and the lines that are unavailable: a sentence for display."""

    def log_tail(self, handle: Handle, lines: int) -> Sequence[str]:
        """The last ``lines`` lines at most, the newest last, without line ends; also of a failed job.

        Raises a :class:`~speck.errors.BinderError`; :class:`~speck.errors.Rejected` for a job that the engine
        does not have.
        """


@runtime_checkable
class PlanReader(Protocol):
    """An engine binder that can read the plan by which its engine executes a job."""

    def engine_plan(self, handle: Handle) -> EnginePlan:
        """The operators of a running job and the edges between them; changes nothing at the engine.

        An engine that makes the plan later returns one without operators, with a note that says so.  Raises a
        :class:`~speck.errors.BinderError`; :class:`~speck.errors.Rejected` for a job that the engine does not
        have.
        """


@runtime_checkable
class HealthCheckable(Protocol):
    """An engine or broker binder that can check the health of its engine or broker."""

    def checkup(self) -> Checkup:
        """Version, limits and clock, and settings that keep jobs from working.

        Starts and stops nothing.  Raises a :class:`~speck.errors.BinderError` if it cannot be asked.
        """


@runtime_checkable
class AcceptsJobs(Protocol):
    """An engine binder whose engine may answer and yet accept no job, by its version or its settings."""

    def check_acceptance(self) -> None:
        """Raise the :class:`~speck.errors.BinderError` that a check of any job would raise here.

        It names the setting.  Starts and stops nothing, and uploads nothing.
        """


@runtime_checkable
class ReadinessProbe(Protocol):
    """An engine binder whose engine reports when a job has completed its first work."""

    def has_worked(self, handle: Handle) -> bool | None:
        """True if a running job has completed a first piece of work, or has none to do; false if it has not.

        ``None``: that cannot be told of this job, or not yet; it counts as started once it has run for
        :attr:`EngineKind.startup_seconds`.  Raises a :class:`~speck.errors.BinderError`.
        """


class BrokerBinder(Protocol):
    """The adapter to one broker (one address).  A session belongs to one job and outlives its attempts."""

    def check(self) -> None:
        """Raise a :class:`~speck.errors.BinderError` if the broker cannot be used."""

    def warnings(self) -> list[str]:
        """The limits and settings of the broker that will lose messages, a sentence each."""

    def ensure_session(self, session: str, topic: str) -> None:
        """Create the persistent session if needed, subscribed to this topic filter alone; keep its messages.

        Takes the session over: must not be called while a job reads through it.
        """

    def session_exists(self, session: str) -> bool:
        """True if the broker has the session.  Takes it over, as :meth:`ensure_session`."""

    def delete_session(self, session: str) -> None:
        """Delete the session, its messages and its fence; no error if there is none."""

    def fence(self, session: str, attempt: int) -> None:
        """Store durably that only this attempt, or a newer one, may read through the session."""

    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        """True if the job commits all messages now in its session, and confirms it within ``seconds``.

        May be called while a job reads through the session, and again with the same marker.  ``None`` if the
        job's connector cannot confirm.
        """

    def waiting(self, session: str) -> int:
        """The number of messages in the session; :data:`MOST_COUNTED` means so many or more.

        Takes the session over, as :meth:`ensure_session`.
        """

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session at a broker that belongs to another SpecK; ``owner`` is the identity of its store."""

    session: str
    owner: str
    topics: tuple[str, ...] = ()


@runtime_checkable
class OwnsSessions(Protocol):
    """A broker binder that keeps the owner of each session at the broker: the identity of a store.

    After :meth:`take_owner`, the methods for sessions raise :class:`~speck.errors.SessionOfAnother` for a
    session of another owner, before they change anything; one without an owner becomes this owner's.
    """

    def take_owner(self, owner: str) -> None:
        """Act for this owner; called once, before any other method."""

    def claim_session(self, session: str, topic: str) -> None:
        """Raise :class:`~speck.errors.SessionOfAnother` for a session of another owner.

        One that has no owner gets this one.  Takes no session over, and makes none.  A broker that lost its
        records of the session, and would have its reader take it for deleted, gets them again: ``topic`` is
        the filter that the session collects.  A deleted session stays deleted.
        """

    def fenced(self, session: str) -> int:
        """The highest attempt that the session's fence has named, also after its deletion; 0 if unknown."""

    def foreign_sessions(self) -> Sequence[ForeignSession]:
        """The sessions of other owners at the broker; none before :meth:`take_owner`."""


@dataclass(frozen=True, slots=True)
class OwnedSession:
    """A session at a broker that has an owner, and the highest attempt that its fence has named (0: none)."""

    session: str
    owner: str
    topics: tuple[str, ...] = ()
    fenced: int = 0


@runtime_checkable
class AdoptsSessions(Protocol):
    """A broker binder that can make sessions of another owner this owner's, while they are read."""

    def owned_sessions(self) -> Sequence[OwnedSession]:
        """The sessions at the broker that have an owner, this one's included, by name."""

    def adopt_session(self, session: str, former: str) -> None:
        """Make a session of the owner ``former`` this owner's; its reader, messages and fence stay.

        Idempotent; nothing is written for one that is deleted, or that the broker has no record of.  Raises
        :class:`~speck.errors.SessionOfAnother` for one of a third owner.
        """


@runtime_checkable
class LimitsPackets(Protocol):
    """A broker binder whose broker states the size of the largest message that it accepts."""

    def packet_bytes(self) -> int | None:
        """The largest packet that the broker accepts, in bytes; ``None``: it states no limit."""


@runtime_checkable
class CountsDropped(Protocol):
    """A broker binder whose broker reports the number of messages that it dropped."""

    def dropped(self) -> int | None:
        """The number of messages that the broker dropped because a session was full, since its start.

        Their writers were told that all is well.  ``None``: it does not report it.  Takes no session over.
        """

    def stored_bytes(self) -> int | None:
        """The size of all messages that the broker stores for all subscribers; ``None`` as for ``dropped``.

        No session holds more, so none is full while this is below the broker's limit for a session.
        """


@runtime_checkable
class KnowsReaders(Protocol):
    """A broker binder whose broker has a record of the readers of its sessions."""

    def readers(self, sessions: Sequence[str]) -> Mapping[str, int]:
        """The attempt of the last reader of each session; none for a session that nobody has begun to read.

        Takes no session over.
        """


@runtime_checkable
class NamesWriters(Protocol):
    """A broker binder whose readers drop repeated messages by stamps, of named writers only."""

    def name_writers(self, session: str, writers: Sequence[str]) -> None:
        """Name the jobs whose stamps the reader of a session believes, in place of those named before.

        In force for the messages that are published after the call; until a first call, all stamps are
        believed.  The names go with the session.  Takes no session over.
        """


@runtime_checkable
class RestoresSessions(Protocol):
    """A broker binder whose writers retain messages for a while, for a broker that loses them."""

    def restore_session(self, session: str, topic: str) -> None:
        """Ensure a session that the broker had before, as :meth:`BrokerBinder.ensure_session`.

        If the broker has lost it, all writers are asked to send again the messages for this topic filter that
        they retain: those that were published meanwhile reached nobody.  Readers drop repetitions.
        """


class Feed(Protocol):
    """The messages of a subscription, for one thread."""

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """The messages (topic, content) that have arrived since the last call, a thousand at most.

        Does not wait for any.  Raises a :class:`~speck.errors.BinderError` once the connection has ended.
        """

    def close(self) -> None:
        """End the subscription; raises nothing."""


@runtime_checkable
class CarriesReports(Protocol):
    """A broker binder that reads the reports of jobs, and sends control messages to them."""

    def subscribe(self, topics: Sequence[str]) -> Feed:
        """Subscribe to topic filters, with no session: messages that come while nobody reads may be lost."""

    def send_control(self, session: str, message: bytes, seconds: float) -> None:
        """Send a message to the job that reads through a session; it is void after so many seconds."""


@runtime_checkable
class TracesMessages(CarriesReports, Protocol):
    """A broker binder by which it can be found out if two brokers pass messages on, or are one.

    Changes nothing that a job uses.
    """

    def send_probe(self, topic: str) -> None:
        """Publish a small message to a topic that is used once; not retained."""

    def leave_client(self, client: str) -> None:
        """Have the broker know a client of this name for a minute at most."""

    def forget_client(self, client: str) -> bool:
        """True if the broker knows this client; from now on it does not."""


@runtime_checkable
class CountsStored(Protocol):
    """A broker binder whose broker reports the number of messages that it stores."""

    def stored(self) -> int | None:
        """The number of messages that the broker stores for all subscribers; ``None``: it does not report it.

        Takes no session over.
        """
