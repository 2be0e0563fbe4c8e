"""The queries with a cut to be chosen: their input jobs and their rest, and these with other cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from speck.core.job import Composition, Job
from speck.errors import Fault, InvalidInput
from speck.placement.cuts import Vector
from speck.sql.cuts import cuts_of, input_of, table_of, whole_of
from speck.sql.program import Program, parsed
from speck.sql.types import NO_CUT


@dataclass(frozen=True)
class CutQuery:
    """A query with a cut to be chosen: its input jobs and its rest."""

    name: str
    inputs: Mapping[str, Job]
    rest: str
    rest_job: Job

    @cached_property
    def program(self) -> Program:
        return program_of(self.rest_job)

    @property
    def present(self) -> Vector:
        """The cuts that its input jobs have."""
        return tuple(map(cut_of, self.inputs.values()))

    @property
    def earliest(self) -> Vector:
        """The first cut of each input, which need not be a candidate."""
        return tuple(cuts_of(self.table(name))[0] for name in self.inputs)

    def options(self, name: str) -> tuple[str, ...]:
        """The candidate cuts of an input, the earliest first."""
        job = self.inputs[name]
        return job.cuts or (cut_of(job),)

    def table(self, name: str) -> Program:
        """The part of the query that concerns the table of an input."""
        job, join = self.inputs[name], self.program.join
        number = 0 if join is None else join.tables.index(str(job.query["input"]).partition("-")[0])
        return table_of(self.program, program_of(job), number)

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
            query={"program": whole_of(self.program, program_of(job).input).to_json()},
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


def cut_of(job: Job) -> str:
    """The cut of an input job; :data:`NO_CUT` of another one."""
    sends = program_of(job).sends
    return sends.cut if sends is not None else NO_CUT


def program_of(job: Job) -> Program:
    """The program of a job of a query."""
    return parsed(str(job.query["program"]))
