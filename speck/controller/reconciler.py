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

from speck.apply.operation import Operation
from speck.binder.pool import BinderPool
from speck.controller.backoff import Backoff
from speck.controller.drift import GONE, Drifted, EngineCopy, drifts, sightings
from speck.controller.gate import GatedPlan, brokers_of, engines_of, gate_actions
from speck.controller.orphans import Orphans
from speck.controller.reaper import Reaper
from speck.core.plan import Action, Keep, Move, Plan, Start, Update, make_plan
from speck.core.runtime import Drift, JobState, JobStatus
from speck.errors import SpeckError
from speck.observe.metrics import Metrics
from speck.observe.observer import Observation, Observer
from speck.store import Event, Transaction
from speck.store.deployments import Deployments, EngineKey, Snapshot

_log = logging.getLogger(__name__)

STUCK = 300.0  # s; many times what all the silent engines and brokers of a round take together
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

    def quietly(self, composition: str, turn: int, write: Callable[[Transaction], None]) -> bool:
        """Write down what was found out, if it still is this turn; answers whether it was."""


@dataclass
class Reconciler:
    """``clock`` tells Unix time, s; a round that takes longer than ``patience`` (s) is stuck."""

    deployments: Deployments
    observer: Observer
    pool: BinderPool
    healer: Healer
    leftovers: Reaper
    clock: Callable[[], float]
    backoff: Backoff = field(default_factory=Backoff)
    gauges: Metrics = field(default_factory=Metrics)
    patience: float = STUCK
    _notes: dict[str, Note] = field(default_factory=dict, init=False)
    _strays: Orphans = field(init=False)
    _missed: Counter[str] = field(default_factory=Counter, init=False)
    _begun: float | None = field(default=None, init=False)  # monotonic, s: of the round at work
    _rounds: int = field(default=0, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        store, heal = self.deployments.store, self.healer.quietly
        self._strays = Orphans(store, self.pool, heal, self._stray_event)

    # --- the thread

    def start(self, period: float) -> None:
        """Go round in the background, at once and then every ``period`` seconds."""
        self._thread = threading.Thread(target=self._run, args=(period,), name="loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Go round no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.leftovers.close()

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

    @property
    def has_looked(self) -> bool:
        """Whether a round ended well since the start; of a loop that does not go round, that nobody waits."""
        return self._rounds > 0 or self._thread is None

    def fault(self) -> str:
        """What keeps the loop from going round; empty when nothing does."""
        thread, begun = self._thread, self._begun
        if thread is not None and not thread.is_alive() and not self._stop.is_set():
            return "the loop has ended"
        taken = 0.0 if begun is None else time.monotonic() - begun
        return f"the loop is stuck in a round for {taken:.0f} s" if taken > self.patience else ""

    def note(self, job: str) -> Note | None:
        """What is not as wanted with a job, as the last round saw it."""
        return self._notes.get(job)

    def next_try(self, job: str) -> float | None:
        """When a job that failed is tried again (Unix time, s)."""
        note = self._notes.get(job)
        waits_for_user = note is None or note.waits == NEVER or self.backoff.held(job) is not None
        return None if waits_for_user else self.backoff.next_try(job)

    def begins(self, jobs: Iterable[str]) -> None:
        """A user asked for something to be done with these jobs: what was tried before counts no more."""
        self.backoff.forget(jobs)

    def ended(self, operation: Operation, plan: Plan) -> None:
        """Take note of how an operation ended, so that what failed is tried again in due time."""
        now = self.clock()
        for action in plan.actions:
            name = action.job.job_name
            progress = operation.actions[name]
            if progress.state == "failed" and (_never(action) or self._disturbs(action)):
                self.backoff.hold(name, f"was refused (apply it again when that is mended): {progress.error}")
            elif isinstance(action, Keep):
                continue
            elif operation.kind == "heal":
                self.backoff.ended(name, now)
            elif progress.state == "failed":
                self.backoff.tried([name], now)
            elif progress.state == "done":
                self.backoff.forget([name])

    def _disturbs(self, action: Action) -> bool:
        """Whether another try would stop a copy that runs: the former version, which was put back."""
        attempts = self.deployments.store.attempts(action.job.job_name)
        return isinstance(action, Update | Move) or any(each.phase == "running" for each in attempts)

    # --- a round

    def round(self) -> None:
        """Look at everything once, tell what drifted, and begin to heal it."""
        self._begun = time.monotonic()
        try:
            with self.gauges.round():
                self._round()
            self._rounds += 1
        finally:
            self._begun = None

    def _round(self) -> None:
        self.deployments.store.retry()
        turns = self.healer.turns()
        snapshots = self.deployments.snapshots()
        look = self.observer.poll([each for snapshot in snapshots for each in snapshot.deployed()])
        seen = sightings(look.found, self.deployments.store.abandoned_attempts())
        self._forget_others(snapshots)
        for snapshot in snapshots:
            name = snapshot.head.name
            # What was seen while an operation was at work may be half of what it did.
            if self.healer.free(name) and self.healer.turns().get(name, 0) == turns.get(name, 0):
                self._attend(snapshot, look, seen, turns.get(name, 0))
        self.leftovers.round(look.silent)
        self._strays.tell_unknown(seen)

    def _forget_others(self, snapshots: Sequence[Snapshot]) -> None:
        known = {name for each in snapshots for name in (*each.records, *each.wanted)}
        for kept in (self._notes, self._missed):
            for name in set(kept) - known:
                del kept[name]
        self.backoff.keep(known)

    def _attend(
        self, snapshot: Snapshot, look: Observation, seen: Mapping[str, Sequence[EngineCopy]], number: int
    ) -> None:
        drifted = drifts(snapshot, look.statuses, seen, self.deployments.store.identity)
        self._count(snapshot, look.statuses, drifted)
        self._tell(snapshot, look.statuses, drifted)
        self._see_to_strays(snapshot, drifted, number)
        if not drifted and not snapshot.head.deleting:
            return
        plan = make_plan(
            snapshot.head.name, snapshot.head.revision, snapshot.wanted, snapshot.stored(), look.statuses
        )
        turn = self._take_turns(snapshot, plan, look, drifted)
        self._note_waits({name: turn.waits.get(name, "") for name in drifted})
        if turn.due or (snapshot.head.deleting and not snapshot.records):
            # Before anything is asked: should this coordinator die of it, the next one waits its time.
            self.backoff.tried([each.job.job_name for each in turn.due], self.clock())
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
            self.gauges.drifted(now.drift)
            message = f"job {name!r}: {now.drift.value}: {now.message}"
            yield self._event(snapshot, "drift", name, message)

    @staticmethod
    def _is_well(snapshot: Snapshot, name: str, status: JobStatus | None) -> bool:
        return name in snapshot.records and status is not None and status.state is JobState.RUNNING

    def _event(self, snapshot: Snapshot, kind: str, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, snapshot.head.name, job, by_loop=True)

    # --- deciding

    def _take_turns(
        self, snapshot: Snapshot, plan: Plan, look: Observation, drifted: Mapping[str, Drifted]
    ) -> GatedPlan:
        held = dict(self._own_reasons(snapshot, plan, drifted))
        first = self.deployments.store.first_attempt
        begun = {name for name, each in snapshot.records.items() if each.sessions and each.attempts > first}
        named = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        engines = {name: engines_of(each) | snapshot.engines(name) for name, each in named.items()}
        candidates = [each for name, each in named.items() if name not in held]
        silent = look.silent
        if candidates:
            asked = {key for name in named.keys() - held.keys() for key in engines[name]}
            silent = {**silent, **self._silent(asked, candidates, look)}
        return gate_actions(plan, snapshot.wanted, engines, begun, held, silent)

    def _own_reasons(
        self, snapshot: Snapshot, plan: Plan, drifted: Mapping[str, Drifted]
    ) -> Iterable[tuple[str, str]]:
        """What jobs wait for that has nothing to do with others."""
        now = self.clock()
        for action in plan.actions:
            name = action.job.job_name
            drift, when = drifted.get(name), self.backoff.next_try(name)
            refused = self.backoff.held(name)
            if refused is not None and (isinstance(action, Update | Move) or _never(action)):
                yield name, refused
            elif drift is not None and drift.stray is not None and isinstance(action, Start):
                yield name, drift.message
            elif drift is not None and drift.drift in GONE.values() and _never(action):
                yield name, NEVER
            elif when is not None and when > now:
                yield name, "waits for its next try"
            elif drift is not None and drift.drift is Drift.LOST and self._missed[name] < 2:
                # An engine that comes up again may not know yet what it recovers.
                yield name, "is looked for once more"

    def _silent(
        self, engines: Iterable[EngineKey], actions: Iterable[Action], look: Observation
    ) -> dict[str, str]:
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

    # --- copies that the store does not name

    def _see_to_strays(self, snapshot: Snapshot, drifted: Mapping[str, Drifted], number: int) -> None:
        """Stop those beside a newer copy of a job, take up those in place of one; others are only told."""
        for name, each in drifted.items():
            try:
                if each.older:
                    self._strays.end(snapshot, name, each)
                elif each.wanted:
                    self._strays.take_up(snapshot, name, each, number)
            except SpeckError as error:
                self._note_waits({name: str(error)})

    def _stray_event(self, kind: str, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, "", job, by_loop=True)


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
