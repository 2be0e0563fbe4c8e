"""Reads compositions, jobs and the site inventory: the entry points, which report all faults at once.

The form of each field is in :mod:`speck.schema.schemas` (offered here too), what a job resolves to in
:mod:`speck.schema.resolver`, what is worth a warning in :mod:`speck.schema.lint`, the inventory in
:mod:`speck.schema.inventory`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marshmallow import ValidationError

from speck.binder import Registry
from speck.core.graph import Graph, cycle_fault
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job, client_id
from speck.errors import Fault, InvalidInput
from speck.schema.fault_report import Report, kind_of_value
from speck.schema.faults import SHOWN_LENGTH, Faults, quoted
from speck.schema.inventory import NO_VARIABLES, load_inventory
from speck.schema.lint import advice
from speck.schema.resolver import Resolver, Surroundings
from speck.schema.schemas import (
    BrokerSchema,
    CompositionSchema,
    InventorySchema,
    JobLoginSchema,
    JobSchema,
    LoginSchema,
    SiteSchema,
    UplinkSchema,
)
from speck.schema.validation import checked, in_order, mapping_or_refuse, refuse_shape, unknown_beside
from speck.schema.yaml.document import read_document
from speck.schema.yaml.parser import MAX_BYTES, line_of

__all__ = [
    "NO_VARIABLES",
    "BrokerSchema",
    "CompositionSchema",
    "InventorySchema",
    "JobLoginSchema",
    "JobSchema",
    "Loaded",
    "LoginSchema",
    "SiteSchema",
    "UplinkSchema",
    "client_id_conflicts",
    "load_composition",
    "load_inventory",
    "load_job",
    "load_jobs",
    "read_document",
]

_MOST_CYCLES = 10


@dataclass(frozen=True)
class Loaded:
    """A composition without faults, and what is worth a second look in it."""

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
) -> Loaded:
    """Read a composition from YAML (or JSON: ``format="json"``), with the defaults of its variables.

    ``root`` is the directory, or the directories in their order, that job files are taken from.
    ``default_name`` is its name when it gives none.  Raises :class:`InvalidInput` with all faults.
    """
    document = read_document(text, format=format, max_bytes=max_bytes)
    surroundings = Surroundings(inventory, registry, _roots(root))
    return _load(document.value, document.faults, surroundings, default_name)


def load_jobs(
    data: Mapping[str, Any],
    *,
    inventory: Inventory,
    registry: Registry,
    root: Path | Sequence[Path],
    default_name: str,
) -> Loaded:
    """Read a composition that was parsed already (the body of a request).  Raises as above."""
    return _load(data, Faults(), Surroundings(inventory, registry, _roots(root)), default_name)


def load_job(
    data: Mapping[str, Any], *, inventory: Inventory, registry: Registry, root: Path | Sequence[Path]
) -> Job:
    """Read one job that was parsed already.  Raises :class:`InvalidInput` with all of its faults."""
    faults = Faults()
    if not isinstance(data, Mapping):
        raise InvalidInput([Fault(f"the job is {kind_of_value(data)} (expected a mapping)")], "job")
    job = _job(data, 0, Resolver(Surroundings(inventory, registry, _roots(root))), JobSchema(), faults)
    faults += _cycles([job] if job is not None else [])
    if job is None or faults:
        raise InvalidInput(in_order(faults), "job")
    return job


def client_id_conflicts(jobs: Iterable[Job]) -> list[Fault]:
    """A fault for each job that would read through the session of a job before it, at the same broker.

    To be asked of the jobs of all compositions together: a broker ends the older connection of the two.
    """
    faults = []
    holders: dict[tuple[str, str], Job] = {}
    for job in jobs:
        session = client_id(job.job_name)
        holder = holders.setdefault((job.source_broker, session), job)
        if holder is not job:
            message = (
                f"the client id {session!r} is used twice at {job.source_broker} "
                "(expected another job_name: each job reads through a session of its own)"
            )
            faults.append(Fault(message, job=job.job_name, field="job_name", value=job.job_name))
    return faults


def _roots(root: Path | Sequence[Path]) -> tuple[Path, ...]:
    return (root,) if isinstance(root, Path) else tuple(root)


# --- compositions ---------------------------------------------------------------------------------


def _load(data: Any, faults: Faults, surroundings: Surroundings, default_name: str) -> Loaded:
    data = mapping_or_refuse(data, "composition", "jobs")
    report = Report(faults, data)
    name = _composition_name(data, default_name, report)
    written = data.get("jobs")
    if not isinstance(written, list):
        refuse_shape(report, "jobs", "a list of jobs")
        written = []
    resolver, schema = Resolver(surroundings), JobSchema()
    found = [
        _listed_job(each, index, written, resolver, schema, faults) for index, each in enumerate(written)
    ]
    faults += _repeated_names(written)
    jobs = {job.job_name: job for job in found if job is not None}
    faults += _cycles(jobs.values())
    if faults:
        raise InvalidInput(in_order(faults), "composition")
    texts = {each["job_name"]: each for each in written}
    return Loaded(Composition(name, jobs), tuple(advice(Graph.of(jobs.values()), texts)))


def _composition_name(data: Mapping[str, Any], default_name: str, report: Report) -> str:
    schema = CompositionSchema()
    unknown_beside(data, schema, report)
    given = {"name": data["name"] if data.get("name") is not None else default_name}
    try:
        return str(CompositionSchema(only=("name",)).load(given)["name"])
    except ValidationError as error:
        predicate = str(error.messages_dict["name"][0])
        shown = None if data.get("name") is not None else repr(default_name)
        report.add("name", predicate, shown=shown)
        return default_name


def _listed_job(
    data: Any, index: int, jobs: list[Any], resolver: Resolver, schema: JobSchema, faults: Faults
) -> Job | None:
    if isinstance(data, Mapping):
        return _job(data, index, resolver, schema, faults)
    message = f"jobs[{index}] is {kind_of_value(data)} (expected a mapping with 'job_name:')"
    faults.append(Fault(message, job=f"jobs[{index}]", value=data, line=line_of(jobs, index)))
    return None


def _job(
    data: Mapping[str, Any], index: int, resolver: Resolver, schema: JobSchema, faults: Faults
) -> Job | None:
    name = data.get("job_name")
    named = isinstance(name, str) and len(name) <= 2 * SHOWN_LENGTH
    report = Report(faults, data, job=str(name) if named else f"jobs[{index}]")
    return resolver.job(checked(schema, data, report), report)


def _repeated_names(jobs: Iterable[Any]) -> Iterator[Fault]:
    first: dict[str, Any] = {}
    for data in jobs:
        name = data.get("job_name") if isinstance(data, Mapping) else None
        if not isinstance(name, str):
            continue
        if (earlier := first.setdefault(name, data)) is not data:
            line = line_of(earlier, "job_name")
            where = f" (first in line {line})" if line is not None else ""
            message = (
                f"job_name {quoted(name)} is given twice{where}: "
                "expected a name for each job, as its client id"
            )
            line = line_of(data, "job_name")
            yield Fault(message, job=name[:SHOWN_LENGTH], field="job_name", value=name, line=line)


def _cycles(jobs: Iterable[Job]) -> Iterator[Fault]:
    """A fault for each of the first cycles that share no job."""
    rest = {job.job_name: job for job in jobs}
    for _ in range(_MOST_CYCLES):
        names = Graph.of(rest.values()).cycle()
        if names is None:
            return
        yield cycle_fault(names)
        rest = {name: job for name, job in rest.items() if name not in names}
