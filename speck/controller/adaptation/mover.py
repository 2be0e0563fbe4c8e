"""The part of the coordinator that the loop needs: models of what runs, advice, and moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from speck.apply.operation import Operation
from speck.core.adaptation import StepRecord
from speck.placement.adaptation.situation import Candidate, Realised
from speck.placement.cost import Figures, evaluate
from speck.placement.model import Model
from speck.placement.profile import Inputs
from speck.store import Event


@dataclass(frozen=True)
class Present:
    """A composition as it runs, and the profiles of that moment."""

    model: Model
    inputs: Inputs

    @cached_property
    def figures(self) -> Figures:
        """The figures of what runs."""
        return evaluate(self.model.problem, self.model.incumbent)

    @property
    def rates(self) -> dict[str, float]:
        """The rate into each job, messages/s."""
        return dict(zip(self.model.jobs, self.model.problem.rates[0], strict=True))


@dataclass(frozen=True)
class Advised:
    """The steps that the composition's policy advises, and the gain of all together as a share.

    ``multiplier`` is the sustained one after all of them.
    ``rewires`` is the gain of advice that moves topics, too, where that is looked for.
    """

    candidates: Sequence[Candidate]
    gain: float
    multiplier: float
    rewires: float = 0.0


class Mover(Protocol):
    """Looks, advises and moves."""

    def present(self, name: str) -> Present:
        """A composition as it runs; no engine is asked."""

    def advise(
        self,
        name: str,
        forbidden: Mapping[str, Collection[str]],
        least: float,
        pins: Collection[str] = (),
    ) -> Advised:
        """The advice for a composition, from which ``forbidden`` sites are left out, by job.

        Steps that change cuts are among them. The jobs of ``pins`` stay. Where it gains less than ``least``,
        advice that moves topics is looked for, too.
        """

    def move(
        self,
        name: str,
        jobs: Collection[str],
        target: str,
        base_revision: int,
        message: str,
        events: Sequence[Event] = (),
    ) -> Operation:
        """Begin to move jobs to a site, by an apply as the next revision of what ran at ``base_revision``.

        A ``target`` of :class:`~speck.core.adaptation.Cuts` gives the jobs other cuts.  The ``events`` are
        stored together with the revision.  Raises as an apply; nothing is touched then.
        """

    def recut_effect(
        self, name: str, step: StepRecord, present: Present, *, lag_grows: bool
    ) -> Realised | None:
        """The effect of a step that has changed cuts; ``None`` where it is not in force any longer."""
