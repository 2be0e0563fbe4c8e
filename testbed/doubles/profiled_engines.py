"""Engines in memory whose binders report counts of their jobs, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from speck.binder import Capability, Registry
from speck.core.inventory import Inventory
from speck.core.profile import CoreProbe, JobSample, LinkProbe
from speck.core.runtime import Capacity, Handle
from speck.errors import BinderError
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

Counts = Callable[[str, str, float], JobSample]  # by name and engine's id of a job, and time


@dataclass
class Profiled:
    """The counts of jobs at engines whose kind is ``flink``; those of ``spark`` report none.

    ``counts`` returns those of a job, ``failures`` the error of a job by its name.
    """

    clock: Callable[[], float]
    counts: Counts
    failures: dict[str, BinderError] = field(default_factory=dict)
    capacity: Capacity = field(default_factory=lambda: Capacity(slots=8, cores=4, memory=2**30))
    asked: list[str] = field(default_factory=list)  # addresses
    link: LinkProbe = field(default_factory=lambda: LinkProbe(rtt=0.02, bandwidth=1e6, bytes_sent=1))
    core: CoreProbe = field(default_factory=lambda: CoreProbe(stateless=1e6, keyed=1e6))
    probed: list[str] = field(default_factory=list)  # brokers of probed links, engines of probed cores
    trouble: list[BinderError] = field(default_factory=list)  # of the next probes
    during: Callable[[], object] = lambda: None  # called by each probe

    def registry(self, world: World) -> Registry:
        kinds = double_kinds(world)
        flink = kinds.engine_kind("flink", "http://x")
        spark = kinds.engine_kind("spark", "sc://x")
        broker = kinds.broker_kind("tcp://x")
        assert flink is not None
        assert spark is not None
        assert broker is not None

        def connect(address: str, inventory: Inventory) -> InMemoryEngine:
            return ProfilingEngine(world, address, self)

        def connect_silent(address: str, inventory: Inventory) -> InMemoryEngine:
            return SilentEngine(world, address)

        return Registry.of([replace(flink, connect=connect), replace(spark, connect=connect_silent), broker])


class ProfilingEngine(InMemoryEngine):
    """An engine that reports the counts of its jobs."""

    def __init__(self, world: World, address: str, profiled: Profiled) -> None:
        super().__init__(world, address, "flink")
        self._profiled = profiled

    def profile(self, handles: Iterable[Handle]) -> dict[str, JobSample | BinderError]:
        self._profiled.asked.append(self.address)
        jobs = self.world.engine(self.address).jobs
        found: dict[str, JobSample | BinderError] = {}
        for each in handles:
            name = jobs[each.engine_id].job.job_name
            failure = self._profiled.failures.get(name)
            found[each.engine_id] = failure or self._profiled.counts(
                name, each.engine_id, self._profiled.clock()
            )
        return found

    def capacity(self) -> Capacity:
        return self._profiled.capacity

    def probe_link(self, broker: str) -> LinkProbe:
        self._probe(broker)
        return self._profiled.link

    def probe_core(self) -> CoreProbe:
        self._probe(self.address)
        return self._profiled.core

    def _probe(self, subject: str) -> None:
        self._profiled.during()
        if self._profiled.trouble:
            raise self._profiled.trouble.pop(0)
        self._profiled.probed.append(subject)


class SilentEngine(InMemoryEngine):
    """An engine whose binder has no method ``profile``, as one of another package."""

    capabilities = InMemoryEngine.capabilities - {Capability.PROFILES, Capability.PROBES}
