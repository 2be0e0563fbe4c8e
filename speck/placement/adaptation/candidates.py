"""The steps that advice names, each with its figures alone and the reason why it may not be taken."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from speck.core.job import Job
from speck.placement.adaptation.knowledge import OLDEST, unknown_loads, within_bounds
from speck.placement.adaptation.situation import Candidate
from speck.placement.cost import evaluate
from speck.placement.groups import steps
from speck.placement.links import link_known, used_links
from speck.placement.model import Model
from speck.placement.move import after_moving, break_even, move_cost
from speck.placement.problem import Placement, Problem
from speck.placement.profile import Inputs, Known, with_expected

DOUBT = 10.0  # times an assumed cost, for which a target must have room


def candidates(
    model: Model, after: Placement, inputs: Inputs, shared: Collection[int] = ()
) -> list[Candidate]:
    """The steps from what runs to a placement, those of a better gain for their cost first.

    ``shared`` is as of :func:`~speck.placement.move.move_cost`.  Groups have at most as many jobs as the
    composition's options say.
    """
    before = model.before(after)
    moves = steps(model.problem, before, after, largest=model.draft.options.group, shared=shared)
    evaluator = _StepEvaluator(
        model, before, inputs, shared, within_bounds(model, inputs), unknown_loads(model, inputs, before)
    )
    return [evaluator.candidate(each.jobs, each.target) for each in moves if each.jobs]


def relative_gain(problem: Problem, before: Placement, after: Placement) -> float:
    """The fall of the objective by another placement, as a share of it."""
    now, then = (evaluate(problem, each, slowest=False).objective for each in (before, after))
    return share_of(now - then, now)


def share_of(fall: float, objective: float) -> float:
    """The fall of an objective as a share of it.

    0 of an objective of 0, as of WAN traffic alone with all jobs at one site: nothing is better.
    """
    return fall / objective if objective > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _StepFigures:
    """The figures of a step that decide on it, as in :class:`Candidate`."""

    gain: float
    multiplier: float
    utilisation: float
    pays_after: float


@dataclass(frozen=True, slots=True)
class _StepEvaluator:
    """Evaluates steps from the placement ``before``, each as if no other step had been taken.

    ``problems`` are the model's problem at the last rates, which is the first one, and at their bounds.
    ``unknown`` has the sites whose load is not known, each with the job that is the reason.
    """

    model: Model
    before: Placement
    inputs: Inputs
    shared: Collection[int]
    problems: Sequence[Problem]
    unknown: Mapping[int, str]

    def candidate(self, jobs: tuple[int, ...], target: int) -> Candidate:
        """The step that moves jobs to a site, with the worst of its figures within the bounds."""
        model, problem, before = self.model, self.problems[0], self.before
        # The homes of topics stay: a step moves jobs alone.
        following = Placement(after_moving(problem, before, jobs, target), before.homes)
        then = evaluate(problem, following)
        cost = move_cost(problem, before, following, then, self.shared)
        found = [self._figures(each, following, target) for each in self.problems]
        names = [model.jobs[job] for job in jobs]
        doubt = self._doubt(jobs) / (problem.sites[target].speed * problem.sites[target].cores)
        refusals = [
            *problem.faults(following.sites),
            *self._assumed_links(following),
            *self._unknown_target(target),
        ]
        return Candidate(
            jobs=tuple(sorted(names)),
            source=model.table.name(before.sites[jobs[0]]),
            target=model.table.name(target),
            gain=min(each.gain for each in found),
            objective=then.objective,
            age_p95=then.age_p95,
            multiplier=min(each.multiplier for each in found),
            utilisation=max(each.utilisation for each in found) + doubt,
            pays_after=max(each.pays_after for each in found),
            standstill=cost.standstill,
            catch_up=cost.catch_up,
            state=cost.state,
            costs={
                name: problem.jobs[job].cost
                for name, job in zip(names, jobs, strict=True)
                if self._is_cost_measured(model.draft.jobs[name])
            },
            refused=next(iter(refusals), ""),
        )

    def _figures(self, problem: Problem, following: Placement, target: int) -> _StepFigures:
        now, then = (evaluate(problem, each, slowest=False) for each in (self.before, following))
        cost = move_cost(problem, self.before, following, then, self.shared)
        fall = now.objective - then.objective
        return _StepFigures(
            gain=share_of(fall, now.objective),
            multiplier=then.multiplier,
            utilisation=then.sites[target].cores,
            pays_after=break_even(problem, cost, fall),
        )

    def _doubt(self, jobs: Collection[int]) -> float:
        """The reference cores for which a site must have room besides, as the costs of jobs are assumed."""
        total, model = 0.0, self.model
        for job in jobs:
            name, placed = model.jobs[job], model.problem.jobs[job]
            desired = model.draft.jobs[name]
            cost = with_expected(self.inputs.of(desired), desired.expects).cost
            if cost is None or cost.known is Known.ASSUMED:
                total += (DOUBT - 1) * placed.cost * model.problem.rates.into[job]
        return total

    def _is_cost_measured(self, job: Job) -> bool:
        cost = self.inputs.of(job).cost
        return cost is not None and cost.known is Known.MEASURED

    def _unknown_target(self, target: int) -> Iterator[str]:
        """The reason why nothing moves to a site whose load is not known."""
        if target in self.unknown:
            yield (
                f"the load of {self.model.table.name(target)} is not known: job {self.unknown[target]!r} has "
                f"had no rate for {OLDEST / 60:.0f} minutes (see speck profile)"
            )

    def _assumed_links(self, following: Placement) -> Iterator[str]:
        """The links, used by one of the two placements alone, of which nothing is measured or declared."""
        pairs = set(used_links(self.model, [self.before])) ^ set(used_links(self.model, [following]))
        for one, other in sorted(pairs):
            if link_known(self.model, self.inputs, one, other) is Known.ASSUMED:
                yield (
                    f"the link {one}-{other} is assumed "
                    "(expected: declared in the inventory, or measured: speck profile --links)"
                )
