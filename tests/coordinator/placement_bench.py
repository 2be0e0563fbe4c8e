"""A coordinator with road traffic to place, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speck.coordinator import Services, build
from speck.coordinator.placing.request import PlacementRequest
from speck.core.change import Apply, Request
from speck.core.job import Composition
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import write_code
from testbed.benches.placement import NOW, Profiler, inventory, kinds, road_traffic
from testbed.doubles.world import World

CLOUD = PlacementRequest(policy="cloud")
BY_DEFAULT = PlacementRequest()


@dataclass
class Bench:
    """A coordinator with its world; ``now`` is its clock."""

    services: Services
    world: World
    profiler: Profiler
    now: float = NOW

    def propose(self, desired: Composition, request: PlacementRequest = BY_DEFAULT) -> dict[str, Any]:
        return self.services.retained_plans.propose(Apply(desired), request)

    def advise(self, request: PlacementRequest = BY_DEFAULT) -> dict[str, Any]:
        return self.services.retained_plans.advise("traffic", request)

    def accept(self, proposal: dict[str, Any], **why: str) -> None:
        operation = self.services.retained_plans.accept_placement(proposal["id"], Request(**why))
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()

    def apply(self, desired: Composition, **how: Any) -> None:
        operation, _ = user.apply(self.services.coordinator, desired, **how)
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()

    def all_in_cloud(self) -> None:
        self.accept(self.propose(road_traffic(), CLOUD))

    @property
    def revisions(self) -> list[int]:
        return [each["number"] for each in self.services.queries.revisions("traffic")]


@contextmanager
def opened(directory: Path, *, profiles: bool = True) -> Iterator[Bench]:
    """A bench on a new store; ``profiles``: its engines report them."""
    world, profiler = World(), Profiler()
    with Store(directory / "store") as store:
        bench = Bench(None, world, profiler)  # type: ignore[arg-type]
        bench.services = build(
            store,
            kinds(world, profiles=profiles),
            inventory(),
            Settings(roots=(write_code(directory),), period=0),
            clock=lambda: bench.now,
            inputs=profiler,
        )
        bench.services.coordinator.start()
        try:
            yield bench
        finally:
            bench.services.coordinator.close()
    assert world.violations == []


def kinds_of(proposal: dict[str, Any]) -> dict[str, str]:
    """The kind of each job's action in the plan of a proposal."""
    return {each["job"]: each["kind"] for each in proposal["plan"]["actions"]}


def why(proposal: dict[str, Any], job: str) -> str:
    """The reason for a job's place."""
    return str(next(each["why"] for each in proposal["verdicts"] if each["job"] == job))
