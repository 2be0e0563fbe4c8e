"""The choice of the cuts of queries (``cut: auto``), from what runs, the profiles and the cost model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from speck.coordinator.placing.cut_corrections import CutCorrections
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
from speck.placement.profile import Inputs, JobProfile, Known, Value, assumed_cost
from speck.placement.profile import combined as better_known
from speck.sql.cuts import cuts_of, input_of, table_of, whole_of
from speck.sql.estimates import Flow, flow, passing, share_of
from speck.sql.program import Program, parsed
from speck.sql.types import FILTER, NO_CUT, PARTIALS, ROWS
from speck.store.deployments import Deployments

READING = 0.5  # the share of the cost of a message that is for reading it; the rest is for what is sent


@dataclass(frozen=True)
class CutChooser:
    """Chooses the cuts of compositions that are fresh from a file; nothing is changed."""

    deployments: Deployments
    placer: Placer
    corrections: CutCorrections

    def chosen(self, composition: Composition) -> tuple[Composition, dict[str, str]]:
        """The composition with a cut for each input, and the reason by job name.

        What runs keeps its cut unless another one lowers the objective by more than the ``min_gain`` of
        ``placement``.  ``none`` stays: its state is that of a job of another name.
        """
        queries = list(queries_with_cuts(composition))
        if not queries:
            return composition, {}
        head = self.deployments.head(composition.name)
        running = {} if head.deleting else self.deployments.desired(head)
        inputs = self.placer.inputs()
        model = self.placer.models.present(composition, inputs)
        jobs, notes = dict(composition.jobs), dict[str, str]()
        for query in queries:
            choice = CutChoice(
                query, running, composition, inputs, model, self.placer.models, self.corrections
            )
            for name in (*query.inputs, query.rest):
                del jobs[name]
            vector = choice.vector()
            jobs |= query.jobs(vector)
            notes |= choice.notes(vector)
        return replace(composition, jobs=jobs), notes


@dataclass(frozen=True)
class CutQuery:
    """A query with a cut to be chosen: its input jobs and its rest."""

    name: str
    inputs: Mapping[str, Job]
    rest: str
    rest_job: Job

    @cached_property
    def program(self) -> Program:
        return _program(self.rest_job)

    @property
    def present(self) -> Vector:
        """The cuts that its input jobs have."""
        return tuple(map(cut_of, self.inputs.values()))

    @property
    def earliest(self) -> Vector:
        """The first cut of each input, whether or not it is among its options."""
        return tuple(cuts_of(self.table(name))[0] for name in self.inputs)

    def options(self, name: str) -> tuple[str, ...]:
        """The cuts in question for an input, the earliest first."""
        job = self.inputs[name]
        return job.cuts or (cut_of(job),)

    def table(self, name: str) -> Program:
        """The part of the query that concerns the table of an input."""
        job, join = self.inputs[name], self.program.join
        number = 0 if join is None else join.tables.index(str(job.query["input"]).partition("-")[0])
        return table_of(self.program, _program(job), number)

    def jobs(self, vector: Vector) -> dict[str, Job]:
        """The jobs of the query with a cut for each input; without a cut it is one job."""
        if vector == (NO_CUT,):
            return {self.name: self._whole()}
        found = {}
        for name, cut in zip(self.inputs, vector, strict=True):
            job = self.inputs[name]
            part = input_of(self.table(name), cut)
            found[name] = replace(job, query={**job.query, "program": part.to_json()})
        return found | {self.rest: self.rest_job}

    def _whole(self) -> Job:
        (job,) = self.inputs.values()
        return replace(
            self.rest_job,
            job_name=self.name,
            source_broker=job.source_broker,
            source_topic=job.source_topic,
            start=job.start,
            query={"program": whole_of(self.program, _program(job).input).to_json()},
        )


def queries_with_cuts(composition: Composition) -> Iterator[CutQuery]:
    """The queries of a composition with an input whose cut SpecK chooses."""
    parts: dict[str, list[Job]] = {}
    for job in composition.jobs.values():
        if (name := job.query.get("of")) is not None:
            parts.setdefault(str(name), []).append(job)
    for name, jobs in parts.items():
        if any(job.cuts for job in jobs):
            inputs = {job.job_name: job for job in jobs if job.query["role"] == "input"}
            (rest,) = (job for job in jobs if job.query["role"] == "rest")
            yield CutQuery(name, inputs, rest.job_name, rest)


def recut(composition: Composition, cuts: Mapping[str, str]) -> Composition:
    """A composition that runs, with other cuts of some of its input jobs, by their names.

    Raises :class:`~speck.errors.InvalidInput` for a job without a choice of cuts, and for one that is none.
    """
    queries = {name: query for query in queries_with_cuts(composition) for name in query.inputs}
    jobs = dict(composition.jobs)
    for name, cut in cuts.items():
        options = [each for each in queries[name].options(name) if each != NO_CUT] if name in queries else []
        if cut not in options:
            right = (
                f"expected one of {', '.join(options)}"
                if options
                else "expected an input job with 'cut: auto'"
            )
            fault = Fault(f"cut {cut!r} is not one of its choice ({right})", job=name, field="cut", value=cut)
            raise InvalidInput([fault], f"composition {composition.name!r}")
        table = queries[name].table(name)
        query = {**jobs[name].query, "program": input_of(table, cut).to_json()}
        jobs[name] = replace(jobs[name], query=query)
    return replace(composition, jobs=jobs)


def _program(job: Job) -> Program:
    return parsed(str(job.query["program"]))


def cut_of(job: Job) -> str:
    """The cut of an input job; :data:`NO_CUT` of another one."""
    sends = _program(job).sends
    return sends.cut if sends is not None else NO_CUT


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
    _figures: dict[Vector, Figures] = field(default_factory=dict)
    _known_profiles: dict[str, JobProfile | None] = field(default_factory=dict)

    def vector(self) -> Vector:
        """The cut of each input."""
        options = [self._offered(name) for name in self.query.inputs]
        if all(len(each) == 1 for each in options):
            return tuple(each[0] for each in options)
        placement = self._placement
        least = math.inf if placement.mode == "off" else placement.min_gain
        return choose(options, [self._present(name) for name in self.query.inputs], self._objective, least)

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

    def _present(self, name: str) -> str | None:
        """The cut that an input has now; ``None`` if it does not run."""
        job = self.running.get(name)
        return None if job is None or job.query.get("role") != "input" else cut_of(job)

    def _offered(self, name: str) -> tuple[str, ...]:
        """The cuts in question to which the state of what runs fits."""
        options = self.query.options(name)
        whole = self.running.get(self.query.name)
        if whole is not None and whole.query and NO_CUT in options:
            return (NO_CUT,)
        if self.query.rest not in self.running:
            return options
        found = tuple(each for each in options if each != NO_CUT) or options
        present = self._present(name)
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
        profiles = {**self.inputs.jobs, **self._profiles(vector, jobs)}
        return replace(self.inputs, jobs=profiles, forms={**self.inputs.forms, **jobs}, history={})

    def _profiles(self, vector: Vector, jobs: Mapping[str, Job]) -> dict[str, JobProfile]:
        if vector == (NO_CUT,):
            (name,) = self.query.inputs
            cost = assumed_cost(self.query.rest_job.engine)
            return {self.query.name: self._profile(self._rate(name), cost, 1.0)}
        found, frames, rows = {}, 0.0, 0.0
        for name, cut in zip(self.query.inputs, vector, strict=True):
            sent, rate = self._flow(name, cut), self._rate(name)
            found[name] = self._of_input(name, cut, jobs[name])
            frames += rate * sent.frames
            rows += rate * sent.frames * sent.rows
        cost = assumed_cost(self.query.rest_job.engine) * (READING + (1 - READING) * rows / (frames or 1.0))
        results = 1.0 if self.query.program.stateful else rows  # /s
        return found | {self.query.rest: self._profile(None, cost, results / (frames or 1.0))}

    def _of_input(self, name: str, cut: str, job: Job) -> JobProfile:
        """The profile of an input job at a cut.

        The errors of the model that are measured at the present cut are taken to be those at the others, as
        far as they were never measured there: else a cut that costs more than was assumed would change to
        one that is not measured, and back.
        """
        modelled, known = self._modelled(name, cut, job), self._measured(name)
        present = self._present(name)
        if known is not None and cut == present:
            self.corrections.note(job, known, modelled)
            return better_known(known, modelled)
        if (corrected := self.corrections.corrected(job, modelled)) is not None:
            return corrected
        if known is None or present is None:
            return modelled
        base = self._modelled(name, present, job)
        sent = modelled.selectivity
        if PARTIALS not in (cut, present):  # how far totals merge says nothing about rows in one frame
            sent = _corrected(sent, known.selectivity, base.selectivity)
        return replace(
            modelled,
            cost=_corrected(modelled.cost, known.cost, base.cost),
            selectivity=sent,
            bytes_out=_corrected(modelled.bytes_out, known.bytes_out, base.bytes_out),
        )

    def _measured(self, name: str) -> JobProfile | None:
        """The measured profile of an input as it runs; ``None`` if another query was measured.

        What is only assumed of it, as from its former form, says less of its cut than the model.
        """
        if name not in self._known_profiles:
            known = self.inputs.jobs.get(name) if self._runs_alike(name) else None
            self._known_profiles[name] = None if known is None else known.only_measured()
        return self._known_profiles[name]

    def _runs_alike(self, name: str) -> bool:
        """True if what is measured of an input is of the query that is asked for, up to its present cut."""
        cut, query = self._present(name), self.query
        if cut is None or cut not in query.options(name):
            return False
        form = self.inputs.forms.get(name, self.running[name])
        if "program" not in form.query or cut_of(form) != cut:
            return False
        desired = input_of(query.table(name), cut)
        return replace(_program(form), sends=None) == replace(desired, sends=None)

    def _modelled(self, name: str, cut: str, job: Job) -> JobProfile:
        sent = self._flow(name, cut)
        cost = assumed_cost(job.engine) * (READING + (1 - READING) * sent.frames)
        return self._profile(self._rate(name), cost, sent.frames, sent.size + len(job.sink_topic))

    @staticmethod
    def _profile(
        rate: float | None, cost: float, selectivity: float, size: float | None = None
    ) -> JobProfile:
        def assumed(value: float | None) -> Value | None:
            return None if value is None else Value(value, Known.ASSUMED)

        return JobProfile(
            rate_in=assumed(rate),
            cost=assumed(cost),
            selectivity=assumed(selectivity),
            bytes_out=assumed(size),
        )

    # --- what is known of an input

    def _rate(self, name: str) -> float:
        """Messages/s into an input job."""
        return self.model.problem.rates.into[self.model.number[name]]

    def _flow(self, name: str, cut: str) -> Flow:
        return flow(self.query.table(name), cut, self._rate(name), self._passing(name))

    def _passing(self, name: str) -> float:
        """The share of rows that fulfil the condition: by what is measured behind it, or estimated."""
        known, cut = self._measured(name), self._present(name)
        if known is not None and cut in (FILTER, ROWS) and known.selectivity and known.bytes_out:
            size = known.bytes_out.value - len(self.query.inputs[name].sink_topic)
            return share_of(self.query.table(name), cut, known.selectivity.value, size)
        return passing(self.query.table(name))

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
            return f"{begin}: it has the state of what runs"
        if self.query.inputs[name].site == self.query.rest_job.site:
            return f"{begin}: the rest is at the same site"
        whole, sent = self._traffic(name, cut)
        basis = f"{self._rate(name):.3g} messages/s {self._known(name)}"
        if cut == NO_CUT:
            return f"{begin}: {traffic(whole)} leave the site ({basis})"
        return f"{begin}: {traffic(sent)} leave the site instead of {traffic(whole)} ({basis})"

    def _known(self, name: str) -> str:
        profile = self.inputs.jobs.get(name)
        rate = None if profile is None else profile.rate_in
        return str(Known.ASSUMED if rate is None else rate.known)

    def _traffic(self, name: str, cut: str) -> tuple[float, float]:
        """Bytes/s on the wire: of the messages that an input job reads, and of the frames that it sends."""
        problem, rate = self.model.problem, self._rate(name)
        channel = problem.jobs[self.model.number[name]].inputs[0]
        whole = rate * wire(problem, channel, written=False)
        if cut == NO_CUT:
            return whole, whole
        profile = self._profiles(self._with(name, cut), self.query.inputs)[name]
        frames = _value(profile.selectivity) * rate
        stamp = stamp_at(sinks_of(self.query.inputs[name])[0])
        overhead = problem.overhead + (problem.stamp if stamp is None else stamp) + problem.acknowledgement
        return whole, frames * (_value(profile.bytes_out) + overhead)

    def _with(self, name: str, cut: str) -> Vector:
        earliest = zip(self.query.inputs, self.query.earliest, strict=True)
        return tuple(cut if each == name else first for each, first in earliest)


def _corrected(modelled: Value | None, known: Value | None, base: Value | None) -> Value | None:
    """A value of the model, by the ratio of a known one to that of the model in the same place."""
    if modelled is None or known is None or base is None or not base.value:
        return modelled
    return replace(modelled, value=modelled.value * known.value / base.value)


def _value(value: Value | None) -> float:
    return 0.0 if value is None else value.value
