"""A coordinator over engines in memory that run queries, and the cuts and actions of its plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from speck.apply.planned import PlannedChange
from speck.binder import QueryRunner, Registry
from speck.coordinator import Services, build
from speck.core.change import Apply, Request
from speck.core.inventory import Engine, Inventory
from speck.core.job import Composition
from speck.core.settings import Settings
from speck.placement.profile import Inputs, JobProfile
from speck.schema.compositions import load_composition
from speck.sql.program import Program
from speck.store import Store
from testbed.benches import user
from testbed.benches.placement import NOW, engine_at, inventory, kinds
from testbed.doubles.world import World


@dataclass
class Bench:
    """The coordinator; ``profiles`` are those of jobs by name, which are too old if they are ``stale``."""

    world: World
    registry: Registry
    root: Path
    profiles: dict[str, JobProfile] = field(default_factory=dict)
    services: Services | None = None
    stale: bool = False

    def inputs(self) -> Inputs:
        return Inputs(jobs=self.profiles, fresh=frozenset(() if self.stale else self.profiles))

    def load(self, text: str) -> Composition:
        loaded = load_composition(
            text, inventory=sites(), registry=self.registry, root=self.root, default_name="q"
        )
        return loaded.composition

    def plan(self, text: str) -> PlannedChange:
        assert self.services is not None
        return self.services.changes.plan(Apply(self.load(text)), Request())

    def apply(self, text: str) -> None:
        assert self.services is not None
        operation, _ = user.apply(self.services.coordinator, self.load(text))
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()


@contextmanager
def running(tmp_path: Path, *, panes: bool) -> Iterator[Bench]:
    world = World()
    (tmp_path / "runner.jar").write_bytes(b"the program")
    found = kinds(world)
    runner = QueryRunner(tmp_path / "runner.jar", "io.speck.Run", panes=panes)
    registry = Registry(tuple(replace(each, queries=runner) for each in found.engines), found.brokers)
    bench = Bench(world, registry, tmp_path)
    with Store(tmp_path / "store") as store:
        bench.services = build(
            store,
            registry,
            sites(),
            Settings(roots=(tmp_path,), period=0, adapt=0),  # decisions are the tests'
            clock=lambda: NOW,
            inputs=bench.inputs,
        )
        bench.services.coordinator.start()
        try:
            yield bench
        finally:
            bench.services.coordinator.close()


def sites() -> Inventory:
    """The sites with the addresses of their engines as a file has them."""
    return Inventory(
        {
            name: replace(site, engines=(Engine(spe_address=f"{engine_at(name)}/"),))
            for name, site in inventory().sites.items()
        }
    )


def cuts(planned: PlannedChange) -> dict[str, str]:
    found = {}
    for name, job in planned.desired.items():
        sends = Program.from_json(str(job.query["program"])).sends
        if sends is not None:
            found[name] = sends.cut
    return found


def kinds_of(planned: PlannedChange) -> set[str]:
    return {type(each).__name__ for each in planned.plan.actions}
