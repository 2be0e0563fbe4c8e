"""Coordinators with stores of their own over one world of engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

BROKER = "tcp://b1:1883"
ENGINE = "sc://e1:1"


class Stores:
    """Stores by name in a directory; ``checkups`` and ``coordinator`` are of the one that was opened last."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.directory = world, directory
        write_code(directory)

    @contextmanager
    def open(self, name: str) -> Iterator[Coordinator]:
        with Store(self.directory / name) as store:
            inventory = Inventory({"A": one_site("A", ENGINE, BROKER)})
            settings = Settings(roots=(self.directory,), period=0, drain=5)
            services = build(store, double_kinds(self.world), inventory, settings)
            services.coordinator.start()
            self.checkups, self.coordinator = services.sites.checkups, services.coordinator
            try:
                yield services.coordinator
            finally:
                services.coordinator.close()

    def deploy(self, name: str, *jobs: Job) -> str:
        """Apply jobs with a store of this name; answers its identity."""
        with self.open(name) as coordinator:
            operation, _ = user.apply(coordinator, composition(*jobs))
            assert operation.wait(30)
            assert operation.state == "succeeded", operation.to_dict()
            return coordinator.store.identity
