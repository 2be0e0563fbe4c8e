"""The jobs of a composition, grouped by engine."""

from __future__ import annotations

from dataclasses import dataclass

from speck.core.graph import Graph
from speck.core.inventory import Inventory

PLACED = "placed by SpecK"


@dataclass(frozen=True)
class SiteGroup:
    """The jobs of one engine, in data order; ``name`` is its site, else its address.

    Jobs of a file that SpecK has still to place are a group without an address.
    """

    name: str
    address: str
    jobs: tuple[str, ...]


def by_site(graph: Graph, inventory: Inventory) -> list[SiteGroup]:
    """The jobs grouped by engine address, in the order in which data first reaches each.

    Raises :class:`InvalidInput` for a cycle.
    """
    names = {
        address: ", ".join(site.name for site in sites)
        for address, sites in inventory.sites_by_engine().items()
    }
    members_of: dict[str, list[str]] = {}
    for job_name in graph.order():
        members_of.setdefault(graph.jobs[job_name].spe_address, []).append(job_name)
    groups = []
    for address, members in members_of.items():
        declared = graph.jobs[members[0]].site
        known = names.get(address) or (declared if declared not in inventory.sites else None)
        groups.append(SiteGroup(known or address or PLACED, address, tuple(members)))
    return groups
