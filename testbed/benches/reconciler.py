"""A coordinator over engines and brokers in memory, whose loop goes round when a test says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from speck.apply.operation import Operation
from speck.controller.backoff import Backoff
from speck.coordinator import Coordinator, Queries, Services, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt
from speck.core.settings import HistoryBounds, Settings
from speck.errors import StoreFull
from speck.store import Store
from speck.store.transaction import Write
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, write_code
from testbed.benches.sessions import named
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

WAITS = 10.0  # s, that a job waits after its first healing; twice as long after the second


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """One coordinator after the other on one store; a test starts each round of the loop."""

    world: World
    directory: Path
    clock: Clock
    services: Services
    store: Store
    bounds: HistoryBounds
    startup: float
    inventory: Inventory

    @classmethod
    def begin(
        cls,
        world: World,
        directory: Path,
        bounds: HistoryBounds | None = None,
        startup: float = 0.0,
        inventory: Inventory | None = None,
    ) -> Bench:
        write_code(directory)
        bounds, inventory = bounds or HistoryBounds(), inventory or Inventory()
        clock = Clock()
        started = cls._started(world, directory / "store", clock, bounds, startup, inventory)
        return cls(world, directory, clock, *started, bounds, startup, inventory)

    @staticmethod
    def _started(
        world: World,
        place: Path,
        clock: Clock,
        bounds: HistoryBounds,
        startup: float,
        inventory: Inventory,
    ) -> tuple[Services, Store]:
        store, directory = Store(place, bounds), place.parent
        services = build(
            store,
            double_kinds(world, startup=startup),
            inventory,
            settings=Settings(roots=(directory,), period=0, heal_patience=30),
            clock=clock,
            backoff=Backoff(lambda tries: WAITS * 2 ** (tries - 1)),
        )
        services.coordinator.start()
        return services, store

    @property
    def coordinator(self) -> Coordinator:
        return self.services.coordinator

    @property
    def queries(self) -> Queries:
        return self.services.queries

    def restart(self) -> None:
        self.close()
        self.move_to(self.store.directory)

    def move_to(self, place: Path) -> None:
        """Go on with another store, which was put there."""
        self.services, self.store = self._started(
            self.world, place, self.clock, self.bounds, self.startup, self.inventory
        )

    def close(self) -> None:
        self.coordinator.close()
        self.store.close()

    def apply(self, *jobs: Job) -> Operation:
        operation, _ = user.apply(self.coordinator, composition(*jobs))
        assert operation.wait(30)
        return operation

    def round(self, times: int = 1, seconds: float = 10.0) -> None:
        """Go round, and wait for what that began."""
        for _ in range(times):
            self.clock.now += seconds
            self.coordinator.reconciler.round()
            self.finish()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The store takes no change in the block."""

        def refused(changes: Sequence[Write]) -> None:
            raise StoreFull("the disk is full")

        database = self.store.database
        write, database.write = database.write, refused  # type: ignore[method-assign]
        try:
            yield
        finally:
            database.write = write  # type: ignore[method-assign]

    def finish(self) -> None:
        for name in [each["name"] for each in self.queries.compositions()]:
            eventually(lambda name=name: self.coordinator.operations.is_idle(name), bool)  # type: ignore[misc]

    def job(self, name: str) -> dict[str, object]:
        return next(each for each in self.queries.jobs() if each["job_name"] == name)

    def reported(self) -> list[tuple[str, str]]:
        """The events of the loop, by kind and job."""
        return [
            (each["kind"], each["job"])
            for each in self.queries.events(1000)
            if each["kind"] in ("drift", "healed")
        ]

    def heals(self) -> int:
        return sum(each["kind"] == "heal" for each in self.store.operations())


def copy_of(job: Job, world: World, number: int = 9) -> Attempt:
    """An attempt that no store knows."""
    return Attempt(id=f"{number:032x}", job_name=job.job_name, number=number, session=named(job.job_name))
