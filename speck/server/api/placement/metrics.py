"""The metrics of placement, read at each scrape: of the compositions with the mode ``auto``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from speck.controller.adaptation import Adaptation, Observations, Present
from speck.placement.profile import LinkProfile


def placement_metrics(adaptation: Adaptation) -> Iterator[Metric]:
    """The figures of the last look of the adaptation loop."""
    observations = adaptation.observations()
    for name, text, values in (
        ("multiplier", "Factor by which the sources may grow", _multipliers(observations.items())),
        (
            "gain_ratio",
            "Realised gain over the predicted one, of the last step evaluated",
            [(each, observed.realised) for each, observed in observations.items()],
        ),
        (
            "regret_ratio",
            "Excess of the objective over that of the advised placement",
            [(each, observed.regret) for each, observed in observations.items()],
        ),
    ):
        family = GaugeMetricFamily(f"speck_placement_{name}", text, labels=("composition",))
        for composition, value in values:
            if value is not None:
                family.add_metric((composition,), value)
        yield family
    fallen = GaugeMetricFamily(
        "speck_placement_fallen",
        "Whether the limit of steps is reached, so that steps are only advised (1), or not (0)",
        labels=("composition",),
    )
    for composition in observations:
        fallen.add_metric((composition,), float(adaptation.advises_only(composition)))
    yield fallen
    # The last one has the newest profiles of the links and sites, which all share.
    present = [observed.present for observed in observations.values() if observed.present is not None][-1:]
    yield from _links([link for each in present for link in each.inputs.links.values()])
    yield _sites(present)


def _multipliers(observations: Iterable[tuple[str, Observations]]) -> list[tuple[str, float | None]]:
    return [(name, each.present.figures.multiplier if each.present else None) for name, each in observations]


def _links(links: Sequence[LinkProfile]) -> Iterator[Metric]:
    labels = ("source", "target")
    bandwidth = GaugeMetricFamily(
        "speck_link_bandwidth",
        "Bandwidth of a link as the adaptation loop assumes it, bytes/s",
        labels=labels,
    )
    trip = GaugeMetricFamily("speck_link_rtt", "Round trip time of a link, s", labels=labels)
    used = GaugeMetricFamily("speck_link_utilisation", "Share of a link's bandwidth in use", labels=labels)
    for link in links:
        ends = (link.source, link.target)
        if link.bandwidth is not None:
            bandwidth.add_metric(ends, link.bandwidth.value)
        if link.round_trip is not None:
            trip.add_metric(ends, link.round_trip.value)
        if link.load is not None and link.bandwidth is not None and link.bandwidth.value:
            used.add_metric(ends, link.load.value / link.bandwidth.value)
    yield from (bandwidth, trip, used)


def _sites(present: Iterable[Present]) -> Metric:
    family = GaugeMetricFamily(
        "speck_site_utilisation",
        "Share of a site's cores, memory, slots or link in use by jobs and brokers",
        labels=("site", "resource"),
    )
    for each in present:
        problem = each.model.problem
        for site, found in zip(problem.sites, each.figures.sites, strict=True):
            shares = {
                "cores": found.cores,
                "memory": found.memory,
                "slots": found.slots,
                "up": found.up,
                "down": found.down,
            }
            for resource, share in shares.items():
                if share is not None:
                    family.add_metric((site.name, resource), share)
    return family
