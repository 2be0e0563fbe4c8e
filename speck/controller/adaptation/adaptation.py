"""The adaptation loop: monitors, decides, and has the coordinator carry out what was decided.

One thread looks at the compositions with the mode ``auto`` every few seconds.  A decision is made by
:mod:`speck.placement.adaptation` and stored before it is carried out, so that another process goes on with
it if this one ends.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.controller.adaptation.decided import Decided, ban_event
from speck.controller.adaptation.freshness import undecidable_text, was_fresh
from speck.controller.adaptation.mover import Mover, Present
from speck.controller.adaptation.observations import Observations, backlogs
from speck.controller.adaptation.obstacles import Obstacles
from speck.controller.adaptation.pending import PendingStep
from speck.controller.adaptation.view import memory_data
from speck.controller.reconciler import Reconciler
from speck.core.adaptation import AdaptationState, StepOutcome, Trigger
from speck.core.clocks import Clock, steady_beside
from speck.core.lifecycle import AUTOMATIC, OperationKind, OperationState
from speck.core.placement import PlacementOptions
from speck.core.plan import Plan
from speck.errors import (
    Busy,
    NotFound,
    Overloaded,
    SpeckError,
    StalePlan,
    StaleRevision,
    StoreError,
    one_line,
)
from speck.loop import Loop
from speck.observe.measures import Measures
from speck.observe.metrics import Metrics
from speck.observe.pace import LEAST
from speck.observe.sampler import Sampler
from speck.placement.adaptation import limits
from speck.placement.adaptation.decide import (
    Choice,
    Revert,
    Step,
    decide,
    with_hold,
    with_last,
    with_refusal,
)
from speck.placement.adaptation.knowledge import undecidable
from speck.placement.adaptation.situation import Situation
from speck.placement.profile import Known, SiteProfile, Value
from speck.store import Event, Head, Store
from speck.store.deployments import Deployments, last_revisions

_log = logging.getLogger(__name__)

AUTHOR = "placement"  # of the revisions that the loop makes, for people
ROUND_PERIOD = 10.0  # s between two looks at what is measured
ATTENTION = 60.0  # s, for which a look keeps the measuring going


@dataclass
class Adaptation:
    """Decides for the compositions with the mode ``auto``.  ``clock`` gives Unix time, s.

    ``period`` is the time between two decisions, s (0: none are made).  ``mover`` acts for it.  Safe to use
    from several threads.
    """

    deployments: Deployments
    operations: Operations
    reconciler: Reconciler
    sampler: Sampler
    measures: Measures
    metrics: Metrics
    clock: Callable[[], float]
    period: float = 60.0
    mover: Mover = field(init=False)
    steady: Clock = field(init=False)  # that of what is in memory alone
    obstacles: Obstacles = field(init=False)
    _observations: dict[str, Observations] = field(default_factory=dict, init=False)
    _applied: set[str] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        """Follow the ends of operations; heals of the minute before are unknown."""
        self.steady = steady_beside(self.clock)
        self.loop = Loop("adaptation", "an adaptation round", self._timed_round)
        self.operations.on_end.append(self._note_end)
        self.obstacles = Obstacles(
            self.deployments, self.operations, self.reconciler, self.measures.inventory, self.steady
        )

    @property
    def store(self) -> Store:
        """The store of the memories."""
        return self.deployments.store

    # --- the thread

    def start(self) -> None:
        """Look and decide in the background, unless the period is 0."""
        if self.period:
            self.loop.start()

    def close(self) -> None:
        """Stop the thread, and wait for it."""
        self.loop.close()

    def _timed_round(self) -> float:
        self.round()
        return min(ROUND_PERIOD, self.period)

    # --- queries

    def all(self) -> dict[str, Any]:
        """The state of the loop, and that of each composition without its lists."""
        shown = []
        for head in self.store.heads():
            with suppress(NotFound):  # deleted since, or its revision is missing
                shown.append(self._shown(head))
        lists = ("entries", "steps", "bans")
        short = [{key: value for key, value in each.items() if key not in lists} for each in shown]
        return {"enabled": self.period > 0, "period": self.period, "compositions": short}

    def observations(self) -> dict[str, Observations]:
        """The last minutes of each composition with the mode ``auto``, by name."""
        return dict(self._observations)

    def advises_only(self, name: str) -> bool:
        """True if steps of a composition are only advised, as those of an hour or a day are made."""
        return self._memory(name).advise_only_until > self.clock()

    def show(self, name: str) -> dict[str, Any]:
        """The decisions on a composition.  Raises :class:`~speck.errors.NotFound`."""
        return self._shown(self.deployments.known_head(name))

    def pause(self, name: str, seconds: float) -> dict[str, Any]:
        """Hold a composition for this time, s: no step and no way back.

        Raises :class:`~speck.errors.NotFound`.
        """
        return self._put_pause(name, self.clock() + seconds)

    def resume(self, name: str) -> dict[str, Any]:
        """End a pause, and decide at once.  Raises :class:`~speck.errors.NotFound`."""
        shown = self._put_pause(name, 0.0)
        self._observations_of(name).resumed = True
        self.loop.wake()
        return shown

    def _put_pause(self, name: str, until: float) -> dict[str, Any]:
        head = self.deployments.known_head(name)
        with self._lock:
            self._write(name, replace(self.store.adaptation(name), paused=until, streak=None))
        return self._shown(head)

    def _shown(self, head: Head) -> dict[str, Any]:
        memory, options = self._memory(head.name), self._options(head)
        observed, enabled = self._observations.get(head.name), self.period > 0
        acts = enabled and options.mode == "auto"
        following = self._next(observed) if acts and observed is not None else None
        data = memory_data(memory, options, self.clock(), enabled=enabled)
        return {"composition": head.name, "revision": head.revision, "next": following} | data

    def _next(self, observed: Observations) -> float | None:
        """The time of the next decision (Unix, s); ``None`` before the first."""
        if not math.isfinite(observed.decided):
            return None
        return observed.decided + self.period + self.clock() - self.steady()

    def _memory(self, name: str) -> AdaptationState:
        """The memory of a composition, with no time further ahead than it may be."""
        now, options = self.clock(), self._options(self.deployments.head(name))
        return limits.with_present_limit(limits.bounded(self.store.adaptation(name), now), options, now)

    def _options(self, head: Head) -> PlacementOptions:
        if not head.revision:
            return PlacementOptions()
        return self.store.revision(head.name, head.revision).placement or PlacementOptions()

    # --- monitoring

    def round(self) -> None:
        """Look at each composition with the mode ``auto`` once, and decide where that is due."""
        deployed = list(self.store.heads())
        self._forget_others({each.name for each in deployed})
        found = last_revisions(self.store)
        heads = [head for head, last in found if last.placement is not None and last.placement.mode == "auto"]
        if heads:
            self.sampler.measure(ATTENTION)
        self.obstacles.note_silence()
        for head in heads:
            if not head.deleting and not self.loop.is_closed:
                self._round_of(head.name)
        for name in self._observations.keys() - {each.name for each in heads}:
            del self._observations[name]

    def _forget_others(self, names: Set[str]) -> None:
        """Forget the repairs and applies of compositions that are no longer there."""
        self.obstacles.forget_others(names)
        self._applied.intersection_update(names)

    def _round_of(self, name: str) -> None:
        """Look at one composition; its trouble keeps no other one from being looked at."""
        try:
            self._observe(name)
        except Exception:
            _log.exception("the adaptation of composition %r failed", name)

    def _observe(self, name: str) -> None:
        observed, now = self._observations_of(name), self.steady()
        try:
            present = self.mover.present(name)
        except SpeckError as error:
            if now - observed.decided >= self.period:
                observed.decided = now
                self._hold(name, f"its placement cannot be computed: {error}")
            return
        waiting = backlogs(self.sampler, self.store.jobs(name))
        observed.add(present, waiting, self.store.adaptation(name).rates, now)
        # Each decision has samples of its own.
        period = max(self.period, present.inputs.interval) if present.inputs.interval > LEAST else self.period
        trigger = observed.due(self.store.adaptation(name), self.obstacles.silent_sites(name), period, now)
        if trigger is not None:
            self.decide(name, trigger, present)

    def _observations_of(self, name: str) -> Observations:
        return self._observations.setdefault(name, Observations())

    def _note_end(self, operation: Operation, plan: Plan, state: OperationState) -> None:
        if operation.kind == OperationKind.HEAL:
            repaired = [each.job.job_name for each in plan.changes]
            self.obstacles.note_repair(operation.composition, repaired)
        elif operation.kind not in AUTOMATIC:
            self._applied.add(operation.composition)
        else:
            self.loop.wake()

    # --- deciding

    def decide(self, name: str, trigger: Trigger, present: Present) -> Choice | None:
        """Decide on a composition, store that, and carry it out; ``None`` if it is gone."""
        now = self.clock()
        observed = self._observations_of(name)
        if trigger is not Trigger.VERDICT:  # a judged step is followed by a decision at once
            observed.decided = self.steady()
        try:
            self._correct_speed_of_begun(name)
            seen = self._situation(name, trigger, present)
        except SpeckError as error:
            self._hold(name, f"its placement cannot be computed: {error}")
            return None
        with self._lock:
            before = self.store.adaptation(name)
            choice, after = decide(before, seen, now)
            if isinstance(choice, Revert):
                after = self._with_speed(after, seen)
            decided = Decided(name, choice, seen, before, after)
            # A move may be refused: its events are written with the intent of its operation.
            moves = isinstance(choice, Step | Revert)
            if not self._write(name, after, () if moves else decided.events(now)):
                return None
        observed.baseline = present.inputs.links
        if isinstance(choice, Step | Revert):
            self._carry_out(decided, choice)
        else:
            self._count(decided)
        return choice

    def _hold(self, name: str, reason: str) -> None:
        """Note that no decision can be made."""
        _log.warning("composition %r: %s", name, reason)
        with self._lock:
            memory = self.store.adaptation(name)
            memory = replace(memory, streak=None)
            self._write(name, with_hold(memory, reason, Situation(revision=memory.revision), self.clock()))

    def _situation(self, name: str, trigger: Trigger, present: Present) -> Situation:
        """The values that a decision is made of; asks for candidates only where one may be taken now."""
        memory, now = self._memory(name), self.clock()
        seen = self._observed_situation(name, trigger, present, memory)
        decidable = set(present.model.jobs).difference(seen.undecidable)
        if memory.pending is not None or seen.hold or seen.silent or memory.paused > now or not decidable:
            return seen
        forbidden = limits.forbidden(memory, now)
        advised = self.mover.advise(name, forbidden, seen.options.min_gain, seen.undecidable)
        regret = advised.gain / (1 - advised.gain) if advised.gain < 1 else None
        self._observations_of(name).regret = regret
        return replace(
            seen,
            candidates=advised.candidates,
            gain=advised.gain,
            reachable=advised.multiplier,
            rewires=advised.rewires,
        )

    def _observed_situation(
        self, name: str, trigger: Trigger, present: Present, memory: AdaptationState
    ) -> Situation:
        """The situation without candidates."""
        head, figures, observed = self.deployments.head(name), present.figures, self._observations_of(name)
        hold, waiting = self.obstacles.of(name), undecidable(present.model, present.inputs)
        pending = self._pending(memory, head)
        return Situation(
            revision=head.revision,
            trigger=trigger,
            automatic=pending is not None and pending.has_made_revision(),
            applied=self._take_applied(name),
            options=self._options(head),
            objective=figures.objective,
            age_p95=figures.age_p95,
            multiplier=figures.multiplier,
            rates=present.rates,
            hold=hold,
            silent=self.obstacles.silent_sites(name),
            moving=self.obstacles.moving(name),
            lagging=observed.lagging,
            draining=observed.draining,
            interval=present.inputs.interval,
            undecidable=waiting.keys() | set(observed.idle),
            idle=observed.idle,
            awaited=[job for job, cause in waiting.items() if was_fresh(present.inputs, cause)],
            stale=undecidable_text(present, observed),
            stranded=pending is not None and self.obstacles.is_stranded(pending.record),
            progress=None if pending is None else pending.progress(),
            failing=[] if pending is None else pending.failing(self.clock()),
            realised=None if pending is None or hold else pending.realised(present, observed),
        )

    def _pending(self, memory: AdaptationState, head: Head) -> PendingStep | None:
        if memory.pending is None:
            return None
        return PendingStep(
            record=memory.pending,
            head=head,
            deployments=self.deployments,
            operations=self.operations,
            obstacles=self.obstacles,
            mover=self.mover,
        )

    def _take_applied(self, name: str) -> bool:
        applied = name in self._applied
        self._applied.discard(name)
        return applied

    # --- carrying out

    def _carry_out(self, decided: Decided, move: Step | Revert) -> None:
        """Begin the move that was decided; where it is refused, the memory has no step of it."""
        name, revision = decided.name, decided.seen.revision
        if isinstance(move, Step):
            jobs, target, message = move.about.jobs, move.about.target, move.reason
        else:
            jobs, target, message = move.record.jobs, move.record.source, f"back: {move.reason}"
        events = list(decided.events(self.clock()))
        try:
            operation = self.mover.move(name, jobs, target, revision, message, events)
        except (Busy, StaleRevision) as error:
            self._withdraw(decided, decided.before, f"a user's change or a repair came first: {error}")
        except (StalePlan, Overloaded, StoreError) as error:  # this says nothing about the target
            self._withdraw(decided, decided.before, f"the move could not begin: {error}")
        except SpeckError as error:
            self._refuse(decided, move, one_line(error))
        else:
            self._note_begun(name, operation)
            self._correct_speed(name)
            self._count(decided)

    def _refuse(self, decided: Decided, move: Step | Revert, error: str) -> None:
        """Ban the group of a refused move, so that other steps have their turn."""
        name, before, reason = decided.name, decided.before, f"the move was refused: {error}"
        memory = with_refusal(before, move, reason, self.clock())
        new = [each for each in memory.bans if each not in before.bans]
        self._withdraw(decided, memory, reason, [ban_event(name, each, self.clock()) for each in new])

    def _withdraw(
        self, decided: Decided, memory: AdaptationState, reason: str, events: Iterable[Event] = ()
    ) -> None:
        """Replace the stored memory, whose last move has not begun."""
        name = decided.name
        _log.info("composition %r: %s", name, reason)
        with self._lock:
            paused = self.store.adaptation(name).paused
            memory = with_hold(replace(memory, paused=paused), reason, decided.seen, self.clock())
            self._write(name, memory, events)
        self.metrics.decided(memory.entries[-1].decision)

    def _note_begun(self, name: str, operation: Operation) -> None:
        """Note the id of the operation of the pending step; without it, it is found by the revision."""
        with self._lock:
            memory = self.store.adaptation(name)
            pending = memory.pending
            if pending is not None and pending.revision == operation.revision:
                entry = replace(memory.entries[-1], operation=operation.id)
                memory = with_last(memory, replace(pending, operation=operation.id))
                memory = replace(memory, entries=(*memory.entries[:-1], entry))
            self._write(name, memory)

    def _with_speed(self, memory: AdaptationState, seen: Situation) -> AdaptationState:
        """A memory whose last step goes back, with the speed that was observed where its jobs were.

        Only a slower one than was counted with: a step that went back is no reason to count with more.
        """
        step = memory.steps[-1]
        ratio = 1.0 if seen.realised is None else seen.realised.speed_ratio
        former = self.measures.sites().get(step.source)
        if former is None or former.speed is None or ratio >= 1.0:
            return memory
        return with_last(memory, replace(step, speed=former.speed.value * ratio))

    def _correct_speed_of_begun(self, name: str) -> None:
        """Store the speed of a pending step that began, but whose server ended before it did so."""
        pending = self._pending(self._memory(name), self.deployments.head(name))
        if pending is not None and pending.record.speed and pending.has_begun():
            self._correct_speed(name)

    def _correct_speed(self, name: str) -> None:
        """Store the speed of the pending step in the profile of its site, once the step has begun.

        The step keeps it until it is in the profile, so that another process does this if the server ends.
        """
        with self._lock:
            memory = self.store.adaptation(name)
            step = memory.pending
            if step is None or not step.speed:
                return
            profile = SiteProfile(name=step.source, speed=Value(step.speed, Known.MEASURED, step.at, 1))
            try:
                self.measures.put_site(profile)
            except SpeckError as error:
                _log.warning("the speed of site %r could not be stored: %s", step.source, error)
                return
            self._write(name, with_last(memory, replace(step, speed=0.0)))

    # --- writing

    def _write(self, name: str, memory: AdaptationState, events: Iterable[Event] = ()) -> bool:
        """Write a memory and events of it; False if the composition is gone."""
        with self.store.transaction() as transaction:
            if self.store.head(name) is None:
                return False
            transaction.put_adaptation(name, memory)
            for event in events:
                transaction.add_event(event)
        return True

    def _count(self, decided: Decided) -> None:
        """Count a decision, and the step that was judged in it."""
        self.metrics.decided(decided.after.entries[-1].decision)
        former = decided.before.pending
        for each in decided.after.steps:
            judged = each.outcome is not StepOutcome.PENDING and not each.back
            if former is not None and each.at == former.at and judged:
                self.metrics.step_ended(each.outcome)
