"""From a job as written to a job as wanted: sites filled in, addresses canonical, code found and hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from speck.binder import ENGINE_OF_SCHEME, EngineKind, Parameter, Registry, scheme_of
from speck.core.inventory import Inventory, Site
from speck.core.job import JOB_NAME, Job
from speck.schema.address import SAME_SCHEME, BadAddress, canonical, redacted
from speck.schema.arguments import argument_faults
from speck.schema.fault_report import Report
from speck.schema.units import spark_interval
from speck.store.jobfile import BadFile, content_hash, locate, type_fault


@dataclass(frozen=True)
class Surroundings:
    """What a job is read against: the sites, the binders installed, the directories that hold job files."""

    inventory: Inventory
    registry: Registry
    roots: tuple[Path, ...]


class Resolver:
    """Resolves the jobs of one document; each file is looked at once, whatever the number of its jobs."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._inventory = surroundings.inventory
        self._sites = surroundings.inventory.sites
        self._registry = surroundings.registry
        self._expected_broker = _forms(
            SAME_SCHEME.get(scheme, scheme) for kind in self._registry.brokers for scheme in kind.schemes
        )
        self._expected_engine = _forms(scheme for kind in self._registry.engines for scheme in kind.schemes)
        self._code: Callable[[str], tuple[Path | None, str]] = cache(
            lambda job_path: _find_code(job_path, surroundings.roots)
        )
        self._code_fault = cache(_code_fault)
        self._parameters = cache(_parameters)

    def job(self, fields: Mapping[str, Any], report: Report) -> Job | None:
        """The job of these fields (each right by itself, some maybe absent); ``None`` when it has faults."""
        site = self._site(fields, report)
        address = self._engine_address(fields, site, report)
        brokers: dict[str, Any] = {
            name: self._broker(name, fields, site, report) for name in ("source_broker", "sink_broker")
        }
        kind = self._engine(fields, address, report) if address is not None else None
        code_hash = self._check_code(fields, kind, report) if kind is not None else ""
        trigger = _trigger(fields, kind, report)
        if not report.sound or kind is None or address is None:
            return None
        return Job(
            **{name: value for name, value in fields.items() if name not in _RESOLVED},
            **brokers,
            spe_address=address,
            engine=kind.engine,
            site=self._site_name(fields),
            trigger=trigger,
            code_hash=code_hash,
        )

    def _site(self, fields: Mapping[str, Any], report: Report) -> Site | None:
        name = fields.get("site")
        if name is not None and name not in self._sites:
            report.add("site", f"is no site of the inventory ({self._known_sites()})")
        return self._sites.get(name or "")

    def _site_name(self, fields: Mapping[str, Any]) -> str | None:
        """Where the engine is: the site that ``spe_address`` names goes before ``site``."""
        named = fields.get("spe_address")
        return named if named in self._sites else fields.get("site")

    def _known_sites(self) -> str:
        return f"known: {', '.join(sorted(self._sites))}" if self._sites else "the inventory has none"

    def _engine_address(self, fields: Mapping[str, Any], site: Site | None, report: Report) -> str | None:
        name = "spe_address"
        if name not in fields:
            _miss(name, fields, report, site, self._expected_engine)
            return _engine_of(site, fields.get("engine"), "site", report) if site is not None else None
        value = fields[name]
        if value in self._sites:
            return _engine_of(self._sites[value], fields.get("engine"), name, report)
        return self._canonical(name, value, "an engine address", self._expected_engine, report)

    def _broker(self, name: str, fields: Mapping[str, Any], site: Site | None, report: Report) -> str | None:
        if name not in fields:
            _miss(name, fields, report, site, self._expected_broker)
            return canonical(site.broker_address) if site is not None else None
        value = fields[name]
        if (named := self._inventory.broker_named(value)) is not None:
            return canonical(named.broker_address)
        address = self._canonical(name, value, "a broker address", self._expected_broker, report)
        if address is not None and self._registry.broker_kind(address) is None:
            predicate = f"is at no kind of broker that a binder serves (expected {self._expected_broker})"
            report.add(name, predicate, shown=repr(redacted(value)))
        return address

    def _canonical(self, name: str, value: str, what: str, expected: str, report: Report) -> str | None:
        try:
            return canonical(value)
        except BadAddress as error:
            predicate = f"{error} (expected {expected})"
            if str(error) == "is not an address":
                predicate = f"is not {what} (expected {expected})"
                if JOB_NAME.match(value) and self._sites:
                    predicate = f"is not {what}, nor a site (expected {expected}; {self._known_sites()})"
            report.add(name, predicate, shown=repr(redacted(value)))
            return None

    def _engine(self, fields: Mapping[str, Any], address: str, report: Report) -> EngineKind | None:
        engine = fields.get("engine") or ENGINE_OF_SCHEME.get(scheme_of(address))
        if engine is None:
            predicate = f"is not an engine address (expected {self._expected_engine})"
            report.add("spe_address", predicate, shown=repr(redacted(address)))
            return None
        kind = self._registry.engine_kind(engine, address)
        if kind is None:
            report.add("engine", self._unserved(engine, address), shown=repr(engine))
        return kind

    def _unserved(self, engine: str, address: str) -> str:
        schemes = [
            scheme for kind in self._registry.engines if kind.engine == engine for scheme in kind.schemes
        ]
        if schemes:
            return f"does not fit spe_address {redacted(address)!r} (expected {_forms(schemes)})"
        names = ", ".join(sorted({kind.engine for kind in self._registry.engines})) or "none"
        return f"is served by no installed binder (installed: {names})"

    def _check_code(self, fields: Mapping[str, Any], kind: EngineKind, report: Report) -> str:
        job_path, entry_class = fields.get("job_path"), fields.get("entry_class")
        if job_path is None:
            return ""
        if (wrong_type := type_fault(job_path, kind.engine)) is not None:
            report.add("job_path", wrong_type)
            return ""
        path, hash_or_fault = self._code(job_path)
        if path is None:
            report.add("job_path", hash_or_fault)
            return ""
        if entry_class is None:
            return hash_or_fault
        if (fault := self._code_fault(kind, path, entry_class)) is not None:
            report.say("entry_class", fault)
        else:
            self._check_arguments(fields, self._parameters(kind, path, entry_class), report)
        return hash_or_fault

    def _check_arguments(
        self, fields: Mapping[str, Any], taken: Sequence[Parameter] | None, report: Report
    ) -> None:
        told = "arguments" in report.data and "arguments" not in fields  # wrong by themselves
        if taken is not None and not told:
            for fault in argument_faults(fields["entry_class"], taken, fields.get("arguments", {})):
                report.say("arguments", fault)


# What is found out here; the other fields go into the job as written.
_RESOLVED = frozenset(("spe_address", "source_broker", "sink_broker", "engine", "site", "trigger"))


def _engine_of(site: Site, engine: str | None, named_by: str, report: Report) -> str | None:
    """The address of the site's engine that a job is for: the only one, or the only one of the kind named."""
    addresses = [each.spe_address for each in site.engines]
    if len(addresses) > 1 and engine is not None:
        addresses = [each for each in addresses if ENGINE_OF_SCHEME.get(scheme_of(each)) == engine]
    if len(addresses) == 1:
        return canonical(addresses[0])
    there = " and ".join(redacted(each.spe_address) for each in site.engines)
    if addresses:
        report.add(named_by, f"has several engines: {there} (say which, by engine or spe_address)")
    else:
        report.add("engine", f"is not at site {site.name!r}, which has {there}")
    return None


def _find_code(job_path: str, roots: tuple[Path, ...]) -> tuple[Path | None, str]:
    """The file and its hash, or ``None`` and what is wrong."""
    try:
        path = locate(job_path, roots)
        return path, content_hash(path, roots)
    except BadFile as error:
        return None, str(error)


def _code_fault(kind: EngineKind, path: Path, entry_class: str) -> str | None:
    return kind.check_code(path, entry_class)


def _parameters(kind: EngineKind, path: Path, entry_class: str) -> Sequence[Parameter] | None:
    return kind.parameters(path, entry_class) if kind.parameters is not None else None


def _forms(schemes: Iterable[str]) -> str:
    """The forms of address that are right, for people."""
    return (
        " or ".join(f"{scheme}://HOST:PORT" for scheme in dict.fromkeys(schemes)) or "no binder is installed"
    )


def _miss(name: str, fields: Mapping[str, Any], report: Report, site: Site | None, expected: str) -> None:
    """Record that an address is missing, unless it is given and wrong, or a site stands for it."""
    if site is None and "site" not in fields and report.data.get(name) is None:
        report.add(name, f"is missing (expected {expected}, or a site)", shown="")


def _trigger(fields: Mapping[str, Any], kind: EngineKind | None, report: Report) -> str | None:
    trigger = fields.get("trigger")
    if trigger is None:
        return None
    if kind is not None and kind.engine != "spark":
        report.add("trigger", f"does not fit engine {kind.engine!r} (only Spark has micro-batches)")
        return None
    return spark_interval(trigger)
