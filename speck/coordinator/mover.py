"""Moves groups of jobs for the adaptation loop, and changes cuts of queries, by ordinary applies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from speck.apply.operation import Operation
from speck.controller.adaptation import AUTHOR, Advised, Present
from speck.coordinator.changes import Changes
from speck.coordinator.placing.placer import PlacementResult, Placer
from speck.coordinator.placing.recuts import Recuts
from speck.coordinator.placing.request import PlacementRequest
from speck.coordinator.placing.strays import with_strays_fixed
from speck.core.adaptation import Cuts, StepRecord
from speck.core.change import Place, Recut, Request
from speck.core.job import Composition
from speck.placement.adaptation.candidates import candidates, relative_gain
from speck.placement.adaptation.knowledge import within_bounds
from speck.placement.adaptation.situation import Realised
from speck.placement.profile import Inputs
from speck.store import Event
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class Mover:
    """Implements :class:`speck.controller.adaptation.Mover` over the placer and the changes."""

    deployments: Deployments
    placer: Placer
    changes: Changes

    def present(self, name: str) -> Present:
        """A composition as it runs; no engine is asked."""
        inputs = self.placer.inputs()
        return Present(self.placer.models.present(self._composition(name), inputs), inputs)

    def advise(
        self,
        name: str,
        forbidden: Mapping[str, Collection[str]],
        least: float,
        pins: Collection[str] = (),
    ) -> Advised:
        """The steps to a better placement in which topics stay, and the jobs of ``pins``."""
        desired, placer = self._composition(name), self.placer
        request = PlacementRequest(forbidden=forbidden, pins=pins, homes_stay=True)
        placed = placer.place(desired, request)
        steps = candidates(placed.model, placed.advice.placement, placed.inputs, placed.shared)
        cuts = self._recuts(desired, placed.inputs).candidates(forbidden, pins)
        cuts = [each for each in cuts if each.gain >= least]
        steps = sorted([*steps, *cuts], key=lambda each: -each.gain) if cuts else steps
        gain, rewires = _gain(placed), 0.0
        if gain < least or gain <= 0:
            rewires = _gain(placer.place(desired, replace(request, homes_stay=False)))
        return Advised(steps, gain, placed.advice.after.multiplier, rewires)

    def move(
        self,
        name: str,
        jobs: Collection[str],
        target: str,
        base_revision: int,
        message: str,
        events: Sequence[Event] = (),
    ) -> Operation:
        """Apply what runs with some jobs at another site, or with other cuts.

        Raises :class:`~speck.errors.StaleRevision` and :class:`~speck.errors.Busy` where a user came first.
        """
        request = Request(author=AUTHOR, message=message, base_revision=base_revision)
        step: Place | Recut
        if isinstance(target, Cuts):
            step = Recut(name, target.by_job(jobs))
        else:
            step = Place(name, frozenset(jobs), target)
        operation, _ = self.changes.carry_out(step, request, events)
        return operation

    def recut_effect(
        self, name: str, step: StepRecord, present: Present, *, lag_grows: bool
    ) -> Realised | None:
        """The effect of a step that has changed cuts."""
        recuts = self._recuts(self._composition(name), present.inputs)
        return recuts.realised(step, lag_grows=lag_grows)

    def _composition(self, name: str) -> Composition:
        """A composition as it runs; jobs whose site has left the inventory stay where they are."""
        return with_strays_fixed(self.deployments.composition(name), self.placer.inventory)

    def _recuts(self, composition: Composition, inputs: Inputs) -> Recuts:
        return Recuts(self.placer.models, composition, inputs, self.changes.cuts.corrections)


def _gain(placed: PlacementResult) -> float:
    """The least fall of the objective by advice, as a share of it, within the bounds of all rates."""
    model, after = placed.model, placed.advice.placement
    if placed.advice.now is None:
        return 0.0
    problems = within_bounds(model, placed.inputs)
    return min(relative_gain(problem, model.before(after), after) for problem in problems)
