"""From the valid fields of a job to a job: sites filled in, addresses canonical, code found and hashed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from speck.binder import BrokerKind, EngineKind, Registry, engine_of
from speck.core.inventory import Inventory, Site
from speck.core.job import PLACED_FIELDS, POOLED, Job
from speck.core.names import JOB_NAME
from speck.core.needs import Needs, of_each_scheme
from speck.core.placement import ANY, Expects
from speck.schema.address import NOT_AN_ADDRESS, SAME_SCHEME, BadAddress, canonical, redacted
from speck.schema.code import CodeChecker, SentFile
from speck.schema.fault_report import NO_SITES, SUGGESTION_BUDGET, FaultReport, closest, listed
from speck.schema.job_checks import check_broker, check_on_error, start_of, trigger_of
from speck.store.jobfile import SUFFIXES

# Fields that the resolver determines; the others enter the job as written.
_RESOLVED = frozenset((*PLACED_FIELDS, "engine", "site", "trigger", "start", "sites", "expects", "key_split"))


NO_PARTITIONS: Mapping[str, int] = MappingProxyType({})  # by topic
_PLACE = ("site", "spe_address")
_SITES = ("site", "sites", "for_each")  # the fields that give a job its addresses
_BROKERS = {"source_broker": ("source_topic", "park_topic"), "sink_broker": ("sink_topic",)}
_MOST_LISTED = 20  # names in a message
_TOPICS = ("source_topic", "sink_topic", "park_topic")
Steps = tuple[str | int, ...]  # the keys from a job's data to a value


@dataclass(frozen=True)
class Environment:
    """The sites, the installed binders and the directories of job files (``roots``) of a server.

    ``sent`` are the files that came with a document, by their path in it.
    """

    inventory: Inventory
    registry: Registry
    roots: tuple[Path, ...]
    sent: Mapping[str, SentFile] = field(default_factory=dict)


class Resolver:
    """Resolves the jobs of one document; ``partitions`` are declared there, by topic."""

    def __init__(self, environment: Environment, partitions: Mapping[str, int] = NO_PARTITIONS) -> None:
        self._partitions = partitions
        self._inventory = environment.inventory
        self._sites = environment.inventory.sites
        self._registry = environment.registry
        self.code = CodeChecker(environment.roots, environment.registry, environment.sent)
        self._expected_broker = _forms(
            SAME_SCHEME.get(scheme, scheme) for kind in self._registry.brokers for scheme in kind.schemes
        )
        self._expected_engine = _forms(scheme for kind in self._registry.engines for scheme in kind.schemes)
        self._engines = sorted({kind.engine for kind in self._registry.engines})
        self._places = (*self._sites, *self._inventory.brokers)
        self._meant: dict[str, str | None] = {}  # the known name that an unknown one probably is

    @property
    def sites(self) -> Mapping[str, Site]:
        """The sites of the inventory, by name."""
        return self._sites

    @property
    def partitions(self) -> Mapping[str, int]:
        """The declared partitions of topics."""
        return self._partitions

    def has_panes(self, job: Job) -> bool:
        """True if the engine of a job has :attr:`~speck.binder.QueryRunner.panes`."""
        kind = self._registry.engine_kind(job.engine, job.spe_address)
        return kind is not None and kind.queries is not None and kind.queries.panes

    def job(self, fields: Mapping[str, Any], report: FaultReport) -> Job | None:
        """The job of these fields (each valid on its own; some may be absent).

        Adds its faults to ``report``; ``None`` if that has any.  The addresses that SpecK is to choose are
        empty; of an engine in a pool it is the first one's.
        """
        self._check_engine(fields, report)
        if fields.get("site") == ANY or report.data.get("sites") is not None:
            return self._movable_job(fields, report)
        site = self._site(fields, report)
        address = self._engine_address(fields, site, report)
        brokers: dict[str, Any] = {
            name: self._broker(name, fields, site, report) for name in ("source_broker", "sink_broker")
        }
        kind = self._engine(fields, address, report) if address is not None else None
        site_name = self._site_name(fields)
        pooled = fields.get("spe_address", site_name) == site_name and self._inventory.pool_of(address or "")
        resolved = {**brokers, "spe_address": address or "", "site": site_name}
        return self._checked(fields, kind, report, **resolved, placed=POOLED if pooled else ())

    def _checked(
        self, fields: Mapping[str, Any], kind: EngineKind | None, report: FaultReport, **resolved: Any
    ) -> Job | None:
        """The job with these resolved fields, if its code and the others are right too."""
        if kind is not None and report.data.get("sql") is not None:
            resolved |= self.code.query_runner(kind, report)
        elif kind is not None:
            resolved["code_hash"] = self.code.check(fields, kind, report)
        trigger = trigger_of(fields, kind, report)
        start = start_of(fields, resolved, report)
        check_on_error(fields, kind, report)
        if kind is not None:
            for each in self._registry.misfits(self._needs(fields, kind.engine, resolved), kind):
                report.add(each.field, each.predicate, shown=None if each.value else "")
            self._check_brokers(fields, resolved, report)
        if not report.sound or kind is None:
            return None
        topics = [str(fields[name]) for name in _TOPICS if name in fields]
        partitions = {topic: self._partitions[topic] for topic in topics if topic in self._partitions}
        expects = Expects(**fields["expects"]) if fields.get("expects") else None
        given = {name: value for name, value in fields.items() if name not in _RESOLVED}
        if partitions:
            given["partitions"] = partitions
        return Job(
            **given,
            **resolved,
            engine=kind.engine,
            trigger=trigger,
            expects=expects,
            start=start,
        )

    def _needs(self, fields: Mapping[str, Any], engine: str, resolved: Mapping[str, Any]) -> Needs:
        """The needs of a job of its engine, which is to reach its brokers, and all that it may get."""
        brokers = (
            (name, address) for name in _BROKERS for address in of_each_scheme(self._brokers(name, resolved))
        )
        features = {
            name: fields[name] for name in ("trigger", "output_mode", "on_error", "retain") if name in fields
        }
        return Needs(engine, tuple(brokers), **features)

    def _check_brokers(
        self, fields: Mapping[str, Any], resolved: Mapping[str, Any], report: FaultReport
    ) -> None:
        """Check that a job's topics and features fit its brokers, and all that it may get."""
        for name, topics in _BROKERS.items():
            for address in self._brokers(name, resolved):
                broker = self._registry.broker_kind(address)
                if broker is not None:
                    # The topic of a query with a fault is empty.
                    here = [each for each in topics if fields.get(each)]
                    check_broker(fields, broker, address, name, here, report)
                    for topic in here:
                        self._check_partitions(str(fields[topic]), broker, address, topic, report)

    def _brokers(self, name: str, resolved: Mapping[str, Any]) -> Iterable[str]:
        """The broker of a job; those of all sites that it may get if SpecK is to choose it."""
        if given := resolved.get(name):
            return (given,)
        sites = [self._sites[each] for each in resolved.get("sites") or () if each in self._sites]
        return dict.fromkeys(canonical(each.broker_address) for each in sites or self._sites.values())

    def _check_partitions(
        self, topic: str, broker: BrokerKind, address: str, name: str, report: FaultReport
    ) -> None:
        if topic in self._partitions and not broker.partitions:
            right = "expected no partitions under 'topics:', or a broker whose topics have some"
            report.add(
                name, f"has partitions, which broker {address} of {broker.name} does not have ({right})"
            )

    # --- jobs that SpecK places

    def _movable_job(self, fields: Mapping[str, Any], report: FaultReport) -> Job | None:
        """A job whose site is one of several: its address, and the brokers not given, are empty."""
        sites = self._allowed(fields, report)
        engine = _named_engine(fields, report)
        if engine is None or self._is_unknown(fields.get("engine")):
            return None
        given = [
            name
            for name in ("source_broker", "sink_broker")
            if name in fields or report.data.get(name) is not None
        ]
        brokers = {
            name: self._broker(name, fields, None, report) if name in given else "" for name in _BROKERS
        }
        placed = tuple(name for name in PLACED_FIELDS if name not in given)
        resolved = {**brokers, "spe_address": "", "sites": sites, "placed": placed}
        kind = self._kind_at(self._needs(fields, engine, resolved), sites, report) if report.sound else None
        return self._checked(fields, kind, report, **resolved)

    def _allowed(self, fields: Mapping[str, Any], report: FaultReport) -> tuple[str, ...]:
        """The names of the sites that a job may run at, or ``any``."""
        written = "sites" if report.data.get("sites") is not None else "site"
        if report.data.get("spe_address") is not None:
            right = "expected one of them: a place, or places to choose from"
            report.add("spe_address", f"is given beside {written!r} ({right})")
        if written == "sites" and report.data.get("site") is not None:
            report.add("site", "is given beside 'sites' (expected one of them)")
        if not self._sites:
            report.add(written, f"has no site to choose from ({NO_SITES})")
            return ()
        names: tuple[str, ...] = fields.get("sites", ()) if written == "sites" else (ANY,)
        if names != (ANY,):
            for index, name in enumerate(names):
                if name not in self._sites:
                    report.add(("sites", index), self.no_site(name))
        return names

    def _kind_at(self, needs: Needs, sites: Sequence[str], report: FaultReport) -> EngineKind | None:
        """The first kind of engine at these sites that fits a job; the first of all if none does.

        Where one does, it adds a fault for each named site that has none.
        """
        anywhere = tuple(sites) == (ANY,)
        kinds = (
            kind for name in (self._sites if anywhere else sites) for kind in self._kinds(needs.engine, name)
        )
        if (first := next(kinds, None)) is None:
            among = "no site of the inventory" if anywhere else f"none of {listed(sites)}"
            written = "sites" if report.data.get("sites") is not None else "site"
            right = f"{among} has one of kind {needs.engine!r} (expected a site with one)"
            report.add(written, f"fits no engine: {right}")
            return None
        fitting = (each for each in chain((first,), kinds) if not any(self._registry.misfits(needs, each)))
        kind = next(fitting, None)
        if kind is not None and not anywhere:
            self._check_sites(needs, sites, report)
        return kind or first

    def _check_sites(self, needs: Needs, sites: Sequence[str], report: FaultReport) -> None:
        for index, name in enumerate(sites):
            misfits = [
                next(self._registry.misfits(needs, kind), None) for kind in self._kinds(needs.engine, name)
            ]
            if misfits and None not in misfits:
                report.add(("sites", index), f"cannot run it: {misfits[0]}")

    def _kinds(self, engine: str, site: str) -> Iterator[EngineKind]:
        """The kinds of the engines of a site that have the name ``engine``."""
        for each in self._sites[site].engines:
            kind = self._registry.engine_kind(engine, each.spe_address)
            if kind is not None and self._registry.runs(engine, each.spe_address):
                yield kind

    def _site(self, fields: Mapping[str, Any], report: FaultReport) -> Site | None:
        name = fields.get("site")
        if name is not None and name not in self._sites:
            report.add("site", self.no_site(name))
        return self._sites.get(name or "")

    def _site_name(self, fields: Mapping[str, Any]) -> str | None:
        """The site of the engine: the one that ``spe_address`` names, or ``site``."""
        named = fields.get("spe_address")
        return named if named in self._sites else fields.get("site")

    def no_site(self, name: str) -> str:
        """The predicate of a name that is no site's: the site that is probably meant, or those known."""
        return f"is not a site of the inventory ({self._known(name, self._sites)})"

    def _known(self, name: str, known: Collection[str]) -> str:
        """The one of these names that is probably meant, or all of them, for messages."""
        if name not in self._meant and len(self._meant) * len(known) <= SUGGESTION_BUDGET:
            self._meant[name] = closest(name, known)
        near = self._meant.get(name)
        if near in known:
            return f"did you mean {near!r}?"
        return f"known: {listed(sorted(known), _MOST_LISTED)}" if known else NO_SITES

    def _engine_address(
        self, fields: Mapping[str, Any], site: Site | None, report: FaultReport
    ) -> str | None:
        name = "spe_address"
        if name not in fields:
            _report_missing(name, fields, report, site, self._expected_engine)
            return self._address_at(site, fields, "site", report) if site is not None else None
        value = fields[name]
        if value in self._sites:
            return self._address_at(self._sites[value], fields, name, report)
        return self._canonical(name, value, "an engine address", self._expected_engine, report, self._sites)

    def _address_at(
        self, site: Site, fields: Mapping[str, Any], named_by: str, report: FaultReport
    ) -> str | None:
        """The address of a job's engine at a site; ``None`` if a fault of another field leaves it open."""
        engine = fields.get("engine")
        others = [name for name in ("engine", "spe_address") if name not in fields]
        faulty = any(report.data.get(name) is not None or report.misspelt(name) for name in others)
        if self._is_unknown(engine) or (faulty and len(site.engines) > 1):
            return None
        return _engine_address(site, engine, named_by, report)

    def _broker(
        self, name: str, fields: Mapping[str, Any], site: Site | None, report: FaultReport
    ) -> str | None:
        if name not in fields:
            _report_missing(name, fields, report, site, self._expected_broker)
            return canonical(site.broker_address) if site is not None else None
        value = fields[name]
        if (named := self._inventory.broker_named(value)) is not None:
            return canonical(named.broker_address)
        expected, places = self._expected_broker, self._places
        address = self._canonical(name, value, "a broker address", expected, report, places)
        if address is not None and self._registry.broker_kind(address) is None:
            predicate = f"is not served by any installed binder (expected {self._expected_broker})"
            report.add(name, predicate, shown=repr(redacted(value)))
        return address and self._inventory.own_broker_address(address)

    def engine_at(
        self, given: Mapping[str, Any], path: Steps, engine: str, report: FaultReport
    ) -> tuple[str, str | None]:
        """The address and the site of the engine that ``site`` and ``spe_address`` in ``given`` name.

        ``path`` is that of ``given`` in the job, which may be the name of the site itself.  The address is
        empty for one with a fault, which is added to ``report``.
        """
        address, site = given.get("spe_address"), given.get("site")
        written = report.value(path)
        inner = {name: path if isinstance(written, str) else (*path, name) for name in _PLACE}
        if address in self._sites:
            site, address, inner["site"] = address, None, inner["spe_address"]
        if address is None and site is None:
            if not any(report.misspelt(*step) for step in inner.values()):
                report.add(path, "has no place (expected site or spe_address)", shown="")
            return "", None
        if site is not None and site not in self._sites:
            report.add(inner["site"], self.no_site(site))
            return "", site
        if address is None:
            return self._only_engine(self._sites[str(site)], engine, inner["site"], report), site
        kinds = [kind for kind in self._registry.engines if kind.engine == engine]
        right = _forms(scheme for kind in kinds for scheme in kind.schemes)
        found = self._canonical(
            inner["spe_address"], address, "an engine address", right, report, self._sites
        )
        if found is not None and self._registry.engine_kind(engine, found) is None:
            predicate = f"is not an engine of kind {engine!r} (expected {right})"
            report.add(inner["spe_address"], predicate, shown=repr(redacted(address)))
        return found or "", site

    def _only_engine(self, site: Site, engine: str, path: Steps, report: FaultReport) -> str:
        found = [each.spe_address for each in site.engines if self._registry.runs(engine, each.spe_address)]
        if len(found) == 1:
            return canonical(found[0])
        present = " and ".join(redacted(each.spe_address) for each in site.engines)
        if found:
            report.add(path, f"has several engines: {present} (choose one by spe_address)")
        else:
            report.add(path, f"has no engine of kind {engine!r}: it has {present} (expected a site with one)")
        return ""

    def _canonical(
        self,
        name: str | Steps,
        value: str,
        kind: str,
        expected: str,
        report: FaultReport,
        places: Collection[str],
    ) -> str | None:
        """The canonical address; ``None`` with a fault.  ``places`` are the names that may stand for one."""
        try:
            return canonical(value)
        except BadAddress as error:
            predicate = error.predicate(expected)
            if str(error) == NOT_AN_ADDRESS:
                predicate = f"is not {kind} (expected {expected})"
                if JOB_NAME.match(value):
                    known = self._known(value, places)
                    predicate = f"is neither {kind} nor a site (expected {expected}; {known})"
            report.add(name, predicate, shown=repr(redacted(value)))
            return None

    def _check_engine(self, fields: Mapping[str, Any], report: FaultReport) -> None:
        if self._is_unknown(engine := fields.get("engine")):
            report.add("engine", self._not_installed(str(engine)))

    def _is_unknown(self, engine: str | None) -> bool:
        """True if a job names an engine of which no binder is installed, which is a fault by itself."""
        return engine is not None and engine not in self._engines

    def _not_installed(self, engine: str) -> str:
        near = closest(engine, self._engines)
        right = f"did you mean {near!r}?" if near else f"installed: {', '.join(self._engines) or 'none'}"
        return f"is not served by any installed binder ({right})"

    def _engine(self, fields: Mapping[str, Any], address: str, report: FaultReport) -> EngineKind | None:
        if self._is_unknown(fields.get("engine")):
            return None
        engine = fields.get("engine") or engine_of(address)
        if not engine:
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
        return self._not_installed(engine)


def _engine_address(site: Site, engine: str | None, named_by: str, report: FaultReport) -> str | None:
    """The address of a job's engine at a site: the only one, or the only one of the kind ``engine``.

    Of a pool it is the first.
    """
    engines = site.engines
    if len(engines) > 1 and engine is not None:
        engines = tuple(each for each in engines if engine_of(each.spe_address) == engine)
    addresses, pools = [each.spe_address for each in engines], {each.pool for each in engines}
    if len(addresses) == 1 or (addresses and len(pools) == 1 and None not in pools):
        return canonical(addresses[0])
    present = " and ".join(redacted(each.spe_address) for each in site.engines)
    if addresses:
        report.add(named_by, f"has several engines: {present} (choose one by engine or spe_address)")
    else:
        report.add("engine", f"is not at site {site.name!r}, which has {present}")
    return None


def _named_engine(fields: Mapping[str, Any], report: FaultReport) -> str | None:
    """The engine that a job names, or the only one that runs files like its own."""
    if (engine := fields.get("engine")) is not None:
        return str(engine)
    if report.data.get("sql") is not None and report.data.get("engine") is None:
        report.add("engine", "is missing (expected spark or flink)", shown="")
        return None
    if report.data.get("engine") is not None or "job_path" not in fields:
        return None  # reported already
    suffix = Path(fields["job_path"]).suffix.lower()
    engines = [engine for engine, suffixes in SUFFIXES.items() if suffix in suffixes]
    if engines == ["flink"]:
        return "flink"
    files = f"{suffix} files" if suffix else "files without a suffix"
    runs = f"{' and '.join(engines)} run{'s' if len(engines) == 1 else ''} {files}" if engines else ""
    because = f", since {runs}" if runs else ""
    report.add("engine", f"is missing (expected spark or flink{because})", shown="")
    return None


def _forms(schemes: Iterable[str]) -> str:
    """The valid forms of an address, for messages."""
    return (
        " or ".join(f"{scheme}://HOST:PORT" for scheme in dict.fromkeys(schemes)) or "no binder is installed"
    )


def _report_missing(
    name: str, fields: Mapping[str, Any], report: FaultReport, site: Site | None, expected: str
) -> None:
    """Report a missing address, unless it was given (and is wrong), or a site supplies it.

    A site that is itself wrong, or in a misspelt field, is reported already.
    """
    placed = "site" in fields or report.data.get("site") is not None or any(map(report.misspelt, _SITES))
    if site is None and not placed and report.data.get(name) is None:
        report.add(name, f"is missing (expected {expected}, or a site)", shown="")
