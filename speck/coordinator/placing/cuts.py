"""The choice of the cuts of queries (``cut: auto``), from what runs, the profiles and the cost model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from speck.coordinator.placing.cut_corrections import CutCorrections
from speck.coordinator.placing.cut_profiles import CutProfiles
from speck.coordinator.placing.cut_queries import CutQuery, queries_with_cuts
from speck.coordinator.placing.models import Models
from speck.coordinator.placing.placer import Placer
from speck.core.graph import sinks_of
from speck.core.job import Composition, Job
from speck.core.placement import PlacementOptions
from speck.errors import Fault, InvalidInput
from speck.placement.cost import Figures, combined, evaluate, wire
from speck.placement.cuts import Vector, best, choose
from speck.placement.explain import traffic
from speck.placement.model import Model, stamp_at
from speck.placement.profile import Inputs, Known, Value
from speck.sql.types import NO_CUT, PARTIALS
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class CutChooser:
    """Chooses the cuts of compositions that are fresh from a file; nothing is changed."""

    deployments: Deployments
    placer: Placer
    corrections: CutCorrections

    def chosen(self, composition: Composition) -> tuple[Composition, dict[str, str]]:
        """The composition with a cut for each input, and the reason by job name.

        What runs keeps its cut unless another one lowers the objective by more than the ``min_gain`` of
        ``placement``.  ``none`` stays: its state is that of a job of another name.  Raises
        :class:`~speck.errors.InvalidInput` for a rule that names the input job of a query without a cut.
        """
        queries = list(queries_with_cuts(composition))
        if not queries:
            return composition, {}
        head = self.deployments.head(composition.name)
        running = {} if head.deleting else self.deployments.desired(head)
        inputs = self.placer.inputs()
        model = self.placer.models.present(composition, inputs)
        jobs, notes, faults = dict(composition.jobs), dict[str, str](), list[Fault]()
        for query in queries:
            choice = CutChoice(
                query, running, composition, inputs, model, self.placer.models, self.corrections
            )
            for name in (*query.inputs, query.rest):
                del jobs[name]
            vector = choice.vector()
            if vector == (NO_CUT,):  # what shares a site with the windows, or none, does so with the whole
                faults += _rules_without_input(query, jobs.values())
                jobs = {name: _renamed(job, query.rest, query.name) for name, job in jobs.items()}
            jobs |= query.jobs(vector)
            notes |= choice.notes(vector)
        if faults:
            raise InvalidInput(faults, f"composition {composition.name!r}")
        return replace(composition, jobs=jobs), notes


@dataclass(frozen=True)
class CutChoice:
    """The choice for one query; ``running`` are the jobs of the last revision."""

    query: CutQuery
    running: Mapping[str, Job]
    composition: Composition
    inputs: Inputs
    model: Model
    models: Models
    corrections: CutCorrections
    _figures: dict[Vector, Figures] = field(default_factory=dict, init=False)

    @cached_property
    def profiles(self) -> CutProfiles:
        """The profiles of the query's jobs at any cuts."""
        return CutProfiles(self.query, self.running, self.inputs, self.model, self.corrections)

    def vector(self) -> Vector:
        """The cut of each input."""
        options = [self._offered(name) for name in self.query.inputs]
        if all(len(each) == 1 for each in options):
            return tuple(each[0] for each in options)
        placement = self._placement
        least = math.inf if placement.mode == "off" else placement.min_gain
        present = [self.profiles.present(name) for name in self.query.inputs]
        return choose(options, present, self._objective, least)

    def best_without(self, forbidden: Callable[[Vector], bool]) -> Vector:
        """The cuts with the least objective among those that are not forbidden, of a query that runs."""
        options = [self._offered(name) for name in self.query.inputs]

        def objective(vector: Vector) -> float:
            return math.inf if forbidden(vector) else self._objective(vector)

        return best(options, objective, self.query.present)

    def whole(self, vector: Vector) -> Model:
        """The model of the whole composition with these cuts."""
        jobs = self.query.jobs(vector)
        composition = replace(self.composition, jobs={**self.composition.jobs, **jobs})
        return self.models.present(composition, self._inputs(vector, jobs), self.model.draft.inventory)

    @property
    def _placement(self) -> PlacementOptions:
        return self.composition.placement or PlacementOptions()

    def _offered(self, name: str) -> tuple[str, ...]:
        """The candidate cuts to which the state of what runs fits."""
        options = self.query.options(name)
        whole = self.running.get(self.query.name)
        if whole is not None and whole.query and NO_CUT in options:
            return (NO_CUT,)
        if self.query.rest not in self.running:
            return options
        found = tuple(each for each in options if each != NO_CUT) or options
        present = self.profiles.present(name)
        if present is None or name in self.inputs.fresh:
            return found
        # It may not run, and would be refused to begin or to stop merging rows.
        return tuple(each for each in found if (each == PARTIALS) == (present == PARTIALS)) or found

    # --- the model

    def _objective(self, vector: Vector) -> float:
        """The objective of a vector, against the figures of the query with the earliest cuts."""
        base = self._evaluated(self.query.earliest)
        found = self._evaluated(vector)
        return combined(
            self.model.problem,
            found.age / (base.age or 1.0),
            found.wan / (base.wan or 1.0),
            found.cores / (base.cores or 1.0),
            found.over,
        )

    def _evaluated(self, vector: Vector) -> Figures:
        if vector not in self._figures:
            jobs = self.query.jobs(vector)
            composition = replace(self.composition, jobs=jobs)
            others = [job for name, job in self.running.items() if name not in jobs and not self._own(name)]
            inputs, inventory = self._inputs(vector, jobs), self.model.draft.inventory
            model = self.models.of_part(composition, inputs, self.inputs, others, inventory)
            self._figures[vector] = evaluate(model.problem, model.incumbent, slowest=False)
        return self._figures[vector]

    def _own(self, name: str) -> bool:
        return name in (self.query.name, self.query.rest, *self.query.inputs)

    def _inputs(self, vector: Vector, jobs: Mapping[str, Job]) -> Inputs:
        """The inputs with the profiles of the query's jobs with these cuts."""
        profiles = {**self.inputs.jobs, **self.profiles.of(vector, jobs)}
        return replace(self.inputs, jobs=profiles, forms={**self.inputs.forms, **jobs}, history={})

    # --- in words

    def notes(self, vector: Vector) -> dict[str, str]:
        """The reason for the cut of each input, by job name."""
        names = self.query.inputs if vector != (NO_CUT,) else [self.query.name]
        return {
            name: self._note(each, cut)
            for name, each, cut in zip(names, self.query.inputs, vector, strict=True)
            if self.query.inputs[each].cuts
        }

    def _note(self, name: str, cut: str) -> str:
        options = self.query.options(name)
        begin = f"cut at {cut}, chosen among {', '.join(options)}"
        offered = self._offered(name)
        if len(offered) == 1 and len(options) > 1:
            return f"{begin}: it keeps the state of the running jobs"
        if self.query.inputs[name].site == self.query.rest_job.site:
            return f"{begin}: the rest is at the same site"
        whole, sent = self._traffic(name, cut)
        basis = f"{self.profiles.rate(name):.3g} messages/s {self._known(name)}"
        if cut == NO_CUT:
            return f"{begin}: {traffic(whole)} leave the site ({basis})"
        return f"{begin}: {traffic(sent)} leave the site instead of {traffic(whole)} ({basis})"

    def _known(self, name: str) -> str:
        profile = self.inputs.jobs.get(name)
        rate = None if profile is None else profile.rate_in
        return str(Known.ASSUMED if rate is None else rate.known)

    def _traffic(self, name: str, cut: str) -> tuple[float, float]:
        """Bytes/s on the wire: of the messages that an input job reads, and of the frames that it sends."""
        problem, rate = self.model.problem, self.profiles.rate(name)
        channel = problem.jobs[self.model.number[name]].inputs[0]
        whole = rate * wire(problem, channel, written=False)
        if cut == NO_CUT:
            return whole, whole
        profile = self.profiles.of(self._with(name, cut), self.query.inputs)[name]
        frames = _value(profile.selectivity) * rate
        stamp = stamp_at(sinks_of(self.query.inputs[name])[0])
        overhead = problem.overhead + (problem.stamp if stamp is None else stamp) + problem.acknowledgement
        return whole, frames * (_value(profile.bytes_out) + overhead)

    def _with(self, name: str, cut: str) -> Vector:
        earliest = zip(self.query.inputs, self.query.earliest, strict=True)
        return tuple(cut if each == name else first for each, first in earliest)


def _rules_without_input(query: CutQuery, jobs: Iterable[Job]) -> Iterator[Fault]:
    """A fault for each rule that names the input job of a query that stays whole, which has none."""
    right = f"expected {query.rest!r}, which stands for the whole query, or a fixed 'cut' of {query.name!r}"
    for job in jobs:
        rules = [("with", job.with_job), *(("apart", each) for each in job.apart)]
        for rule, name in rules:
            if name in query.inputs:
                message = f"{rule} {name!r} names no job, as {query.name!r} runs without a cut ({right})"
                yield Fault(message, job=job.job_name, field=rule, value=name)


def _renamed(job: Job, old: str, new: str) -> Job:
    """A job that names another one in ``with`` and ``apart`` as that is called now."""
    if old not in (job.with_job, *job.apart):
        return job
    together = new if job.with_job == old else job.with_job
    return replace(job, with_job=together, apart=tuple(new if each == old else each for each in job.apart))


def _value(value: Value | None) -> float:
    return 0.0 if value is None else value.value
