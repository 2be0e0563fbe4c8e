"""The computing power of sites: declared, measured or assumed.  Pure: no clock, no calls."""

from __future__ import annotations

from collections.abc import Mapping

from speck.core.inventory import Site
from speck.core.runtime import Capacity
from speck.observe.links import LONGEST
from speck.placement.profile import Known, SiteProfile, Value

Capacities = Mapping[str, tuple[float, Capacity]]  # by address of the engine, with the time (Unix, s)


def site_profile(site: Site, capacities: Capacities, stored: SiteProfile | None, now: float) -> SiteProfile:
    """The best known values of a site.

    ``stored`` is what was measured before.  Speed: a probe before the inventory; cores and memory: the
    inventory before what the engines report.
    """
    declared, former = (
        declared_site(site),
        stored.since(now - LONGEST) if stored else SiteProfile(name=site.name),
    )
    found = [capacities[each.spe_address] for each in site.engines if each.spe_address in capacities]
    return SiteProfile(
        name=site.name,
        speed=former.speed or declared.speed or Value(1.0, Known.ASSUMED),
        # The engines of a site may share its machines, so that their cores are not added up.
        cores=declared.cores or _largest([(at, each.cores) for at, each in found]) or former.cores,
        memory=declared.memory or _total([(at, each.memory) for at, each in found]) or former.memory,
    )


def declared_site(site: Site) -> SiteProfile:
    """The values that the inventory declares; the memory of engines, if all declare it."""
    sizes = [each.memory for each in site.engines]
    known = [size for size in sizes if size is not None]
    complete = bool(known) and len(known) == len(sizes)
    return SiteProfile(
        name=site.name,
        speed=_declared(site.mean_speed),
        cores=_declared(site.all_cores),
        memory=_declared(sum(known) if complete else None),
    )


def _declared(value: float | None) -> Value | None:
    return None if value is None else Value(value, Known.DECLARED)


def _largest(reported: list[tuple[float, int | None]]) -> Value | None:
    # A cluster whose workers are all away reports 0 cores: that is no size of its site.
    known = [(at, value) for at, value in reported if value]
    return Value(max(v for _, v in known), Known.MEASURED, max(at for at, _ in known), 1) if known else None


def _total(reported: list[tuple[float, int | None]]) -> Value | None:
    known = [(at, value) for at, value in reported if value]
    return Value(sum(v for _, v in known), Known.MEASURED, max(at for at, _ in known), 1) if known else None
