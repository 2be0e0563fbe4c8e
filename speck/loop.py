"""The loop that keeps it true: looks at what is, names what drifted from what is wanted, and has it healed.

It is level-triggered: each round starts from what the store wants and the engines say, whatever happened
before.  So what a crash, an unreachable site or a failed action left undone is found again, and done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

from speck.backoff import Backoff
from speck.deployment import Deployments, EngineKey, Snapshot
from speck.drift import GONE, Drifted, Sighting, drifts, sightings
from speck.errors import SpeckError
from speck.healing import Turn, brokers_of, engines_of, take_turns
from speck.leaving import Leaver, left_copies
from speck.model import Attempt, Drift, JobState, JobStatus
from speck.operation import Operation
from speck.plan import Action, Keep, Move, Plan, Start, Update, make_plan
from speck.pool import BinderPool
from speck.reconcile import Look, Observer
from speck.store import Event

_log = logging.getLogger(__name__)

# An engine is asked so often that a death is seen within 10 s of it, the answer's time included.
PERIOD = 9.5  # s between the beginnings of two rounds
PROBES = 16  # engines and brokers that are asked at a time whether they are there

NEVER = "restart: never (apply it again to start it)"


@dataclass(frozen=True, slots=True)
class Note:
    """A job that is not as wanted: since when (Unix time, s), and what its healing waits for."""

    drifted: Drifted
    since: float
    waits: str = ""


class Healer(Protocol):
    """Carries out what the loop decides."""

    def turns(self) -> Mapping[str, int]:
        """For each composition, a number that changes whenever an operation on it begins or ends."""

    def free(self, composition: str) -> bool:
        """Whether nothing is at work on the composition, and nobody waits to be."""

    def heal(self, snapshot: Snapshot, plan: Plan, turn: int) -> Operation | None:
        """Begin to carry out a plan; ``None`` when it is no longer this turn on the composition."""


@dataclass
class Loop:
    """``clock`` tells Unix time, s."""

    deployments: Deployments
    observer: Observer
    pool: BinderPool
    healer: Healer
    clock: Callable[[], float]
    backoff: Backoff = field(default_factory=Backoff)
    _notes: dict[str, Note] = field(default_factory=dict, init=False)
    _missed: Counter[str] = field(default_factory=Counter, init=False)
    _held: dict[str, str] = field(default_factory=dict, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    # --- the thread

    def start(self, period: float = PERIOD) -> None:
        """Go round in the background, at once and then every ``period`` seconds."""
        self._thread = threading.Thread(target=self._run, args=(period,), name="loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Go round no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, period: float) -> None:
        due = time_left = 0.0
        while not self._stop.wait(time_left):
            begun = time.monotonic()
            try:
                self.round()
            except Exception:
                _log.exception("a round of the loop failed")
            # By the beginnings, so that a round that takes long does not put off the next.
            due = max(due, begun) + period
            time_left = max(0.0, due - time.monotonic())

    # --- what others ask and tell

    def note(self, job: str) -> Note | None:
        """What is not as wanted with a job, as the last round saw it."""
        return self._notes.get(job)

    def next_try(self, job: str) -> float | None:
        """When a job that failed is tried again (Unix time, s)."""
        note = self._notes.get(job)
        waits_for_user = note is None or note.waits == NEVER or job in self._held
        return None if waits_for_user else self.backoff.next_try(job)

    def begins(self, jobs: Iterable[str]) -> None:
        """A user asked for something to be done with these jobs: what was tried before counts no more."""
        names = list(jobs)
        self.backoff.forget(names)
        for name in names:
            self._held.pop(name, None)

    def ended(self, operation: Operation, plan: Plan) -> None:
        """Take note of how an operation ended, so that what failed is tried again in due time."""
        now = self.clock()
        for action in plan.changes:
            name = action.job.job_name
            progress = operation.actions[name]
            disturbs = isinstance(action, Update | Move)  # a copy that runs, with each try
            if progress.state == "failed" and (disturbs or _never(action)):
                self._held[name] = f"was refused (apply it again when that is mended): {progress.error}"
            elif progress.state == "failed" or operation.kind == "heal":
                self.backoff.tried(name, now)

    # --- a round

    def round(self) -> None:
        """Look at everything once, tell what drifted, and begin to heal it."""
        turns = self.healer.turns()
        snapshots = self.deployments.snapshots()
        look = self.observer.look([each for snapshot in snapshots for each in snapshot.deployed()])
        seen = sightings(look.found)
        self._forget_others(snapshots)
        for snapshot in snapshots:
            name = snapshot.head.name
            # What was seen while an operation was at work may be half of what it did.
            if self.healer.free(name) and self.healer.turns().get(name, 0) == turns.get(name, 0):
                self._attend(snapshot, look, seen, turns.get(name, 0))
        self._end_left(look)

    def _forget_others(self, snapshots: Sequence[Snapshot]) -> None:
        known = {name for each in snapshots for name in (*each.records, *each.wanted)}
        for kept in (self._notes, self._missed, self._held):
            for name in set(kept) - known:
                del kept[name]
        self.backoff.keep(known)

    def _attend(
        self, snapshot: Snapshot, look: Look, seen: Mapping[str, Sequence[Sighting]], number: int
    ) -> None:
        drifted = drifts(snapshot, look.statuses, seen)
        self._count(snapshot, look.statuses, drifted)
        self._tell(snapshot, look.statuses, drifted)
        self._end_strays(snapshot, drifted)
        if not drifted and not snapshot.head.deleting:
            return
        plan = make_plan(
            snapshot.head.name, snapshot.head.revision, snapshot.wanted, snapshot.stored(), look.statuses
        )
        turn = self._take_turns(snapshot, plan, look, drifted)
        self._note_waits({name: turn.waits.get(name, "") for name in drifted})
        if turn.due or (snapshot.head.deleting and not snapshot.records):
            self.healer.heal(snapshot, replace(plan, actions=turn.due), number)

    def _count(
        self, snapshot: Snapshot, statuses: Mapping[str, JobStatus], drifted: Mapping[str, Drifted]
    ) -> None:
        now = self.clock()
        for name in snapshot.records:
            state = statuses[name].state if name in statuses else None
            if state is JobState.RUNNING:
                self.backoff.runs(name, now)
            elif state is not JobState.UNKNOWN:
                self.backoff.fell(name)
            if name in drifted and drifted[name].drift is Drift.LOST:
                self._missed[name] += 1
            elif state is not JobState.UNKNOWN:
                self._missed.pop(name, None)

    # --- telling

    def _tell(
        self, snapshot: Snapshot, statuses: Mapping[str, JobStatus], drifted: Mapping[str, Drifted]
    ) -> None:
        events: list[Event] = []
        for name in snapshot.records.keys() | snapshot.wanted.keys():
            before, now = self._notes.get(name), drifted.get(name)
            if now is not None:
                events += self._drifted(snapshot, name, before, now)
            elif before is not None and self._is_well(snapshot, name, statuses.get(name)):
                del self._notes[name]
                events.append(self._event(snapshot, "healed", name, f"job {name!r} is as wanted again"))
        if events:
            with self.deployments.store.transaction() as transaction:
                for event in events:
                    transaction.add_event(event)

    def _drifted(self, snapshot: Snapshot, name: str, before: Note | None, now: Drifted) -> Iterable[Event]:
        known = before is not None and before.drifted.drift is now.drift
        if known and before is not None:
            self._notes[name] = replace(before, drifted=now)
        else:
            self._notes[name] = Note(now, self.clock())
        if not known:
            message = f"job {name!r}: {now.drift.value}: {now.message}"
            yield self._event(snapshot, "drift", name, message)

    @staticmethod
    def _is_well(snapshot: Snapshot, name: str, status: JobStatus | None) -> bool:
        return name in snapshot.records and status is not None and status.state is JobState.RUNNING

    def _event(self, snapshot: Snapshot, kind: str, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, snapshot.head.name, job)

    # --- deciding

    def _take_turns(self, snapshot: Snapshot, plan: Plan, look: Look, drifted: Mapping[str, Drifted]) -> Turn:
        held = dict(self._own_reasons(snapshot, plan, drifted))
        begun = {name for name, record in snapshot.records.items() if record.attempts}
        named = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        engines = {name: engines_of(each) | snapshot.engines(name) for name, each in named.items()}
        candidates = [each for name, each in named.items() if name not in held]
        silent = look.silent
        if candidates:
            asked = {key for name in named.keys() - held.keys() for key in engines[name]}
            silent = {**silent, **self._silent(asked, candidates, look)}
        return take_turns(plan, snapshot.wanted, engines, begun, held, silent)

    def _own_reasons(
        self, snapshot: Snapshot, plan: Plan, drifted: Mapping[str, Drifted]
    ) -> Iterable[tuple[str, str]]:
        """What jobs wait for that has nothing to do with others."""
        now = self.clock()
        for action in plan.actions:
            name = action.job.job_name
            drift, when = drifted.get(name), self.backoff.next_try(name)
            if name in self._held and (isinstance(action, Update | Move) or _never(action)):
                yield name, self._held[name]
            elif drift is not None and drift.stray is not None and isinstance(action, Start):
                yield name, drift.message
            elif drift is not None and drift.drift in GONE.values() and _never(action):
                yield name, NEVER
            elif when is not None and when > now:
                yield name, "waits for its next try"
            elif drift is not None and drift.drift is Drift.LOST and self._missed[name] < 2:
                # An engine that comes up again may not know yet what it recovers.
                yield name, "is looked for once more"

    def _silent(self, engines: Iterable[EngineKey], actions: Iterable[Action], look: Look) -> dict[str, str]:
        """Which of the engines, and of these actions' brokers, do not answer, with their reasons."""
        known = look.found.keys() | look.silent.keys()
        unknown = [key for key in engines if key[1] not in known]
        brokers = {address for action in actions for address in brokers_of(action)}
        asked: list[tuple[str, Callable[[], object]]] = [
            *((key[1], lambda key=key: self.pool.engine_at(*key).capacity()) for key in unknown),
            *((address, lambda address=address: self.pool.broker(address).check()) for address in brokers),
        ]
        with ThreadPoolExecutor(min(PROBES, max(1, len(asked))), thread_name_prefix="probe") as threads:
            answers = threads.map(lambda each: (each[0], _reason(each[1])), asked)
            return {address: reason for address, reason in answers if reason}

    def _note_waits(self, waits: Mapping[str, str]) -> None:
        for name, why in waits.items():
            if name in self._notes:
                self._notes[name] = replace(self._notes[name], waits=why)

    # --- copies too many

    def _end_strays(self, snapshot: Snapshot, drifted: Mapping[str, Drifted]) -> None:
        """Stop the second copies that read through a job's own session; any others are only told."""
        for name, each in drifted.items():
            if each.drift is Drift.TWICE and each.ours and each.stray is not None:
                try:
                    self._end_stray(snapshot, name, each)
                except SpeckError as error:
                    self._note_waits({name: str(error)})

    def _end_stray(self, snapshot: Snapshot, name: str, drifted: Drifted) -> None:
        assert drifted.stray is not None and drifted.stray.attempt is not None  # noqa: S101 - the caller looked
        job = snapshot.forms[name]
        attempt = Attempt(id=drifted.stray.attempt, job_name=name, number=0, session="")
        engine = self.pool.engine_at(job.engine, drifted.stray_at)
        handle = engine.find(attempt)
        if handle is not None:
            engine.stop(handle, keep_state=False)
            message = f"job {name!r}: second copy (attempt {attempt.id}) stopped at {drifted.stray_at}"
            with self.deployments.store.transaction() as transaction:
                transaction.add_event(self._event(snapshot, "stopped", name, message))

    def _end_left(self, look: Look) -> None:
        """Stop what was left behind at engines that answer again."""
        store = self.deployments.store
        if left_copies(store):
            silent = frozenset(look.silent)
            Leaver(store, self.pool, "", silent, lambda _call: None, self._left_event).settle()

    def _left_event(self, kind: str, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, "", job)


def _never(action: Action) -> bool:
    return isinstance(action, Start) and action.job.restart == "never"


def _reason(ask: Callable[[], object]) -> str:
    try:
        ask()
    except SpeckError as error:
        return str(error)
    except Exception as error:
        _log.exception("a probe failed")
        return f"internal error: {error!r}"
    return ""
