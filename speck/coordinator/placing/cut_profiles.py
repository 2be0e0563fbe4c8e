"""The profiles of the jobs of a query at any cuts: measured as it runs, corrected, or modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from speck.coordinator.placing.cut_corrections import CutCorrections
from speck.coordinator.placing.cut_queries import CutQuery, cut_of, program_of
from speck.core.job import Job
from speck.placement.cuts import Vector
from speck.placement.model import Model
from speck.placement.profile import Inputs, JobProfile, Known, Value, assumed_cost
from speck.placement.profile import combined as better_known
from speck.sql.cuts import input_of
from speck.sql.estimates import Flow, flow, passing, share_of
from speck.sql.types import FILTER, NO_CUT, PARTIALS, ROWS

READING = 0.5  # the share of the cost of a message that is for reading it; the rest is for what is sent


@dataclass(frozen=True)
class CutProfiles:
    """Estimates for one query; ``running`` are the jobs of the last revision, ``inputs`` their profiles.

    ``model`` is that of the composition as it is, which has the rates into the input jobs.
    """

    query: CutQuery
    running: Mapping[str, Job]
    inputs: Inputs
    model: Model
    corrections: CutCorrections
    _known: dict[str, JobProfile | None] = field(default_factory=dict, init=False)

    def of(self, vector: Vector, jobs: Mapping[str, Job]) -> dict[str, JobProfile]:
        """The profiles of the query's ``jobs`` with these cuts, by name."""
        if vector == (NO_CUT,):
            (name,) = self.query.inputs
            cost = assumed_cost(self.query.rest_job.engine)
            return {self.query.name: self._profile(self.rate(name), cost, 1.0)}
        found, frames, rows = {}, 0.0, 0.0
        for name, cut in zip(self.query.inputs, vector, strict=True):
            sent, rate = self._flow(name, cut), self.rate(name)
            found[name] = self._of_input(name, cut, jobs[name])
            frames += rate * sent.frames
            rows += rate * sent.frames * sent.rows
        cost = assumed_cost(self.query.rest_job.engine) * (READING + (1 - READING) * rows / (frames or 1.0))
        results = 1.0 if self.query.program.stateful else rows  # /s
        return found | {self.query.rest: self._profile(None, cost, results / (frames or 1.0))}

    def present(self, name: str) -> str | None:
        """The cut that an input has now; ``None`` if it does not run."""
        job = self.running.get(name)
        return None if job is None or job.query.get("role") != "input" else cut_of(job)

    def rate(self, name: str) -> float:
        """Messages/s into an input job."""
        return self.model.problem.rates.into[self.model.number[name]]

    def _of_input(self, name: str, cut: str, job: Job) -> JobProfile:
        """The profile of an input job at a cut.

        The errors of the model that are measured at the present cut are taken to be those at the others, as
        far as they were never measured there: else a cut that costs more than was assumed would change to
        one that is not measured, and back.
        """
        modelled, known = self._modelled(name, cut, job), self._measured(name)
        present = self.present(name)
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
        if name not in self._known:
            known = self.inputs.jobs.get(name) if self._runs_alike(name) else None
            self._known[name] = None if known is None else known.only_measured()
        return self._known[name]

    def _runs_alike(self, name: str) -> bool:
        """True if what is measured of an input is of the query that is asked for, up to its present cut."""
        cut, query = self.present(name), self.query
        if cut is None or cut not in query.options(name):
            return False
        form = self.inputs.forms.get(name, self.running[name])
        if "program" not in form.query or cut_of(form) != cut:
            return False
        desired = input_of(query.table(name), cut)
        return replace(program_of(form), sends=None) == replace(desired, sends=None)

    def _modelled(self, name: str, cut: str, job: Job) -> JobProfile:
        sent = self._flow(name, cut)
        cost = assumed_cost(job.engine) * (READING + (1 - READING) * sent.frames)
        return self._profile(self.rate(name), cost, sent.frames, sent.size + len(job.sink_topic))

    def _flow(self, name: str, cut: str) -> Flow:
        return flow(self.query.table(name), cut, self.rate(name), self._passing(name))

    def _passing(self, name: str) -> float:
        """The share of rows that fulfil the condition: by what is measured behind it, or estimated."""
        known, cut = self._measured(name), self.present(name)
        if known is not None and cut in (FILTER, ROWS) and known.selectivity and known.bytes_out:
            size = known.bytes_out.value - len(self.query.inputs[name].sink_topic)
            return share_of(self.query.table(name), cut, known.selectivity.value, size)
        return passing(self.query.table(name))

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


def _corrected(modelled: Value | None, known: Value | None, base: Value | None) -> Value | None:
    """A value of the model, by the ratio of a known one to that of the model in the same place."""
    if modelled is None or known is None or base is None or not base.value:
        return modelled
    return replace(modelled, value=modelled.value * known.value / base.value)
