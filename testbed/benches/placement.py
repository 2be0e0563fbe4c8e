"""Road traffic over three edges and a cloud in memory: a composition to be placed, with its profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from speck.binder import Registry
from speck.core.inventory import Engine, Inventory, Site, Uplink
from speck.core.job import Composition, Job
from speck.core.placement import ANY
from speck.core.profile import JobSample
from speck.core.runtime import Handle
from speck.placement.profile import Inputs, JobProfile, Known, Value
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

EDGES = ("A", "B", "C")
UPLINKS = {"A": 2e6, "B": 4e6, "C": 4e6, "D": 1e9}  # bit/s
NOW = 1_000_000.0


def inventory() -> Inventory:
    """Three edges with slow uplinks and the cloud D, each with a Flink engine and a broker."""
    return Inventory({name: _site(name) for name in (*EDGES, "D")})


def _site(name: str) -> Site:
    return Site(
        name=name,
        engines=(Engine(spe_address=engine_at(name)),),
        broker_address=broker_at(name),
        uplink=Uplink(bandwidth=UPLINKS[name], latency=20 if name != "D" else 2),
        cores=4 if name != "D" else 16,
    )


def engine_at(site: str) -> str:
    return f"http://{site.lower()}:8081"


def broker_at(site: str) -> str:
    return f"tcp://{site.lower()}:1883"


def movable(name: str, reads: str, writes: str, source: str = "", sink: str = "", **fields: Any) -> Job:
    """A job for any site; ``source`` and ``sink`` are the sites of brokers that the file names."""
    placed = ["spe_address", *([] if source else ["source_broker"]), *([] if sink else ["sink_broker"])]
    brokers = {"source_broker": source and broker_at(source), "sink_broker": sink and broker_at(sink)}
    defaults: dict[str, Any] = {"sites": (ANY,), "placed": tuple(placed), "engine": "flink"}
    return make_job(name, reads, writes, spe_address="", **brokers, **(defaults | fields))


def road_traffic(**fields: Any) -> Composition:
    """Readings born at each edge, cleaned and counted; the counts of all edges are joined and kept in D."""
    jobs = [
        job
        for edge in EDGES
        for job in (
            movable(f"clean-{edge.lower()}", "sensors", f"clean/{edge.lower()}", source=edge, **fields),
            movable(f"local-{edge.lower()}", f"clean/{edge.lower()}", f"stats/{edge.lower()}", **fields),
        )
    ]
    return composition(*jobs, movable("global", "stats/+", "report", sink="D", **fields))


def measured(value: float) -> Value:
    return Value(value, Known.MEASURED, NOW, 12)


@dataclass
class Profiler:
    """The profiles of road traffic, which a test may change."""

    rate: float = 900.0
    cost: float = 30e-6
    fixed: float = 0.009
    unknown: set[str] = field(default_factory=set)

    def __call__(self) -> Inputs:
        found = {}
        for edge in map(str.lower, EDGES):
            found[f"clean-{edge}"] = self._job(self.rate, 0.98)
            found[f"local-{edge}"] = self._job(self.rate * 0.98, 0.01)
        found["global"] = self._job(3 * self.rate * 0.98 * 0.01, 1.0)
        return Inputs(
            jobs={name: each for name, each in found.items() if name not in self.unknown},
        )

    def _job(self, rate: float, selectivity: float) -> JobProfile:
        return JobProfile(
            rate_in=measured(rate),
            rate_out=measured(rate * selectivity),
            bytes_in=measured(110),
            bytes_out=measured(110),
            cost=measured(self.cost),
            fixed=measured(self.fixed),
            selectivity=measured(selectivity),
        )


def kinds(world: World, *, profiles: bool = True) -> Registry:
    """The world's kinds, whose engines report profiles, or do not as those of an older package."""
    registry = double_kinds(world)
    changed = [replace(each, connect=_with(each.connect, profiles)) for each in registry.engines]
    return Registry.of([*changed, *registry.brokers])


def _with(connect: Callable[..., Any], profiles: bool) -> Callable[..., Any]:
    def connected(address: str, known: Inventory) -> Any:
        binder = connect(address, known)
        method = _no_samples if profiles else None
        binder.__class__ = type("Engine", (type(binder),), {"profile": method})
        return binder

    return connected


def _no_samples(binder: Any, handles: Iterable[Handle]) -> Mapping[str, JobSample]:
    return {}


ROAD_TRAFFIC = (
    """\
name: traffic
jobs:
"""
    + "".join(
        f"""\
- job_name: clean-{edge}
  site: any
  engine: flink
  source_broker: {edge.upper()}
  source_topic: sensors
  sink_topic: clean/{edge}
  entry_class: work
  job_path: work.py
- job_name: local-{edge}
  site: any
  engine: flink
  source_topic: clean/{edge}
  sink_topic: stats/{edge}
  entry_class: work
  job_path: work.py
"""
        for edge in "abc"
    )
    + """\
- job_name: global
  site: any
  engine: flink
  source_topic: stats/+
  sink_broker: D
  sink_topic: report
  entry_class: work
  job_path: work.py
"""
)
