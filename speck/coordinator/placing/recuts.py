"""Other cuts of the queries that run, as steps of the adaptation; nothing is changed in here."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from speck.coordinator.placing.cut_corrections import CutCorrections
from speck.coordinator.placing.cut_queries import CutQuery, queries_with_cuts
from speck.coordinator.placing.cuts import CutChoice
from speck.coordinator.placing.models import Models
from speck.core.adaptation import Cuts, StepRecord
from speck.core.job import Composition
from speck.placement.adaptation.candidates import share_of
from speck.placement.adaptation.situation import Candidate, Realised
from speck.placement.cost import Figures, combined, evaluate, reference
from speck.placement.cuts import Vector
from speck.placement.model import Model
from speck.placement.move import break_even, restart_cost
from speck.placement.profile import Inputs

_EQUAL = 1e-6  # a lesser difference of a utilisation is one of rounding


@dataclass(frozen=True)
class Recuts:
    """The steps that change cuts of a composition as it runs, by the profiles of a moment."""

    models: Models
    composition: Composition
    inputs: Inputs
    corrections: CutCorrections

    def candidates(
        self, forbidden: Mapping[str, Collection[str]], pins: Collection[str] = ()
    ) -> list[Candidate]:
        """The best other cuts of each query, if there are better ones.

        ``forbidden`` are targets (:class:`~speck.core.adaptation.Cuts`) by job; a query with a job of
        ``pins`` stays as it is.  The figures are those of the whole composition.
        """
        found = (self._candidate(query, forbidden) for query in self._queries(pins))
        return [each for each in found if each is not None and each.gain > 0]

    def _queries(self, pins: Collection[str]) -> Iterator[CutQuery]:
        for query in queries_with_cuts(self.composition):
            if not {query.rest, *query.inputs} & set(pins):
                yield query

    def _candidate(self, query: CutQuery, forbidden: Mapping[str, Collection[str]]) -> Candidate | None:
        names, present = list(query.inputs), query.present

        def is_forbidden(vector: Vector) -> bool:
            jobs, _, target = _step(names, present, vector)
            return any(target in forbidden.get(name, ()) for name in jobs)

        choice = self._choice(query)
        vector = choice.best_without(is_forbidden)
        if vector == present:
            return None
        jobs, source, target = _step(names, present, vector)
        now, then = _Whole.of(choice.whole(present)), _Whole.of(choice.whole(vector))
        before, after = now.objective_of(now.figures), now.objective_of(then.figures)
        gain = share_of(before - after, before)
        changed = [then.model.number[name] for name in jobs]
        cost = restart_cost(then.model.problem, then.model.incumbent, changed, then.figures)
        return Candidate(
            jobs=jobs,
            source=source,
            target=target,
            gain=gain,
            objective=evaluate(choice.model.problem, choice.model.incumbent).objective * (1 - gain),
            age_p95=then.figures.age_p95,
            multiplier=then.figures.multiplier,
            utilisation=_utilisation(now.figures, then.figures),
            pays_after=break_even(now.model.problem, cost, before - after),
            standstill=cost.standstill,
            catch_up=cost.catch_up,
        )

    def realised(self, step: StepRecord, *, lag_grows: bool) -> Realised | None:
        """The effect of a step; ``None`` where its jobs have not the cuts of its target any longer."""
        query = next((each for each in self._queries(()) if set(step.jobs) <= each.inputs.keys()), None)
        if query is None or not isinstance(step.source, Cuts) or not isinstance(step.target, Cuts):
            return None
        former, cuts = step.source.by_job(step.jobs), dict(zip(query.inputs, query.present, strict=True))
        if not step.target.by_job(step.jobs).items() <= cuts.items():
            return None
        choice = self._choice(query)
        now = _Whole.of(choice.whole(query.present))
        without = _Whole.of(choice.whole(tuple((cuts | former).values())))
        return Realised(
            objective=now.objective_of(now.figures),
            without=now.objective_of(without.figures),
            age_p95=now.figures.age_p95,
            age_p95_without=without.figures.age_p95,
            multiplier=now.figures.multiplier,
            multiplier_without=without.figures.multiplier,
            lag_grows=lag_grows,
        )

    def _choice(self, query: CutQuery) -> CutChoice:
        model = self.models.present(self.composition, self.inputs)
        jobs = self.composition.jobs
        return CutChoice(query, jobs, self.composition, self.inputs, model, self.models, self.corrections)


@dataclass(frozen=True)
class _Whole:
    """The model of a composition with some cuts, and its figures."""

    model: Model
    figures: Figures

    @classmethod
    def of(cls, model: Model) -> _Whole:
        return cls(model, evaluate(model.problem, model.incumbent))

    def objective_of(self, figures: Figures) -> float:
        """The objective of other figures, relative to the same ones as that of this model."""
        base = reference(self.model.problem)
        age = statistics.fmean(base.age.values()) if base.age else 1.0
        relative = (figures.age / age, figures.wan / base.wan, figures.cores / base.cores)
        return combined(self.model.problem, *relative, figures.over)


def _step(names: list[str], present: Vector, vector: Vector) -> tuple[tuple[str, ...], Cuts, Cuts]:
    """The jobs whose cuts differ (sorted), and their cuts before and after."""
    changed = sorted(
        (name, old, new) for name, old, new in zip(names, present, vector, strict=True) if old != new
    )
    jobs, before, after = zip(*changed, strict=True) if changed else ((), (), ())
    return tuple(jobs), Cuts.of(before or ("",)), Cuts.of(after or ("",))


def _utilisation(now: Figures, then: Figures) -> float:
    """The largest share of cores of a site that has more to do than now; 0 if none has."""
    pairs = zip(now.sites, then.sites, strict=True)
    return max((after.cores for before, after in pairs if after.cores > before.cores + _EQUAL), default=0.0)
