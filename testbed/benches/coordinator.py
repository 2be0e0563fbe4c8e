"""A coordinator over engines and brokers in memory, which may be ended and begun again on one store."""

from __future__ import annotations

from pathlib import Path

from speck.coordinator import Coordinator, Services, build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches.jobs_by_hand import write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

NO_SITES = Inventory()


class Restarts:
    """One coordinator after the other on the store in ``directory``."""

    def __init__(self, directory: Path, world: World) -> None:
        self._directory, self._world = directory, world
        self._running: list[tuple[Coordinator, Store]] = []

    def start(self, inventory: Inventory = NO_SITES) -> Services:
        """Start a coordinator; the one before is closed, as at a restart."""
        self.end()
        store = Store(self._directory / "store")
        settings = Settings(roots=(write_code(self._directory),), period=0)
        services = build(store, double_kinds(self._world), inventory, settings)
        self._running.append((services.coordinator, store))
        services.coordinator.start()
        return services

    def end(self) -> None:
        """Close the coordinator that runs, if one does."""
        while self._running:
            coordinator, store = self._running.pop()
            self._world.heal()
            coordinator.close()
            store.close()
