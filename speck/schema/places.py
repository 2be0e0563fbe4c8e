"""The sites, engines and brokers that a document may name, and the faults of names that are none of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from speck.binder import EngineKind, Registry
from speck.core.inventory import Inventory, Site
from speck.core.names import JOB_NAME
from speck.core.suggestions import closest, did_you_mean
from speck.schema.address import SAME_SCHEME, BadAddress, NotAnAddress, canonical, redacted
from speck.schema.fault_report import NO_SITES, SUGGESTION_BUDGET, FaultReport, listed

Steps = tuple[str | int, ...]  # the keys from a job's data to a value

_FIELDS = ("site", "spe_address")
_MOST_LISTED = 20  # names in a message


class Places:
    """The places of an inventory, and the kinds of engines and brokers that are installed.

    Of one document: names in it are compared with the known ones for suggestions, within one budget.
    """

    def __init__(self, inventory: Inventory, registry: Registry) -> None:
        self.inventory = inventory
        self.registry = registry
        self.sites: Mapping[str, Site] = inventory.sites
        self.expected_broker = _forms(
            SAME_SCHEME.get(scheme, scheme) for kind in registry.brokers for scheme in kind.schemes
        )
        self.expected_engine = _forms(scheme for kind in registry.engines for scheme in kind.schemes)
        self._engines = sorted({kind.engine for kind in registry.engines})
        self._names = (*self.sites, *inventory.brokers)
        self._meant: dict[str, str | None] = {}  # the known name that an unknown one probably is

    # --- names

    def no_site(self, name: str) -> str:
        """The predicate of a name that is no site's: the site that is probably meant, or those known."""
        return f"is not a site of the inventory ({self._known(name, self.sites)})"

    def _known(self, name: str, known: Collection[str]) -> str:
        """The one of these names that is probably meant, or all of them, for messages."""
        if name not in self._meant and len(self._meant) * len(known) <= SUGGESTION_BUDGET:
            self._meant[name] = closest(name, known)
        near = self._meant.get(name)
        if near in known:
            return f"did you mean {near!r}?"
        return f"known: {listed(sorted(known), _MOST_LISTED)}" if known else NO_SITES

    def is_installed(self, engine: str) -> bool:
        """True if a binder for this kind of engine is installed."""
        return engine in self._engines

    def not_installed(self, engine: str) -> str:
        """The predicate of a kind of engine without a binder."""
        installed = f"installed: {', '.join(self._engines) or 'none'}"
        right = did_you_mean(engine, self._engines, installed)
        return f"is not served by any installed binder ({right})"

    def unserved(self, engine: str, address: str) -> str:
        """The predicate of a kind of engine that is not the one at an address."""
        schemes = [
            scheme for kind in self.registry.engines if kind.engine == engine for scheme in kind.schemes
        ]
        if schemes:
            return f"does not fit spe_address {redacted(address)!r} (expected {_forms(schemes)})"
        return self.not_installed(engine)

    def kinds(self, engine: str, site: str) -> Iterator[EngineKind]:
        """The kinds of the engines of a site that have the name ``engine``."""
        for each in self.sites[site].engines:
            kind = self.registry.engine_kind(engine, each.spe_address)
            if kind is not None and self.registry.runs(engine, each.spe_address):
                yield kind

    # --- addresses

    def engine_address(self, path: str | Steps, value: str, report: FaultReport) -> str | None:
        """The canonical address of an engine; ``None`` with a fault, which is added to ``report``."""
        return self._canonical(path, value, "an engine address", self.expected_engine, self.sites, report)

    def broker_address(self, path: str | Steps, value: str, report: FaultReport) -> str | None:
        """The canonical address of a broker, which may be given by its name; ``None`` with a fault."""
        if (named := self.inventory.broker_named(value)) is not None:
            return canonical(named.broker_address)
        found = self._canonical(path, value, "a broker address", self.expected_broker, self._names, report)
        if found is not None and self.registry.broker_kind(found) is None:
            predicate = f"is not served by any installed binder (expected {self.expected_broker})"
            report.add(path, predicate, shown=repr(redacted(value)))
        return found and self.inventory.own_broker_address(found)

    def _canonical(
        self,
        path: str | Steps,
        value: str,
        kind: str,
        expected: str,
        names: Collection[str],
        report: FaultReport,
    ) -> str | None:
        """The canonical address; ``None`` with a fault.  ``names`` are those that may stand for one."""
        try:
            return canonical(value)
        except NotAnAddress:
            predicate = f"is not {kind} (expected {expected})"
            if JOB_NAME.match(value):
                known = self._known(value, names)
                predicate = f"is neither {kind} nor a site (expected {expected}; {known})"
        except BadAddress as error:
            predicate = error.predicate(expected)
        report.add(path, predicate, shown=repr(redacted(value)))
        return None

    def engine_at(
        self, given: Mapping[str, Any], path: Steps, engine: str, report: FaultReport
    ) -> tuple[str, str | None]:
        """The address and the site of the engine that ``site`` and ``spe_address`` in ``given`` name.

        ``path`` is that of ``given`` in the job, which may be the name of the site itself.  The address is
        empty for one with a fault, which is added to ``report``.
        """
        address, site = given.get("spe_address"), given.get("site")
        written = report.value(path)
        inner = {name: path if isinstance(written, str) else (*path, name) for name in _FIELDS}
        if address in self.sites:
            site, address, inner["site"] = address, None, inner["spe_address"]
        if address is None and site is None:
            if not any(report.misspelt(*step) for step in inner.values()):
                report.add(path, "has no place (expected site or spe_address)", shown="")
            return "", None
        if site is not None and site not in self.sites:
            report.add(inner["site"], self.no_site(site))
            return "", site
        if address is None:
            return self._only_engine(self.sites[str(site)], engine, inner["site"], report), site
        kinds = [kind for kind in self.registry.engines if kind.engine == engine]
        right = _forms(scheme for kind in kinds for scheme in kind.schemes)
        found = self._canonical(inner["spe_address"], address, "an engine address", right, self.sites, report)
        if found is not None and self.registry.engine_kind(engine, found) is None:
            predicate = f"is not an engine of kind {engine!r} (expected {right})"
            report.add(inner["spe_address"], predicate, shown=repr(redacted(address)))
        return found or "", site

    def _only_engine(self, site: Site, engine: str, path: Steps, report: FaultReport) -> str:
        found = [each.spe_address for each in site.engines if self.registry.runs(engine, each.spe_address)]
        if len(found) == 1:
            return canonical(found[0])
        present = " and ".join(redacted(each.spe_address) for each in site.engines)
        if found:
            report.add(path, f"has several engines: {present} (choose one by spe_address)")
        else:
            report.add(path, f"has no engine of kind {engine!r}: it has {present} (expected a site with one)")
        return ""


def _forms(schemes: Iterable[str]) -> str:
    """The valid forms of an address, for messages."""
    return (
        " or ".join(f"{scheme}://HOST:PORT" for scheme in dict.fromkeys(schemes)) or "no binder is installed"
    )
