"""Adoption: running copies that another store has started become the attempts of this one.

The engine's marks of a copy name its store, its attempt, its form and the numbers of its stamps; the form is
a fingerprint of all that an engine would notice, so that a copy is taken for a job of a file only where both
are the same.  The session is the one at the broker whose fingerprint the copy's marks contain.  Whatever has
to be guessed otherwise is refused, with the reason.

The copy goes on reading meanwhile: the records of its session at the broker get a new owner, and the store
gets the attempt.  The broker comes first.  A crash in between leaves a session of this store whose copy names
the other one, and the next adoption finds both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar, cast

from speck.apply.copies import CopyKind, EngineCopy, KnownJob, classify
from speck.apply.foreign import is_new, unstarted
from speck.apply.job_events import CopyAdopted
from speck.binder import OwnedSession
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.binder.retry import with_retries
from speck.core.attempt_number import HIGHEST
from speck.core.job import Job, client_id, form_fingerprint, session_fingerprint
from speck.core.runtime import Attempt, Found, Handle
from speck.errors import BinderError, NotAdoptable, Rejected
from speck.store import SessionRecord, Store
from speck.store.deployments import EngineKey

PATIENCE = 50.0  # s, for the answers of all; a request waits for a minute

_END = "end it at its engine and remove its session, or give the job another name; docs/store.md, Adopting"
_START = "speck apply starts it"
_WAIT = "adopt again when it does, or name the other jobs (--job)"
_FILE = "adopt with the file from which it was deployed, and apply this one afterwards"

_Key = TypeVar("_Key", bound=Hashable)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A copy at ``address`` that can become the attempt of a job, as its engine and its broker describe it.

    ``owner`` is the identity of the store that has started it; ``number``, ``incarnation``, ``origin`` and
    ``lineage`` are of its :class:`~speck.core.runtime.Attempt`; ``fenced`` is the highest attempt that the
    fence of its session has named.
    """

    job: str
    owner: str
    address: str
    attempt: str
    number: int
    broker: str
    session: str
    fenced: int
    incarnation: int
    origin: int
    lineage: str

    def text(self) -> str:
        """The adoption in words."""
        return (
            f"attempt {self.number} ({self.attempt}) at {self.address}, of store {self.owner}, with session "
            f"{self.session!r} at {self.broker}"
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that another store runs, or may run, and that cannot be adopted; ``remedy`` is a way on."""

    job: str
    reason: str
    remedy: str = _END

    def text(self) -> str:
        """The refusal in one line."""
        return f"job {self.job!r} cannot be adopted: {self.reason} ({self.remedy})"


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """The copies of other stores that an adoption takes into the store, and the jobs that it does not.

    ``absent`` are jobs of which no copy was found; ``own`` are those that this store runs already.
    """

    composition: str
    base_revision: int
    adoptions: tuple[Adoption, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    absent: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "composition": self.composition,
            "base_revision": self.base_revision,
            "adopts": [asdict(each) for each in self.adoptions],
            "refuses": [asdict(each) for each in self.refusals],
            "absent": list(self.absent),
            "own": list(self.own),
        }

    def refuse(self) -> None:
        """Raise :class:`~speck.errors.NotAdoptable` if a job is refused, or there is nothing to adopt."""
        if self.refusals:
            raise NotAdoptable("\n".join(each.text() for each in self.refusals))
        if not self.adoptions:
            raise NotAdoptable(
                f"composition {self.composition!r}: no engine of its jobs runs a copy of another store "
                "(expected one to adopt; speck apply starts jobs that do not run)"
            )


@dataclass(frozen=True)
class Adoptions:
    """Finds and adopts the copies that other stores have started; safe to use from several threads."""

    store: Store
    pool: BinderPool

    def plan(
        self, composition: str, base_revision: int, jobs: Iterable[Job], named: Collection[str] = ()
    ) -> AdoptionPlan:
        """The copies of these jobs (of those ``named`` alone, if any are) that can be adopted.

        Each engine and each broker is asked once.  A job that is named and has no copy is refused.
        """
        chosen = [each for each in jobs if not named or each.job_name in named]
        new = [each for each in chosen if is_new(self.store, each.job_name)]
        engines = _asked({(each.engine, each.spe_address) for each in new}, self._running)
        brokers = _asked({each.source_broker for each in new}, self._sessions)
        known = unstarted(self.store)
        found = [
            decide(each, known, engines[each.engine, each.spe_address], brokers[each.source_broker])
            for each in new
        ]
        absent = [job.job_name for job, each in zip(new, found, strict=True) if each is None]
        lacking = [Refusal(each, "no copy of it runs at its engine", _START) for each in absent if named]
        return AdoptionPlan(
            composition,
            base_revision,
            tuple(each for each in found if isinstance(each, Adoption)),
            (*(each for each in found if isinstance(each, Refusal)), *lacking),
            tuple(absent),
            tuple(each.job_name for each in chosen if each not in new),
        )

    def _running(self, key: EngineKey) -> Sequence[Found]:
        return with_retries(self.pool.engine_at(*key).running)

    def _sessions(self, address: str) -> Sequence[OwnedSession]:
        return with_retries(self.pool.broker(address).owned_sessions)

    def handles(self, jobs: Mapping[str, Job], adoptions: Iterable[Adoption]) -> dict[str, Handle]:
        """The engines' handles of the copies, by job name; changes nothing.

        Raises :class:`~speck.errors.NotAdoptable` for a copy that is gone by now.
        """
        return {each.job: self._handle(jobs[each.job], each) for each in adoptions}

    def _handle(self, job: Job, adoption: Adoption) -> Handle:
        engine = self.pool.engine(job)
        handle = with_retries(partial(engine.find, attempt_of(adoption)))
        if handle is None:
            raise NotAdoptable(Refusal(job.job_name, f"{adoption.text()} has ended by now", _START).text())
        return handle

    def take_sessions(self, adoptions: Iterable[Adoption]) -> None:
        """Make the sessions of the copies this store's; those that are already stay so."""
        for each in adoptions:
            broker = self.pool.broker(each.broker)
            with_retries(partial(broker.adopt_session, each.session, each.owner))


def decide(
    job: Job,
    known: KnownJob,
    copies: Sequence[Found] | BinderError,
    sessions: Sequence[OwnedSession] | BinderError,
) -> Adoption | Refusal | None:
    """The adoption of a job by a store that never started it, or the reason against it.

    ``None`` if nobody runs the job.  ``copies`` are all that its engine runs, ``sessions`` all of its source
    broker that have an owner; or the errors with which these answered.
    """
    own = known.owner
    if isinstance(sessions, BinderError):
        return Refusal(job.job_name, str(sessions), _WAIT)
    if isinstance(copies, BinderError) and not isinstance(copies, Rejected):  # which has no list of its jobs
        return Refusal(job.job_name, str(copies), _WAIT)
    others = [each for each in sessions if each.owner != own and _collects_for(each, job)]
    named = (
        () if isinstance(copies, BinderError) else [each for each in copies if each.job_name == job.job_name]
    )
    kinds = [(classify(EngineCopy(job.spe_address, each), known), each) for each in named]
    listed = [each for kind, each in kinds if kind is not CopyKind.ABANDONED]
    # Of this store, too: an adoption may have been broken off when the session was its own already.
    marked = [each for kind, each in kinds if kind not in (CopyKind.ABANDONED, CopyKind.UNMARKED)]
    if len(marked) > 1:
        ids = ", ".join(str(each.attempt) for each in marked)
        reason = f"{len(marked)} copies of it run at {job.spe_address} (attempts {ids})"
        return Refusal(job.job_name, reason, "end all but one at the engine")
    if marked:
        return _compared(job, own, marked[0], sessions)
    if not others:
        return None  # a copy without any mark may be of anybody
    session = f"session {others[0].session!r} of store {others[0].owner} is at {job.source_broker}"
    if listed:
        return Refusal(job.job_name, f"{session}, and {job.spe_address} lists its copy without any mark")
    return Refusal(job.job_name, f"{session}, and {job.spe_address} lists no copy of it that reads there")


def _collects_for(session: OwnedSession, job: Job) -> bool:
    """True if a session is of a job of this name, and collects what the job reads."""
    named = session.session.partition(":")[0] == client_id(job.job_name)
    return named and job.source_topic in (session.topics or (job.source_topic,))


def _compared(job: Job, own: str, copy: Found, sessions: Sequence[OwnedSession]) -> Adoption | Refusal:
    """The adoption of a copy that has marks, if they are those of the job and of a session at its broker."""
    name, shown = job.job_name, f"its copy at {job.spe_address} (attempt {copy.attempt})"
    marks = {
        "store": copy.owner,
        "form": copy.form,
        "session": copy.reads,
        "number": copy.number,
        "stamps": copy.incarnation is not None,
    }
    if missing := [each for each, there in marks.items() if not there]:
        kind = "like copies that an earlier version has started"
        return Refusal(name, f"{shown} has no mark of its {', '.join(missing)}, {kind}")
    if copy.code and job.code_hash and copy.code != job.code_hash:
        reason = f"{shown} runs code {copy.code[:12]}, and the file has {job.code_hash[:12]}"
        return Refusal(name, reason, _FILE)
    if copy.form != form_fingerprint(job):
        fields = "addresses, topics, entry_class, arguments, parallelism, on_error or timezone"
        return Refusal(name, f"{shown} runs in another form than the file's: {fields} differ", _FILE)
    return _with_session(job, own, copy, shown, sessions)


def _with_session(
    job: Job, own: str, copy: Found, shown: str, sessions: Sequence[OwnedSession]
) -> Adoption | Refusal:
    name, broker = job.job_name, job.source_broker
    session = next(
        (each for each in sessions if session_fingerprint(broker, each.session) == copy.reads), None
    )
    if session is None:
        return Refusal(name, f"{broker} has no record of the session that {shown} reads through")
    if session.owner not in (copy.owner, own):
        third = f"session {session.session!r} at {broker} belongs to store {session.owner}"
        return Refusal(name, f"{third}, and {shown} to store {copy.owner}", "adopt it there")
    if max(copy.number, copy.incarnation or 0, copy.origin) >= HIGHEST:
        numbers = f"number {copy.number}, incarnation {copy.incarnation}, origin {copy.origin}"
        return Refusal(name, f"{shown} has {numbers}, which no store assigns (expected less than {HIGHEST})")
    if session.fenced > copy.number:
        reason = (
            f"{shown} is number {copy.number}, and the fence of {session.session!r} names {session.fenced}"
        )
        return Refusal(name, f"{reason}: it no longer reads")
    return Adoption(
        job=name,
        owner=copy.owner,
        address=job.spe_address,
        attempt=copy.attempt or "",
        number=copy.number,
        broker=broker,
        session=session.session,
        fenced=session.fenced,
        incarnation=copy.incarnation or 0,
        origin=copy.origin,
        lineage=copy.lineage,
    )


def event_of(job: Job, adoption: Adoption, handle: Handle, revision: int) -> CopyAdopted:
    """The event of a job's lifecycle by which the copy becomes its attempt in the form of a revision."""
    return CopyAdopted(
        attempt_of(adoption),
        revision,
        handle,
        SessionRecord(adoption.broker, adoption.session, job.source_topic, job.start),
        form_fingerprint(job),
        adoption.fenced,
    )


def attempt_of(adoption: Adoption) -> Attempt:
    """The attempt of a copy as the store that has started it had it, without the state that it began from."""
    return Attempt(
        id=adoption.attempt,
        job_name=adoption.job,
        number=adoption.number,
        session=adoption.session,
        lineage=adoption.lineage,
        incarnation=adoption.incarnation,
        origin=adoption.origin,
    )


def _asked(keys: Collection[_Key], call: Callable[[_Key], _Answer]) -> dict[_Key, _Answer | BinderError]:
    """The answer of each place, or its error."""
    asked = ask(keys, call, PATIENCE, name="adoption")
    failures = asked.failures()
    for error in failures.values():
        if not isinstance(error, BinderError):
            raise error
    return {
        key: asked.answers[key] if key in asked.answers else cast(BinderError, failures[key]) for key in keys
    }
