"""Compositions and jobs: from YAML or JSON to checked values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marshmallow import ValidationError

from speck.binder import Registry
from speck.core.draft import Draft
from speck.core.graph import Graph, cycle_fault
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job, client_id
from speck.errors import Fault, InvalidInput
from speck.schema.code import NOTHING_SENT, SentFile
from speck.schema.cuts import parts_of, query_jobs, query_name_faults, site_faults
from speck.schema.edges import Edges, declared_edges, edge_faults
from speck.schema.fault_report import SHOWN_LENGTH, FaultReport, Faults, kind_of_value, quoted
from speck.schema.for_each import FOR_EACH, Entry, once, unfolded, with_template
from speck.schema.lint import lint
from speck.schema.memory import collector_paused
from speck.schema.partitions import unused_partitions
from speck.schema.placement import (
    placement_faults,
    placement_options,
    placement_warnings,
    report_unknown_jobs,
)
from speck.schema.queries import SQL, Queries, Unread, check_fields, schema_of
from speck.schema.resolver import Environment, Resolver
from speck.schema.schemas import CompositionSchema, JobSchema
from speck.schema.split import part_name_faults, split_jobs
from speck.schema.validation import (
    by_line,
    refuse_other_file,
    report_unknown_fields,
    report_wrong_shape,
    require_mapping,
    validate_fields,
)
from speck.schema.yaml.documents import read_document
from speck.schema.yaml.lines import line_of
from speck.schema.yaml.parser import MAX_BYTES, Document

if TYPE_CHECKING:
    from speck.sql.bind import Query

_MAX_CYCLES = 10  # a graph may have more cycles than jobs; the first few show the mistake


@dataclass(frozen=True)
class Loaded:
    """A composition without faults, and the warnings about it."""

    composition: Composition
    warnings: tuple[Fault, ...] = ()


def load_composition(
    text: str | bytes,
    *,
    inventory: Inventory,
    registry: Registry,
    root: Path | Sequence[Path],
    default_name: str,
    format: str = "yaml",
    max_bytes: int = MAX_BYTES,
    sent: Mapping[str, SentFile] = NOTHING_SENT,
) -> Loaded:
    """Load a composition from YAML (or JSON: ``format="json"``), with the defaults of its variables.

    ``root`` is the directory of job files, or several that are searched in order.  ``default_name`` is the
    composition's name where the document has none.  ``sent`` are the files that came with it, by their path
    in the document: they go before those of the directories.  Raises :class:`InvalidInput` with all faults.
    """
    with collector_paused():
        document = read_document(text, format=format, max_bytes=max_bytes)
        environment = Environment(inventory, registry, _roots(root), sent)
        return _load(document, environment, default_name)


def load_job(
    data: Mapping[str, Any],
    *,
    inventory: Inventory,
    registry: Registry,
    root: Path | Sequence[Path],
    sent: Mapping[str, SentFile] = NOTHING_SENT,
) -> Job:
    """Load one job from parsed data; parameters as of :func:`load_composition`.

    Raises :class:`InvalidInput` with all of its faults."""
    faults = Faults()
    if not isinstance(data, Mapping):
        raise InvalidInput([Fault(f"the job is {kind_of_value(data)} (expected a mapping)")], "job")
    for name, document in ((FOR_EACH, "a composition"), (SQL, "a composition with 'topics:'")):
        if data.get(name) is not None:
            right = f"expected {document}: POST /compositions, or speck apply FILE"
            report = FaultReport(faults, data, job=str(data.get("job_name"))[:SHOWN_LENGTH])
            report.add(name, f"does not fit a single job ({right})", shown="")
            raise InvalidInput(faults, "job")
    environment = Environment(inventory, registry, _roots(root), sent)
    jobs = _jobs(data, 0, Resolver(environment), JobSchema(), faults)
    faults += _cycles(Graph.of(jobs))
    if len(jobs) > 1:
        right = "expected a number of combiners: only a composition has a job for each site"
        FaultReport(faults, data).add(("key_split", "combiners"), f"does not fit a single job ({right})")
    job = jobs[0] if jobs else None
    if job is not None and job.movable:
        written = "sites" if data.get("sites") is not None else "site"
        right = "expected a site's name: only jobs of a composition in a file are placed by SpecK"
        FaultReport(faults, data, job=job.job_name).add(written, f"does not fit a single job ({right})")
    if job is None or faults:
        raise InvalidInput(by_line(faults), "job")
    return job


def client_id_conflicts(jobs: Iterable[Job]) -> list[Fault]:
    """A fault for each job that would use the session of an earlier job at the same broker.

    ``jobs`` are those of all compositions together: a broker closes the older of two connections with the
    same client id (MQTT 5.0, section 3.1.4).
    """
    faults = []
    holders: dict[tuple[str, str], Job] = {}
    for job in jobs:
        session = client_id(job.job_name)
        holder = holders.setdefault((job.source_broker, session), job)
        if holder is not job:
            message = (
                f"the client id {session!r} is used twice at {job.source_broker} "
                "(expected another job_name: each job reads through its own session)"
            )
            faults.append(Fault(message, job=job.job_name, field="job_name", value=job.job_name))
    return faults


def _roots(root: Path | Sequence[Path]) -> tuple[Path, ...]:
    return (root,) if isinstance(root, Path) else tuple(root)


def _load(document: Document, environment: Environment, default_name: str) -> Loaded:
    data, faults = require_mapping(document.value, "composition", "jobs"), document.faults
    refuse_other_file(data, "composition", "jobs", ("site inventory", "sites"))
    report = FaultReport(faults, data)
    name = _composition_name(data, default_name, report)
    made: list[Entry] = []
    if isinstance(data.get("jobs"), list):
        made = unfolded(data, environment.inventory, faults, may_refer=document.may_refer)
    else:
        report_wrong_shape(report, "jobs", "a list of jobs")
    edges = declared_edges(data, report)
    lost, entries = _lost(data, made), [each.data for each in made]
    found = _resolved(made, lost, edges, environment, report, faults)
    jobs = {job.job_name: job for each in found for job in each}
    sources = {job.job_name: entry for each, entry in zip(found, entries, strict=True) for job in each}
    templates = dict(_templates(made))
    templates |= {job.job_name: job.template for each in found for job in each if job.template}
    _report_names(entries, found, faults, complete=not lost)
    composition = Composition(name, jobs, placement_options(data, report), edges.described)
    draft = Draft.of(composition, environment.inventory, environment.registry)
    faults += _cycles(draft.graph)
    if not faults:  # a job with a fault may be the one that writes a topic
        faults += placement_faults(draft, sources)
        faults += edge_faults(draft.graph, edges, sources)
        faults += unused_partitions(edges, jobs.values())
    if faults:
        raise InvalidInput(by_line(once(faults, templates)), "composition")
    warnings = once([*lint(draft.graph, sources, edges), *placement_warnings(draft, sources)], templates)
    return Loaded(composition, tuple(by_line(warnings)))


def _resolved(
    made: Sequence[Entry],
    lost: Sequence[Any],
    edges: Edges,
    environment: Environment,
    report: FaultReport,
    faults: Faults,
) -> list[tuple[Job, ...]]:
    """The jobs of each entry; a query may read what a ``lost`` one would have written."""
    topics = report.data.get("topics")
    unread = Unread.of(topics, edges, [*lost, *(each.data for each in made)], report)
    queries = Queries.of(made, edges, environment.roots, environment.sent, faults, unread)
    resolver = Resolver(environment, edges.partitions)
    found = _all_jobs(made, resolver, queries, faults)
    _check_files(lost, resolver, faults)
    site_faults(queries.bound.values(), topics if isinstance(topics, Mapping) else {}, resolver, faults)
    return found


def _templates(made: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    """The name and the template of each entry of a ``for_each``, also of one whose query has a fault."""
    for entry in made:
        if entry.template and isinstance(entry.data, Mapping):
            yield str(entry.data.get("job_name"))[:SHOWN_LENGTH], entry.template


def _check_files(lost: Iterable[Any], resolver: Resolver, faults: Faults) -> None:
    """Report the missing files of entries that gave no job: at whatever sites, their jobs need them."""
    schema = JobSchema(only=("job_path",))
    for data in lost:
        path = data.get("job_path") if isinstance(data, Mapping) else None
        if path is not None and "${" not in str(path):
            report = FaultReport(faults, data, job=str(data.get("job_name"))[:SHOWN_LENGTH])
            resolver.code.check_file(validate_fields(schema, {"job_path": path}, report), report)


def _report_names(
    entries: Sequence[Any], found: Sequence[Sequence[Job]], faults: Faults, *, complete: bool
) -> None:
    """Report names of jobs that are given twice, or that refer to no job."""
    faults += _repeated_names(entries)
    parts = parts_of(job for each in found for job in each)
    faults += [*part_name_faults(entries), *query_name_faults(parts, entries)]
    report_unknown_jobs(entries, faults, parts, tuple(_unmade(entries, found)), complete=complete)


def _unmade(entries: Sequence[Any], found: Sequence[Sequence[Job]]) -> Iterator[str]:
    """The names of the queries that have a fault, and so no jobs."""
    for entry, jobs in zip(entries, found, strict=True):
        if not jobs and isinstance(entry, Mapping) and entry.get(SQL) is not None:
            yield str(entry.get("job_name"))


def _lost(data: Mapping[str, Any], made: Sequence[Entry]) -> list[Any]:
    """The entries of a document that gave no job, since their ``for_each`` has a fault."""
    jobs, found = data.get("jobs"), {entry.index for entry in made}
    return [each for index, each in enumerate(jobs) if index not in found] if isinstance(jobs, list) else []


def _composition_name(data: Mapping[str, Any], default_name: str, report: FaultReport) -> str:
    report_unknown_fields(data, CompositionSchema(), report)
    given = data.get("name") is not None
    name = data["name"] if given else default_name
    try:
        return str(CompositionSchema(only=("name",)).load({"name": name})["name"])
    except ValidationError as error:
        predicate = str(error.messages_dict["name"][0])
        report.add("name", predicate, shown=None if given else repr(default_name))
        return default_name


def _all_jobs(
    entries: Iterable[Entry], resolver: Resolver, queries: Queries, faults: Faults
) -> list[tuple[Job, ...]]:
    """The jobs of each entry; of those that a ``for_each`` made none after the first with a fault."""
    schema, found, faulty = JobSchema(), list[tuple[Job, ...]](), set[int]()
    for place, entry in enumerate(entries):
        before, query = len(faults), queries.bound.get(place)
        found.append(() if entry.index in faulty else _listed_jobs(entry, resolver, schema, faults, query))
        if len(faults) > before:
            faulty.add(entry.index)
    return found


def _listed_jobs(
    entry: Entry, resolver: Resolver, schema: JobSchema, faults: Faults, query: Query | None
) -> tuple[Job, ...]:
    if isinstance(entry.data, Mapping):
        jobs = _jobs(entry.data, entry.index, resolver, schema, faults, query)
        return tuple(with_template(each, entry) for each in jobs)
    message = f"jobs[{entry.index}] is {kind_of_value(entry.data)} (expected a mapping with 'job_name:')"
    faults.append(Fault(message, job=f"jobs[{entry.index}]", value=entry.data, line=entry.line))
    return ()


def _jobs(
    data: Mapping[str, Any],
    index: int,
    resolver: Resolver,
    schema: JobSchema,
    faults: Faults,
    query: Query | None = None,
) -> tuple[Job, ...]:
    name = data.get("job_name")
    named = isinstance(name, str) and len(name) <= 2 * SHOWN_LENGTH
    report = FaultReport(faults, data, job=str(name) if named else f"jobs[{index}]")
    fields = validate_fields(schema_of(data, schema), data, report)
    check_fields(data, report)
    if data.get(SQL) is not None:
        return query_jobs(fields, query, resolver, report)
    return split_jobs(resolver.job(fields, report), fields, resolver, report)


def _repeated_names(entries: Iterable[Any]) -> Iterator[Fault]:
    first: dict[str, Any] = {}
    for entry in entries:
        name = entry.get("job_name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str):
            continue
        if (earlier := first.setdefault(name, entry)) is not entry:
            line = line_of(earlier, "job_name")
            where = f"first in line {line}; " if line is not None else ""
            message = f"job_name {quoted(name)} is given twice ({where}expected a unique name for each job)"
            line = line_of(entry, "job_name")
            yield Fault(message, job=name[:SHOWN_LENGTH], field="job_name", value=name, line=line)


def _cycles(graph: Graph) -> Iterator[Fault]:
    """A fault for each of the first cycles that share no job."""
    return map(cycle_fault, graph.cycles(_MAX_CYCLES))
