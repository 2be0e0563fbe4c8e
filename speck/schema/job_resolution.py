"""One job: from its valid fields to its place, its brokers and its code, and its checks against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from speck.binder import BrokerKind, EngineKind, engine_of
from speck.core.inventory import Site
from speck.core.job import PLACED_FIELDS, POOLED, Job
from speck.core.needs import Needs, of_each_scheme
from speck.core.placement import ANY, Expects
from speck.schema.address import canonical, redacted
from speck.schema.code import CodeChecker
from speck.schema.fault_report import NO_SITES, FaultReport, listed
from speck.schema.job_checks import check_broker, check_on_error, start_of, trigger_of
from speck.schema.places import Places
from speck.store.jobfile import SUFFIXES

# Fields that are determined here; the others enter the job as written.
_RESOLVED = frozenset((*PLACED_FIELDS, "engine", "site", "trigger", "start", "sites", "expects", "key_split"))

_SITES = ("site", "sites", "for_each")  # the fields that give a job its addresses
_BROKERS = {"source_broker": ("source_topic", "park_topic"), "sink_broker": ("sink_topic",)}
_TOPICS = ("source_topic", "sink_topic", "park_topic")


class JobResolution:
    """Resolves one job; its faults are added to ``report``.

    ``fields`` are each valid on its own, and some may be absent; ``partitions`` are declared in the document,
    by topic.
    """

    def __init__(
        self,
        places: Places,
        code: CodeChecker,
        partitions: Mapping[str, int],
        fields: Mapping[str, Any],
        report: FaultReport,
    ) -> None:
        self._places = places
        self._registry = places.registry
        self._code = code
        self._partitions = partitions
        self._fields = fields
        self._report = report

    def job(self) -> Job | None:
        """The job; ``None`` if the report has any fault.

        The addresses that SpecK is to choose are empty; of an engine in a pool it is the first one's.
        """
        engine = self._fields.get("engine")
        if self._is_unknown(engine):
            self._report.add("engine", self._places.not_installed(str(engine)))
        if self._fields.get("site") == ANY or self._is_given("sites"):
            return self._movable_job()
        return self._fixed_job()

    def _is_given(self, name: str) -> bool:
        """True if a field is in the document, be it valid or not."""
        return self._report.data.get(name) is not None

    def _is_unknown(self, engine: str | None) -> bool:
        """True if a job names an engine of which no binder is installed, which is a fault by itself."""
        return engine is not None and not self._places.is_installed(engine)

    # --- a job whose site is fixed

    def _fixed_job(self) -> Job | None:
        site = self._site()
        address = self._engine_address(site)
        brokers: dict[str, Any] = {name: self._broker(name, site) for name in _BROKERS}
        kind = self._engine_kind(address) if address is not None else None
        site_name = self._site_name()
        by_site = self._fields.get("spe_address", site_name) == site_name
        pooled = by_site and self._places.inventory.pool_of(address or "")
        resolved = {**brokers, "spe_address": address or "", "site": site_name}
        return self._checked(kind, **resolved, placed=POOLED if pooled else ())

    def _site(self) -> Site | None:
        name = self._fields.get("site")
        if name is not None and name not in self._places.sites:
            self._report.add("site", self._places.no_site(name))
        return self._places.sites.get(name or "")

    def _site_name(self) -> str | None:
        """The site of the engine: the one that ``spe_address`` names, or ``site``."""
        named = self._fields.get("spe_address")
        return named if named in self._places.sites else self._fields.get("site")

    def _engine_address(self, site: Site | None) -> str | None:
        name = "spe_address"
        if name not in self._fields:
            self._report_missing(name, site, self._places.expected_engine)
            return self._address_at(site, "site") if site is not None else None
        value = self._fields[name]
        if value in self._places.sites:
            return self._address_at(self._places.sites[value], name)
        return self._places.engine_address(name, value, self._report)

    def _address_at(self, site: Site, named_by: str) -> str | None:
        """The address of the engine at a site: the only one, or the only one of the kind ``engine``.

        Of a pool it is the first.  ``None`` with a fault, or if a fault of another field leaves it open.
        """
        engine, engines = self._fields.get("engine"), site.engines
        others = [name for name in ("engine", "spe_address") if name not in self._fields]
        faulty = any(self._is_given(name) or self._report.misspelt(name) for name in others)
        if self._is_unknown(engine) or (faulty and len(engines) > 1):
            return None
        if len(engines) > 1 and engine is not None:
            engines = tuple(each for each in engines if engine_of(each.spe_address) == engine)
        addresses, pools = [each.spe_address for each in engines], {each.pool for each in engines}
        if len(addresses) == 1 or (addresses and len(pools) == 1 and None not in pools):
            return canonical(addresses[0])
        present = " and ".join(redacted(each.spe_address) for each in site.engines)
        kinds = sorted({engine_of(each) for each in addresses})
        if not addresses:
            predicate = f"is not at site {site.name!r}, which has {present}"
            self._report.add("engine", predicate, cause=("not at site", engine))
        elif self._is_given(named_by):
            self._report.add(
                named_by, f"has several engines: {present} (choose one by engine or spe_address)"
            )
        elif len(kinds) > 1:  # of a query, whose jobs run at the sites of its tables
            right = f"expected {' or '.join(kinds)}"
            predicate = f"is missing: site {site.name!r} has {present} ({right})"
            self._report.add("engine", predicate, cause=("missing", *kinds))
        else:
            predicate = f"fits several engines of site {site.name!r}: {present}"
            right = "expected a site with one of this kind, or a pool"
            self._report.add(
                "engine", f"{predicate} ({right})", shown=repr(kinds[0]), cause=("fits several", *kinds)
            )
        return None

    def _engine_kind(self, address: str) -> EngineKind | None:
        if self._is_unknown(self._fields.get("engine")):
            return None
        engine = self._fields.get("engine") or engine_of(address)
        if not engine:
            predicate = f"is not an engine address (expected {self._places.expected_engine})"
            self._report.add("spe_address", predicate, shown=repr(redacted(address)))
            return None
        kind = self._registry.engine_kind(engine, address)
        if kind is None:
            predicate = self._places.unserved(engine, address)
            self._report.add("engine", predicate, shown=repr(engine), cause=("unserved", engine))
        return kind

    def _broker(self, name: str, site: Site | None) -> str | None:
        if name not in self._fields:
            self._report_missing(name, site, self._places.expected_broker)
            return canonical(site.broker_address) if site is not None else None
        return self._places.broker_address(name, self._fields[name], self._report)

    def _report_missing(self, name: str, site: Site | None, expected: str) -> None:
        """Report a missing address, unless it was given (and is wrong), or a site supplies it.

        A site that is itself wrong, or in a misspelt field, is reported already.
        """
        placed = "site" in self._fields or self._is_given("site") or any(map(self._report.misspelt, _SITES))
        if site is None and not placed and not self._is_given(name):
            self._report.add(name, f"is missing (expected {expected}, or a site)", shown="")

    # --- a job that SpecK places

    def _movable_job(self) -> Job | None:
        """A job whose site is one of several: its address, and the brokers not given, are empty."""
        sites = self._allowed()
        engine = self._named_engine()
        if engine is None or self._is_unknown(self._fields.get("engine")):
            self._code.check_file(self._fields, self._report)
            return None
        given = [name for name in _BROKERS if name in self._fields or self._is_given(name)]
        brokers = {name: self._broker(name, None) if name in given else "" for name in _BROKERS}
        placed = tuple(name for name in PLACED_FIELDS if name not in given)
        resolved = {**brokers, "spe_address": "", "sites": sites, "placed": placed}
        kind = self._kind_at(self._needs(engine, resolved), sites) if self._report.sound else None
        return self._checked(kind, **resolved)

    def _allowed(self) -> tuple[str, ...]:
        """The names of the sites that a job may run at, or ``any``."""
        written = "sites" if self._is_given("sites") else "site"
        if self._is_given("spe_address"):
            right = "expected one of them: a place, or places to choose from"
            self._report.add("spe_address", f"conflicts with {written!r} ({right})")
        if written == "sites" and self._is_given("site"):
            self._report.add("site", "conflicts with 'sites' (expected one of them)")
        if not self._places.sites:
            self._report.add(written, f"has no site to choose from ({NO_SITES})")
            return ()
        names: tuple[str, ...] = self._fields.get("sites", ()) if written == "sites" else (ANY,)
        if names != (ANY,):
            for index, name in enumerate(names):
                if name not in self._places.sites:
                    self._report.add(("sites", index), self._places.no_site(name))
        return names

    def _named_engine(self) -> str | None:
        """The engine that a job names, or the only one that runs files like its own."""
        fields, report = self._fields, self._report
        if (engine := fields.get("engine")) is not None:
            return str(engine)
        if self._is_given("sql") and not self._is_given("engine"):
            report.add("engine", "is missing (expected spark or flink)", shown="")
            return None
        if self._is_given("engine") or "job_path" not in fields:
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

    def _kind_at(self, needs: Needs, sites: Sequence[str]) -> EngineKind | None:
        """The first kind of engine at these sites that fits a job; the first of all if none does.

        Where one does, it adds a fault for each named site that has none.
        """
        anywhere = tuple(sites) == (ANY,)
        names = self._places.sites if anywhere else sites
        kinds = (kind for name in names for kind in self._places.kinds(needs.engine, name))
        if (first := next(kinds, None)) is None:
            among = "no site of the inventory" if anywhere else f"none of {listed(sites)}"
            written = "sites" if self._is_given("sites") else "site"
            right = f"{among} has one of kind {needs.engine!r} (expected a site with one)"
            self._report.add(written, f"fits no engine: {right}")
            return None
        fitting = (each for each in chain((first,), kinds) if not any(self._registry.misfits(needs, each)))
        kind = next(fitting, None)
        if kind is not None and not anywhere:
            self._check_sites(needs, sites)
        return kind or first

    def _check_sites(self, needs: Needs, sites: Sequence[str]) -> None:
        for index, name in enumerate(sites):
            kinds = self._places.kinds(needs.engine, name)
            misfits = [next(self._registry.misfits(needs, kind), None) for kind in kinds]
            if misfits and None not in misfits:
                self._report.add(("sites", index), f"cannot run it: {misfits[0]}")

    # --- its code, its engine and its brokers

    def _checked(self, kind: EngineKind | None, **resolved: Any) -> Job | None:
        """The job with these resolved fields, if its code and the others are right too."""
        fields, report = self._fields, self._report
        if self._is_given("sql"):
            resolved |= self._code.query_runner(kind, report) if kind is not None else {}
        elif kind is not None:
            resolved["code_hash"] = self._code.check(fields, kind, report)
        else:
            self._code.check_file(fields, report)
        trigger = trigger_of(fields, kind, report)
        start = start_of(fields, resolved, report)
        check_on_error(fields, kind, report)
        if kind is not None:
            for each in self._registry.misfits(self._needs(kind.engine, resolved), kind):
                report.add(
                    each.field, each.predicate, shown=None if each.value else "", cause=each.cause or None
                )
            self._check_brokers(resolved)
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

    def _needs(self, engine: str, resolved: Mapping[str, Any]) -> Needs:
        """The needs of a job of its engine, which is to reach its brokers, and all that it may get."""
        brokers = (
            (name, address) for name in _BROKERS for address in of_each_scheme(self._brokers(name, resolved))
        )
        features = {
            name: self._fields[name]
            for name in ("trigger", "output_mode", "on_error", "retain")
            if name in self._fields
        }
        return Needs(engine, tuple(brokers), **features)

    def _brokers(self, name: str, resolved: Mapping[str, Any]) -> Iterable[str]:
        """The broker of a job; those of all sites that it may get if SpecK is to choose it."""
        if given := resolved.get(name):
            return (given,)
        known = self._places.sites
        sites = [known[each] for each in resolved.get("sites") or () if each in known]
        return dict.fromkeys(canonical(each.broker_address) for each in sites or known.values())

    def _check_brokers(self, resolved: Mapping[str, Any]) -> None:
        """Check that a job's topics and features fit its brokers, and all that it may get."""
        for name, topics in _BROKERS.items():
            for address in self._brokers(name, resolved):
                broker = self._registry.broker_kind(address)
                if broker is not None:
                    # The topic of a query with a fault is empty.
                    here = [each for each in topics if self._fields.get(each)]
                    check_broker(self._fields, broker, address, name, here, self._report)
                    for topic in here:
                        self._check_partitions(str(self._fields[topic]), broker, address, topic)

    def _check_partitions(self, topic: str, broker: BrokerKind, address: str, name: str) -> None:
        if topic in self._partitions and not broker.partitions:
            right = "expected no partitions under 'topics:', or a broker whose topics have some"
            predicate = f"has partitions, which broker {address} of {broker.name} does not have ({right})"
            self._report.add(name, predicate, cause=("partitions", topic, broker.name))
