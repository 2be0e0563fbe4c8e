"""Reads compositions, jobs and the site inventory: the entry points, which report all faults at once.

The form of each field is in :mod:`speck.schema.forms` (offered here too), what a job resolves to in
:mod:`speck.schema.resolve`, what is worth a warning in :mod:`speck.schema.advice`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marshmallow import ValidationError

from speck.binder import Registry
from speck.errors import Fault, InvalidInput
from speck.graph import Graph, cycle_fault
from speck.model import Composition, Engine, Inventory, Job, Login, Site, Uplink, client_id
from speck.schema.address import BadAddress, canonical, redacted
from speck.schema.advice import advice
from speck.schema.faults import SHOWN_LENGTH, Faults, quoted
from speck.schema.fields import StrictSchema
from speck.schema.forms import (
    CompositionSchema,
    EngineSchema,
    InventorySchema,
    JobSchema,
    LoginSchema,
    SiteSchema,
    UplinkSchema,
    check_name,
)
from speck.schema.report import Report, kind_of_value
from speck.schema.resolve import Resolver, Surroundings
from speck.schema.yamltext import MAX_BYTES, line_of, parse

__all__ = [
    "CompositionSchema",
    "InventorySchema",
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
]

_HIDDEN = frozenset(("engine_login", "broker_login"))
_ENGINE_FIELDS = tuple(EngineSchema().load_fields)
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
    """Read a composition from YAML (or JSON: ``format="json"``).

    ``root`` is the directory, or the directories in their order, that job files are taken from.
    ``default_name`` is its name when it gives none.  Raises :class:`InvalidInput` with all faults.
    """
    document = parse(text, format=format, max_bytes=max_bytes)
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
        raise InvalidInput(_sorted(faults), "job")
    return job


def load_inventory(text: str | bytes, *, format: str = "yaml", max_bytes: int = MAX_BYTES) -> Inventory:
    """Read a site inventory.  Raises :class:`InvalidInput` with all faults; none repeats a secret."""
    document = parse(text, format=format, max_bytes=max_bytes)
    faults = document.faults
    data = _mapping_or_refuse(document.value, "site inventory", "sites")
    written = data.get("sites")
    report = Report(faults, data)
    _unknown_beside(data, InventorySchema(), report)
    if not isinstance(written, Mapping):
        _refuse_shape(report, "sites", "a mapping of names to sites")
        written = {}
    sites = [
        site for name in written if (site := _site(str(name), written[name], written, faults)) is not None
    ]
    faults += _shared_engines(sites, written)
    if faults:
        raise InvalidInput(_sorted(faults), "inventory")
    return Inventory({site.name: site for site in sites})


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


def _sorted(faults: Iterable[Fault]) -> list[Fault]:
    """In the order of the text, as far as it is known."""
    return sorted(faults, key=lambda fault: fault.line or 0)


# --- compositions ---------------------------------------------------------------------------------


def _load(data: Any, faults: Faults, surroundings: Surroundings, default_name: str) -> Loaded:
    data = _mapping_or_refuse(data, "composition", "jobs")
    report = Report(faults, data)
    name = _composition_name(data, default_name, report)
    written = data.get("jobs")
    if not isinstance(written, list):
        _refuse_shape(report, "jobs", "a list of jobs")
        written = []
    resolver, schema = Resolver(surroundings), JobSchema()
    found = [
        _listed_job(each, index, written, resolver, schema, faults) for index, each in enumerate(written)
    ]
    faults += _repeated_names(written)
    jobs = {job.job_name: job for job in found if job is not None}
    faults += _cycles(jobs.values())
    if faults:
        raise InvalidInput(_sorted(faults), "composition")
    texts = {each["job_name"]: each for each in written}
    return Loaded(Composition(name, jobs), tuple(advice(Graph.of(jobs.values()), texts)))


def _mapping_or_refuse(data: object, what: str, field: str) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        return data
    message = f"the {what} is {kind_of_value(data)} (expected a mapping with '{field}:')"
    raise InvalidInput([Fault(message, line=line_of(data))], what)


def _refuse_shape(report: Report, field: str, expected: str) -> None:
    value = report.data.get(field)
    predicate = "is missing" if field not in report.data else f"is {kind_of_value(value)}"
    report.add(field, f"{predicate} (expected {expected})", shown="")


def _unknown_beside(data: Mapping[str, Any], schema: StrictSchema, report: Report) -> None:
    for key in data:
        if key not in schema.load_fields:
            report.unknown((key,), schema.load_fields)


def _composition_name(data: Mapping[str, Any], default_name: str, report: Report) -> str:
    schema = CompositionSchema()
    _unknown_beside(data, schema, report)
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
    return resolver.job(_checked(schema, data, report), report)


def _checked(schema: StrictSchema, data: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The fields that are right by themselves; the others are reported."""
    try:
        return dict(schema.load(data))
    except ValidationError as error:
        for path, predicate in _flat(error.messages_dict):
            _record(schema, path, predicate, report)
        valid = error.valid_data
        return dict(valid) if isinstance(valid, Mapping) else {}


def _flat(messages: Mapping[Any, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The messages of marshmallow, nested as the data are, one by one with their paths."""
    for key, inner in messages.items():
        here = path if key in ("_schema", "value", "key") and path else (*path, key)
        if isinstance(inner, Mapping):
            yield from _flat(inner, here)
        else:
            yield from ((here, str(message)) for message in inner)


def _record(schema: StrictSchema, path: tuple[Any, ...], predicate: str, report: Report) -> None:
    if predicate == schema.error_messages["unknown"]:
        nested: Any = schema
        for step in path[:-1]:
            if not isinstance(step, int):  # a list has one schema for all of its places
                field = nested.load_fields[step]
                nested = getattr(field, "inner", field).schema
        report.unknown(path, nested.load_fields)
    else:
        report.add(path, predicate, shown=None if _HIDDEN.isdisjoint(path) else "")


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


# --- the site inventory ---------------------------------------------------------------------------


def _site(name: str, data: Any, sites: Mapping[str, Any], faults: Faults) -> Site | None:
    subject = f"site {quoted(name)}: "
    if not isinstance(data, Mapping):
        message = f"{subject}is {kind_of_value(data)} (expected a mapping)"
        faults.append(Fault(message, field="sites", line=line_of(sites, name)))
        return None
    report = Report(faults, data, subject=subject)
    if (fault := check_name(name)) is not None:
        faults.append(Fault(f"{subject}{fault}", field="sites", value=name, line=line_of(sites, name)))
    fields = _checked(SiteSchema(), data, report)
    engines = _engines(fields, report)
    broker = _address(("broker_address",), fields.pop("broker_address", None), report)
    made = _made(fields, {"uplink": Uplink, "broker_login": Login})
    return Site(**made, name=name, engines=engines, broker_address=broker) if report.sound else None


def _engines(fields: dict[str, Any], report: Report) -> tuple[Engine, ...]:
    """Takes the engines out of a site's fields, where a single one has its fields beside the others."""
    inline = {name: fields.pop(name) for name in _ENGINE_FIELDS if name in fields}
    listed = fields.pop("engines", None)
    if listed is None:
        if "spe_address" not in inline and report.data.get("spe_address") is None:
            report.add("spe_address", "is missing (expected an engine's address, or engines)", shown="")
        return (_engine((), inline, report),)
    for name in inline:
        report.add(name, "stands beside engines (expected it in one of them)", shown="")
    return tuple(_engine(("engines", index), dict(each), report) for index, each in enumerate(listed))


def _engine(path: tuple[str | int, ...], fields: dict[str, Any], report: Report) -> Engine:
    address = _address((*path, "spe_address"), fields.pop("spe_address", None), report)
    return Engine(**_made(fields, {"engine_login": Login}), spe_address=address)


def _address(path: Sequence[str | int], value: str | None, report: Report) -> str:
    """The canonical address; of a field that is missing, which was reported, an empty one."""
    try:
        return canonical(value) if value is not None else ""
    except BadAddress as error:
        form = "sc://HOST:PORT or http://HOST:PORT" if path[-1] == "spe_address" else "tcp://HOST:PORT"
        report.add(path, f"{error} (expected {form})", shown=repr(redacted(str(value))))
        return ""


def _made(fields: Mapping[str, Any], inner: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    return {name: inner[name](**value) if name in inner else value for name, value in fields.items()}


def _shared_engines(sites: Iterable[Site], written: Mapping[str, Any]) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for site, address in ((each, engine.spe_address) for each in sites for engine in each.engines):
        if address in first:
            message = (
                f"site {site.name!r}: spe_address {address!r} is that of site {first[address]!r} too "
                "(expected each engine once)"
            )
            yield Fault(message, field="spe_address", value=address, line=line_of(written, site.name))
        first[address] = site.name
