"""The links that placements use, and how their bandwidth and latency are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from speck.placement.cost import crossings
from speck.placement.model import Model
from speck.placement.problem import Placement
from speck.placement.profile import Inputs, Known


def used_links(model: Model, placements: Iterable[Placement]) -> Sequence[tuple[str, str]]:
    """The pairs of inventory sites (source, target) between which messages flow."""
    problem, number = model.problem, model.table.number
    found = {
        (flow.source, flow.target)
        for placement in placements
        for channel, home in enumerate(placement.homes)
        for flow in crossings(problem, channel, placement.sites, home)
        if flow.source < number and flow.target < number
    }
    return [(model.table.name(one), model.table.name(other)) for one, other in sorted(found)]


def link_known(model: Model, inputs: Inputs, one: str, other: str) -> Known:
    """The source of the bandwidth and latency of a path: the less certain of both."""
    path = inputs.links.get((one, other))
    values = (path.bandwidth, path.round_trip) if path is not None else (None, None)
    uplinks = [model.draft.inventory.sites[name].uplink for name in (one, other)]
    declared = (
        all(each.bandwidth is not None for each in uplinks),
        all(each.latency is not None for each in uplinks),
    )
    known = [
        value.known if value is not None else Known.DECLARED if given else Known.ASSUMED
        for value, given in zip(values, declared, strict=True)
    ]
    return max(known, key=list(Known).index)
