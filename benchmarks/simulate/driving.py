"""The product's loop over a simulated world: its own decisions, on simulated measurements and time.

:func:`~speck.placement.adaptation.decide.decide`, the candidates, the triggers and the verdict are those of
the product; only the engines, the store and the operations are simulated.  Topics stay, as in the product;
advice that also moves topics is not looked for, since it leads to no step.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.simulate.measuring import Meter, Part, modelled, parts
from speck.controller.adaptation.mover import Advised, Present
from speck.controller.adaptation.observations import Observations, Unread
from speck.core.adaptation import AdaptationState, StepRecord
from speck.core.lifecycle import OperationState
from speck.core.placement import PlacementOptions
from speck.placement.adaptation import limits, verdict
from speck.placement.adaptation.candidates import candidates
from speck.placement.adaptation.decide import Revert, Step, decide
from speck.placement.adaptation.situation import Progress, Realised, Situation
from speck.placement.cost import evaluate, load_of
from speck.placement.model import Model
from speck.placement.policies import Budget, Policy, place, policy
from speck.placement.problem import EngineModel, Load, Placement, Problem
from speck.placement.profile import Inputs
from testbed.simulate import engines
from testbed.simulate.conditions import Floats, Scenario
from testbed.simulate.fluid import Fluid

INTERVAL = 10.0  # s between two looks at what is measured, as in the product
PERIOD = 60.0  # s between two decisions
SILENCE = 60.0  # s without an answer, after which a site counts as silent
CUT = 1e-3  # factor of a bandwidth, below which a link counts as cut
_TRIES = 25  # groups that local search tries for one composition, after the program is solved


def budget() -> Budget:
    """A budget that a clock of tries ends and not one of time, so that a seed gives the same answer."""
    return Budget(float(_TRIES), clock=itertools.count().__next__)


@dataclass
class Driven:
    """A composition with the memory of its loop; ``revision`` counts the moves."""

    part: Part
    memory: AdaptationState = field(default_factory=AdaptationState)
    observed: Observations = field(default_factory=Observations)
    revision: int = 1
    operation_ends: float = 0.0
    back_and_forth: int = 0  # jobs that returned within an hour to the site that they had left
    _origins: dict[tuple[int, int], float] = field(default_factory=dict)

    def note_move(self, job: int, site: int, target: int, now: float) -> None:
        """Note a move, and if it undoes another one."""
        self.back_and_forth += now - self._origins.get((job, target), -1e9) < limits.HOUR
        self._origins[job, site] = now


class World:
    """A true problem under changing conditions, with the figures that its coordinator has of it."""

    def __init__(
        self,
        problem: Problem,
        placement: Placement,
        scenario: Scenario,
        *,
        noise: float = 0.06,
        seed: int = 0,
        step: float = 0.1,
        chosen: str = "speck",
        options: PlacementOptions | None = None,
    ) -> None:
        """Begin with this placement at time 0; ``noise`` is that of measured values, as a share."""
        self.problem, self.placement, self.scenario = problem, placement, scenario
        self.options = options or PlacementOptions(mode="auto")
        self.fluid = Fluid(problem, placement, step=step)
        self.meter = Meter(self.fluid, noise, seed)
        self.policy: Policy = policy(chosen)
        self.compositions = [Driven(each) for each in parts(problem, self.options)]
        self.parts = [each.part for each in self.compositions]
        self.speeds = {site.name: site.speed for site in problem.sites}
        self._loads = {each.name: np.zeros((6, len(problem.sites))) for each in self.parts}
        self._cut_since: dict[int, float] = {}

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self.fluid.time

    def pass_time(self, seconds: float) -> None:
        """Simulate some time, and read all counters."""
        self.fluid.run(seconds, self.scenario)
        self.meter.sample(self.parts)
        cut = np.nonzero(self.scenario(self.now).link < CUT)[0]
        self._cut_since = {int(site): self._cut_since.get(int(site), self.now) for site in cut}

    def inputs(self, part: Part) -> Inputs:
        """The profiles of a composition."""
        return self.meter.inputs(part, self.speeds, self.scenario(self.now).speed)

    def model(self, part: Part, inputs: Inputs, *, homes_stay: bool = True) -> Model:
        """The model of a composition as it runs, beside the present load of all others."""
        others = self._others(part)
        model = modelled(part, inputs, self.placement, others, homes_stay=homes_stay)
        found = load_of(model.problem, model.incumbent)
        rest = found - model.problem.others
        own = np.array([rest.cores, rest.memory, rest.slots, rest.up, rest.down, rest.messages])
        loads = self._loads[part.name]
        loads[:] = 0.0
        loads[:, list(part.sites)] = own
        return model

    def _others(self, part: Part) -> Load:
        sites = list(part.sites)
        total: Floats = np.zeros((6, len(sites)))
        for each in self.parts:
            if each is not part:
                total += self._loads[each.name][:, sites]
        return Load(*(list(map(float, row)) for row in total))

    def cut(self, part: Part) -> dict[int, float]:
        """The sites of a composition's jobs and topics whose link is cut, with the time since when."""
        used = {self.placement.sites[job] for job in part.jobs}
        used |= {self.placement.homes[channel] for channel in part.channels}
        return {site: since for site, since in self._cut_since.items() if site in used}

    def move(self, driven: Driven, jobs: Sequence[int], target: int, homes: Mapping[int, int]) -> float:
        """Move jobs (and topics) of a composition; returns the time at which the last one runs again."""
        problem, before = self.problem, self.placement
        sites, placed = list(before.sites), list(before.homes)
        for job in jobs:
            driven.note_move(job, sites[job], target, self.now)
            sites[job] = target
        for channel, home in homes.items():
            placed[channel] = home
        moved = {job: self._standstill(job, before.sites[job], target) for job in jobs}
        for channel, home in homes.items():
            if home != before.homes[channel]:
                for reader in problem.readers[channel]:
                    moved[reader] = moved.get(reader, _gap(problem, reader)) + engines.GAP_REWIRED
        self.placement = Placement(tuple(sites), tuple(placed))
        self.fluid.place(self.placement, moved)
        driven.revision += 1
        return self.now + max(moved.values(), default=0.0)

    def _standstill(self, job: int, source: int, target: int) -> float:
        """A state crosses the coordinator, hence both links."""
        placed, link = self.problem.jobs[job], self.scenario(self.now).link
        one, other = self.problem.sites[source], self.problem.sites[target]
        carried = placed.state if placed.stateful else 0.0
        up, down = one.up * float(link[source]), other.down * float(link[target])
        return _gap(self.problem, job) + carried / max(1.0, up) + carried / max(1.0, down)


def _gap(problem: Problem, job: int) -> float:
    spark = problem.jobs[job].engine is EngineModel.SPARK
    return engines.GAP_SPARK if spark else engines.GAP_FLINK


def observe(world: World, driven: Driven, period: float = PERIOD) -> None:
    """Observe a composition as the loop does, and decide where that is due."""
    part, now = driven.part, world.now
    inputs = world.inputs(part)
    present = Present(world.model(part, inputs), inputs)
    waiting = world.fluid.waiting_by_job
    counts = {world.problem.jobs[job].name: Unread(int(waiting[job]), with_broker=True) for job in part.jobs}
    driven.observed.add(present, counts, driven.memory.rates, now)
    silent = {
        world.problem.sites[site].name: "cut off"
        for site, since in world.cut(part).items()
        if now - since >= SILENCE
    }
    trigger = driven.observed.due(driven.memory, silent, period, now)
    if trigger is None:
        return
    driven.observed.decided = now
    seen = _situation(world, driven, present, silent, inputs)
    choice, driven.memory = decide(driven.memory, replace(seen, trigger=trigger), now)
    driven.observed.baseline = inputs.links
    if isinstance(choice, Step):
        _carry_out(world, driven, choice.about.jobs, choice.about.target)
    elif isinstance(choice, Revert):
        _correct_speed(world, choice.record, seen)
        _carry_out(world, driven, choice.record.jobs, choice.record.source)


def _situation(
    world: World, driven: Driven, present: Present, silent: Mapping[str, str], inputs: Inputs
) -> Situation:
    part, memory, figures, now = driven.part, driven.memory, present.figures, world.now
    pending = memory.pending
    stale = [job.name for job in part.problem.jobs if job.name not in inputs.fresh]
    hold = ""
    if world.cut(part):
        hold = "an engine of its jobs does not respond"
    elif now < driven.operation_ends:
        hold = "an operation is in progress"
    elif stale:
        hold = f"the rate of job {stale[0]!r} is not of the last minute"
    seen = Situation(
        revision=driven.revision,
        automatic=True,
        options=world.options,
        objective=figures.objective,
        age_p95=figures.age_p95,
        multiplier=figures.multiplier,
        rates=present.rates,
        hold=hold,
        silent=silent,
        moving=sum(each is not driven and now < each.operation_ends for each in world.compositions),
        lagging=driven.observed.lagging,
        draining=driven.observed.draining,
        progress=None if pending is None else _progress(driven, now),
        realised=None if pending is None or hold or not pending.due else _realised(driven, present, pending),
    )
    if pending is not None or hold or silent or memory.paused > now:
        return seen
    advised = advise(world, present.model, limits.forbidden(memory, now), inputs)
    return replace(seen, candidates=advised.candidates, gain=advised.gain, reachable=advised.multiplier)


def _progress(driven: Driven, now: float) -> Progress:
    if now < driven.operation_ends:
        return Progress(state=OperationState.RUNNING)
    return Progress(state=OperationState.SUCCEEDED, ended=driven.operation_ends)


def _realised(driven: Driven, present: Present, pending: StepRecord) -> Realised:
    costs = present.inputs.measured_costs()
    lags = bool(set(driven.observed.lagging) & verdict.judged_jobs(present.model, pending))
    return verdict.realised(present.model, pending, costs, lag_grows=lags)


def advise(world: World, model: Model, forbidden: Mapping[str, Collection[str]], inputs: Inputs) -> Advised:
    """The advice of the policy, in which topics stay."""
    problem = model.problem
    jobs = [
        replace(job, allowed=_allowed(model, index, forbidden.get(job.name, ())))
        for index, job in enumerate(problem.jobs)
    ]
    permitted = replace(model, problem=replace(problem, jobs=jobs))
    after = place(permitted.problem, permitted.incumbent, world.policy, budget())
    now = evaluate(permitted.problem, permitted.incumbent).objective
    then = evaluate(permitted.problem, after)
    return Advised(
        candidates(permitted, after, inputs), (now - then.objective) / now, multiplier=then.multiplier
    )


def _allowed(model: Model, job: int, forbidden: Collection[str]) -> tuple[int, ...]:
    """The sites that a job may run at; it may always stay."""
    allowed, here = model.problem.jobs[job].allowed, model.sites_now[job]
    return tuple(site for site in allowed if site == here or model.table.name(site) not in forbidden)


def _carry_out(world: World, driven: Driven, names: Collection[str], site: str) -> None:
    part = driven.part
    jobs = [job for job in part.jobs if world.problem.jobs[job].name in names]
    target = next(each for each in part.sites if world.problem.sites[each].name == site)
    driven.operation_ends = world.move(driven, jobs, target, {})


def _correct_speed(world: World, step: StepRecord, seen: Situation) -> None:
    ratio = 1.0 if seen.realised is None else seen.realised.speed_ratio
    world.speeds[step.target] *= min(1.0, ratio)


def steps_of(driven: Driven) -> dict[str, int]:
    """The numbers of steps by outcome; those that take another back are not counted."""
    found = dict.fromkeys(("kept", "back", "pending", "failed"), 0)
    for step in driven.memory.steps:
        if not step.back:
            found[step.outcome.value] = found.get(step.outcome.value, 0) + 1
    return found
