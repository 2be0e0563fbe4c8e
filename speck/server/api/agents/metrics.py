"""The metrics of agents, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from speck.coordinator.agents import Agents


def agent_metrics(agents: Agents) -> Iterator[Metric]:
    """The contact with the agents of sites."""
    connected = GaugeMetricFamily(
        "speck_agent_connected", "Whether the agent of a site is connected (1) or away (0)", labels=("site",)
    )
    last = GaugeMetricFamily(
        "speck_agent_last_contact_timestamp_seconds",
        "Time at which the agent of a site was last connected, in Unix time",
        labels=("site",),
    )
    restarts = CounterMetricFamily(
        "speck_agent_restarts_total",
        "Jobs that the agent of a site has started again and reported",
        labels=("site",),
    )
    now = agents.enrolment.clock()
    for site, found in agents.all():
        connected.add_metric((site,), float(found["connected"]))
        if found["connected"] or found["since"] is not None:
            last.add_metric((site,), now if found["connected"] else found["since"])
        restarts.add_metric((site,), found["restarts"])
    yield from (connected, last, restarts)
