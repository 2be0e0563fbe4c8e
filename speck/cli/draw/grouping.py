"""The jobs of a composition by where they run."""

from __future__ import annotations

from dataclasses import dataclass

from speck.core.graph import Graph
from speck.core.inventory import Inventory


@dataclass(frozen=True)
class SiteGroup:
    """The jobs at one engine, in the order of the data; ``name`` is the address where no site is known."""

    name: str
    address: str
    jobs: tuple[str, ...]


def by_site(graph: Graph, inventory: Inventory) -> list[SiteGroup]:
    """The jobs by where their engine is, sites in the order in which data first reaches them.

    Raises :class:`InvalidInput` for a cycle.
    """
    names = {each.spe_address: site.name for site in inventory.sites.values() for each in site.engines}
    found: dict[str, list[str]] = {}
    for job_name in graph.order():
        found.setdefault(graph.jobs[job_name].spe_address, []).append(job_name)
    groups = []
    for address, members in found.items():
        declared = graph.jobs[members[0]].site
        known = names.get(address) or (declared if declared not in inventory.sites else None)
        groups.append(SiteGroup(known or address, address, tuple(members)))
    return groups
