"""The sites of the placement problem: the inventory with its profiles, and places that it does not have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from speck.core import inventory
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.placement.problem import SiteModel, Tier
from speck.placement.profile import Inputs, Known, LinkProfile, SiteProfile, Value

# Assumed of a site that nothing is known of.
CORES = 4.0
BANDWIDTH = 12.5e6  # bytes/s (100 Mbit/s)
LATENCY = 0.01  # s one way between a site and the middle of the network
IDLE = 0.02  # reference cores of an engine without jobs whose load is polled (benchmarks.placement gates)
# Cores of a place that is not in the inventory: nothing is placed there, nothing is refused.
ELSEWHERE = 1000.0
_ROUNDS = 50  # sweeps over all links, each of which brings the latencies nearer to the measured round trips


@dataclass(frozen=True)
class SiteTable:
    """The sites by index; ``number`` of them are of the inventory, the others are single addresses.

    ``engines`` and ``brokers`` are the indices by address.
    """

    sites: tuple[SiteModel, ...]
    number: int
    engines: Mapping[str, int]
    brokers: Mapping[str, int]

    def index(self, name: str) -> int:
        """The index of a site by name.  Raises ``KeyError``."""
        found = {site.name: index for index, site in enumerate(self.sites)}
        return found[name]

    def name(self, index: int) -> str:
        """The name of a site."""
        return self.sites[index].name


def site_table(known: Inventory, inputs: Inputs, jobs: Iterable[Job]) -> SiteTable:
    """The sites of the inventory, and one for each address of these jobs that no site has."""
    sites = [_site(site, inputs) for site in known.sites.values()]
    sites = _with_latencies(_with_bandwidths(_with_cloud(sites), known, inputs), inputs)
    indices = {name: index for index, name in enumerate(known.sites)}
    served = known.sites_by_engine()
    engines = {address: indices[sites[0].name] for address, sites in served.items()}
    brokers = {site.broker_address: index for index, site in reversed([*enumerate(known.sites.values())])}
    number = len(sites)
    names = {broker.broker_address: name for name, broker in known.brokers.items()}
    for job in jobs:
        addresses = ((engines, job.spe_address), (brokers, job.source_broker), (brokers, job.sink_broker))
        for by_address, address in addresses:
            if address and address not in by_address:
                by_address[address] = len(sites)
                name = names.get(address, address)
                sites.append(SiteModel(name=name, cores=ELSEWHERE, up=BANDWIDTH, down=BANDWIDTH))
    return SiteTable(tuple(sites), number, engines, brokers)


def _site(site: inventory.Site, inputs: Inputs) -> SiteModel:
    profile, uplink = inputs.sites.get(site.name) or SiteProfile(name=site.name), site.uplink
    up = uplink.bandwidth / 8 if uplink.bandwidth else BANDWIDTH
    declared, measured = site.mean_speed or 1.0, profile.speed
    speed = measured.value if measured is not None and measured.known is Known.MEASURED else declared
    reported = profile.cores.value if profile.cores is not None else 0.0
    return SiteModel(
        name=site.name,
        cores=site.all_cores or reported or CORES,
        speed=speed,
        price=1.0 if site.mean_price is None else site.mean_price,
        tier=Tier(site.tier) if site.tier else Tier.EDGE,
        slots=_total([engine.most_slots for engine in site.engines]),
        memory=_total([engine.memory for engine in site.engines]),
        up=up,
        down=uplink.downlink / 8 if uplink.downlink else up,
        latency=uplink.latency / 1000 if uplink.latency is not None else LATENCY,
        idle=IDLE * len(site.engines) / speed,
    )


def _total(values: Iterable[int | None]) -> int | None:
    """The sum, if all are known."""
    found = list(values)
    known = [each for each in found if each is not None]
    return sum(known) if found and len(known) == len(found) else None


def _with_cloud(sites: list[SiteModel]) -> list[SiteModel]:
    """The sites, of which the one with the most computing power is the cloud if none is declared as that."""
    if not sites or any(site.tier is Tier.CLOUD for site in sites):
        return sites
    largest = max(sites, key=lambda each: each.cores * each.speed)
    return [replace(each, tier=Tier.CLOUD) if each is largest else each for each in sites]


def _with_bandwidths(sites: list[SiteModel], known: Inventory, inputs: Inputs) -> list[SiteModel]:
    """The sites with the bandwidths of their links as measured, or declared of a path (``links``).

    A path has the lesser bandwidth of its two ends: a full one is the measure of the end that is the lesser
    as declared, and a lower bound of the other.  The greatest of a site's paths is that of its own end; a
    lower bound can only raise what was declared or assumed.
    """
    paths = inputs.links.values()
    declared = [_with_declared(site, known) for site in sites]
    ups, downs = {site.name: site.up for site in declared}, {site.name: site.down for site in declared}
    found = []
    for site in declared:
        away = [(each, downs.get(each.target, math.inf)) for each in paths if each.source == site.name]
        towards = [(each, ups.get(each.source, math.inf)) for each in paths if each.target == site.name]
        found.append(replace(site, up=_bandwidth(away, site.up), down=_bandwidth(towards, site.down)))
    return found


def _with_declared(site: SiteModel, known: Inventory) -> SiteModel:
    """The site with the bandwidths of its declared paths, where its own link is not declared."""
    paths = {(each.source, each.target): each.bandwidth for each in known.links}
    paths |= {(two, one): each for (one, two), each in paths.items() if (two, one) not in paths}
    uplink = known.sites[site.name].uplink
    ups = [each / 8 for (source, _), each in paths.items() if each and source == site.name]
    downs = [each / 8 for (_, target), each in paths.items() if each and target == site.name]
    up = site.up if uplink.bandwidth or not ups else max(ups)
    down = site.down if uplink.bandwidth or uplink.downlink or not downs else max(downs)
    return replace(site, up=up, down=down)


def _bandwidth(paths: Iterable[tuple[LinkProfile, float]], believed: float) -> float:
    """The bandwidth of an end; ``paths`` are those over it, each with the bandwidth of its other end."""
    full, least = list[float](), list[float]()
    for path, other in paths:
        value = path.bandwidth
        if path.source != path.target and value is not None and _measured(value):
            (least if path.at_least or other < believed else full).append(value.value)
    return max([*(full or [believed]), *least])


def _measured(value: Value) -> bool:
    return value.known is Known.MEASURED and value.value > 0


def _with_latencies(sites: list[SiteModel], inputs: Inputs) -> list[SiteModel]:
    """The sites with the latencies that fit the measured round trips best (least squares, none negative)."""
    index = {site.name: number for number, site in enumerate(sites)}
    halves: dict[int, list[tuple[int, float]]] = {}
    for one, other, half in _half_trips(inputs, index):
        halves.setdefault(one, []).append((other, half))
        halves.setdefault(other, []).append((one, half))
    latency = [site.latency for site in sites]
    for _ in range(_ROUNDS):
        for one, ends in halves.items():
            latency[one] = max(0.0, sum(half - latency[other] for other, half in ends) / len(ends))
    return [replace(site, latency=found) for site, found in zip(sites, latency, strict=True)]


def _half_trips(inputs: Inputs, index: Mapping[str, int]) -> Iterator[tuple[int, int, float]]:
    for (source, target), path in inputs.links.items():
        trip = path.round_trip
        known = trip is not None and trip.known is not Known.ASSUMED
        if trip is not None and known and source != target and {source, target} <= index.keys():
            yield index[source], index[target], trip.value / 2
