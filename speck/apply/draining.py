"""Jobs that leave their source: its messages are processed before, or given up as far as the user allows it.

A running copy processes what waits where it reads, and confirms it by a marker.  In place of one that does
not run, or dies meanwhile, the job is started once more as it was.  Where that is not possible, the job stays
as it is, unless its user has allowed to give the messages up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from speck.apply.attempts import Attempts
from speck.apply.context import OperationContext
from speck.apply.fallbacks import Fallback
from speck.apply.job_events import Confirmed
from speck.apply.leaving import left_sessions
from speck.apply.sessions import Sessions
from speck.binder import BrokerBinder, Capability, EngineBinder
from speck.core.graph import source_of
from speck.core.job import Job
from speck.core.lifecycle import AttemptPhase
from speck.core.plan import Action, Move, Update
from speck.core.runtime import Handle, JobState
from speck.core.waiting import exact_text, waiting_text
from speck.errors import BinderError, DrainTimeout, OutcomeUnknown, Rejected, Unreachable
from speck.store import AttemptRecord, SessionRecord
from speck.store.history import History

REMEDY = "use --give-up to discard them"

_ASK_AGAIN = 5.0  # s, after which another marker is sent, should the first be lost
_STILL = 3.0  # s without input, after which a job without drain markers counts as drained
_PAUSE = 0.5
_TRIES = 3  # of an engine that does not answer
_UP = frozenset({JobState.STARTING, JobState.RUNNING})


@dataclass
class SourceSwitch:
    """Drains the sessions that the jobs of one operation leave.  ``timeout``, s (0: no drain).

    ``processed`` are those of which a copy has confirmed that it processed all that waited, and those in
    which nothing waited once their writers had been switched.
    """

    context: OperationContext
    attempts: Attempts
    sessions: Sessions
    mint: Callable[[], str]
    timeout: float
    processed: set[SessionRecord] = field(default_factory=set, init=False)

    @property
    def _allowed(self) -> bool:
        return self.context.operation.request.give_up

    def drain(self, action: Action) -> None:
        """Wait until the messages are processed; a job that does not run is restarted in its former form."""
        name = action.job.job_name
        if self.timeout <= 0:
            return
        self._drain_copies(name, same_source=_keeps_source(action))
        if not self._allowed:
            for session, waiting in self._unprocessed(action):
                self._start_once_more(name, session, waiting)

    def check(self, action: Action) -> None:
        """Raise :class:`~speck.errors.Rejected` if messages would be lost; no copy of the job runs."""
        for session, waiting in () if self._allowed else self._unprocessed(action):
            name = action.job.job_name
            raise self._refusal(name, session, waiting, "no copy confirmed that it processed them")

    def has_processed_all(self, name: str) -> bool:
        """True if a deletion of all sessions of a job loses nothing, or only what the user gives up."""
        return self._allowed or all(each in self.processed or not each.start for each in self._sessions(name))

    def released(
        self, name: str, current: SessionRecord, fallback: Fallback | None
    ) -> tuple[SessionRecord, ...]:
        """The former sessions of a job that can be deleted, whatever comes to wait in them from now on.

        That of the ``fallback`` is one: a job leaves its source only when that is drained, or given up.
        """
        left = None if fallback is None else source_of(fallback.job)
        others = (each for each in self._sessions(name) if each != current)
        return tuple(
            each for each in others if self._allowed or each in self.processed or each.source == left
        )

    # --- copies

    def _drain_copies(self, name: str, *, same_source: bool = False) -> None:
        for record in self.context.store.attempts(name):
            if (copy := self._copy(record)) is None:
                continue
            marker = f"{self.context.operation.id}-{self.mint()[:8]}"
            try:
                if await_drained(copy, marker, self.timeout, same_source=same_source):
                    self.processed |= {each for each in self._sessions(name) if _is_read_by(each, copy)}
            except DrainTimeout:
                if not self._allowed:
                    raise

    def _copy(self, record: AttemptRecord) -> Copy | None:
        """A copy that can drain its session; ``None`` if it cannot."""
        form, pool = self.context.form(record), self.context.pool
        away = {form.spe_address, form.source_broker}.intersection(self.context.left_behind)
        if record.handle is None or record.phase is not AttemptPhase.RUNNING or away:
            return None
        engine, broker = pool.engine(form), pool.broker(form.source_broker)
        return Copy(form, record.attempt.session, record.handle, engine, broker)

    def _start_once_more(self, name: str, session: SessionRecord, waiting: int | None) -> None:
        found = self._last_reader(name, session)
        if found is None or found[1].spe_address in self.context.left_behind:
            raise self._refusal(name, session, waiting, "no startable form of it reads there")
        revision, form = found
        self.attempts.stop_all(name, keep_state=True, required=form.upgrade == "stateful")
        if waiting is None:
            self.sessions.make(session, again=True)
        try:
            self.attempts.launch(form, revision)
        except (OutcomeUnknown, Unreachable):
            raise
        except BinderError as error:
            why = f"it cannot be restarted in its old form to process them: {error}"
            raise self._refusal(name, session, waiting, why) from error
        self._drain_copies(name)
        for undrained, still in self._unread(name, [session]):
            raise self._refusal(
                name, undrained, still, "it was restarted in its old form to process them, and failed"
            )
        # It has come up: should the next form not start, this one is the way back.
        self.context.note(name, Confirmed(self.released(name, session, None)))

    def _last_reader(self, name: str, session: SessionRecord) -> tuple[int, Job] | None:
        for record in self.context.store.attempts(name):
            form = self.context.form(record)
            if source_of(form) == session.source:
                return record.revision, form
        history = History(self.context.store)
        return history.last_reader(self.context.operation.composition, name, [session.source])

    # --- sessions

    def _sessions(self, name: str) -> tuple[SessionRecord, ...]:
        return self.context.record(name).sessions

    def _unprocessed(self, action: Action) -> Iterator[tuple[SessionRecord, int | None]]:
        """The sessions with messages that an action leaves and no copy reads, and how many wait.

        ``None``: its broker has lost the session, so that its writers may retain some.
        """
        name, history = action.job.job_name, History(self.context.store)
        composition = self.context.operation.composition
        yield from self._unread(name, left_sessions(history, composition, action, self._sessions(name)))

    def _unread(self, name: str, sessions: list[SessionRecord]) -> Iterator[tuple[SessionRecord, int | None]]:
        for session in sessions:
            if session in self.processed or session.broker in self.context.left_behind:
                continue
            if any(_is_read_by(session, copy) and copy.is_up() for copy in self._copies(name)):
                continue
            waiting = self.sessions.waiting(name, session)
            if waiting == 0:
                self.processed.add(session)
            else:
                yield session, waiting

    def _copies(self, name: str) -> list[Copy]:
        copies = map(self._copy, self.context.store.attempts(name))
        return [copy for copy in copies if copy is not None]

    def _refusal(self, name: str, session: SessionRecord, waiting: int | None, why: str) -> Rejected:
        left = f"{waiting_text(waiting, session.topic, session.broker)}, which job {name!r} leaves; they"
        if waiting is None:
            lost = f"{session.broker} has lost the session at {session.topic!r}, which job {name!r} leaves"
            left = f"{lost}; messages that its writers retain"
        remedy = f"fix the job and apply again, revert the change, or {REMEDY}"
        return Rejected(f"{left} would be lost: {why} ({remedy})", address=session.broker)


def _is_read_by(session: SessionRecord, copy: Copy) -> bool:
    return (session.broker, session.name) == (copy.job.source_broker, copy.session)


def _keeps_source(action: Action) -> bool:
    return isinstance(action, Update | Move) and source_of(action.previous) == source_of(action.job)


# --- one copy


@dataclass(frozen=True)
class Copy:
    """A running copy of a job, the session through which it reads, and the binders of both."""

    job: Job
    session: str
    handle: Handle
    engine: EngineBinder
    broker: BrokerBinder

    def is_up(self) -> bool:
        """True if it runs or starts.  Raises as :meth:`state`."""
        return self.state() in _UP

    def state(self) -> JobState:
        """Its state.  Raises :class:`~speck.errors.Unreachable` when its engine does not answer."""
        for _ in range(_TRIES):
            status = self.engine.status(self.handle)
            if status.state is not JobState.UNKNOWN:
                return status.state
            time.sleep(_PAUSE)
        raise Unreachable(status.message, address=self.handle.address)

    def rows(self) -> int | None:
        """The rows that it has read, if its engine counts them."""
        try:
            return self.engine.metrics(self.handle).input_rows
        except BinderError:
            return None


def await_drained(copy: Copy, marker: str, bound: float, *, same_source: bool = False) -> bool:
    """True once the copy has confirmed that it has processed the messages which waited at the call.

    False if it does not run, or has run and read nothing for some seconds: its connector may have no drain
    markers, or may not have reached its broker yet.

    Raises :class:`~speck.errors.DrainTimeout` when it is not drained after ``bound`` seconds (0: no wait),
    and :class:`~speck.errors.BinderError` when its engine does not answer: it cannot be stopped then either.
    With ``same_source``, the next form of the job reads the same source.
    """
    deadline = time.monotonic() + bound
    detail = ""
    while (remaining := deadline - time.monotonic()) > 0:
        if not copy.is_up():
            return False
        try:
            answer = copy.broker.drained(copy.session, marker, min(remaining, _ASK_AGAIN))
        except BinderError as error:
            detail, answer = f" ({error})", False
            time.sleep(min(remaining, _PAUSE))
        if answer:
            return True
        if answer is None and _is_still(copy, deadline):
            return False
    if bound > 0 and copy.is_up():
        raise DrainTimeout(_timeout_text(copy, bound, same_source) + detail, address=copy.job.spe_address)
    return False


def _is_still(copy: Copy, deadline: float) -> bool:
    """True once the copy has run and read nothing for some seconds; false if it does not in time."""
    seen, since = copy.rows(), time.monotonic()
    while time.monotonic() < deadline:
        if copy.state() is not JobState.RUNNING:
            time.sleep(_PAUSE)
            return False
        if time.monotonic() > since + _STILL:
            return True
        time.sleep(_PAUSE)
        now = copy.rows()
        if now != seen:
            seen, since = now, time.monotonic()
    return False


def _left_text(copy: Copy) -> str:
    """The messages that are left, of a broker that counts them; empty otherwise."""
    if Capability.BACKLOG not in copy.broker.capabilities:
        return ""
    try:
        backlog = copy.broker.behind([copy.session]).get(copy.session)
    except BinderError:  # the text is of another error, which must not be replaced
        return ""
    return "" if backlog is None else f" ({exact_text(backlog.messages)} left)"


def _timeout_text(copy: Copy, bound: float, same_source: bool) -> str:
    stays, off = (
        "the job keeps reading there, and messages at its next source are retained",
        "drops the messages",
    )
    if same_source:
        stays, off = "the job stays as it is", "changes it at once"
    return (
        f"the messages at {copy.job.source_topic!r} of {copy.job.source_broker} were not drained in "
        f"{bound:g} s{_left_text(copy)}: {stays} (apply again when it is drained; speck serve --drain sets "
        f"the time, 0 {off})"
    )
