"""A coordinator over engines and brokers in memory, which a test may end and begin again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speck.coordinator import Coordinator, Queries, Services, build
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches.jobs_by_hand import write_code
from testbed.doubles.binders import World, double_kinds


@pytest.fixture(name="world")
def world_fixture() -> Iterator[World]:
    world = World()
    yield world
    assert world.violations == []


@pytest.fixture(name="begin")
def begin_fixture(tmp_path: Path, world: World) -> Iterator[Callable[[], Services]]:
    """Starts a coordinator on the same store; the one before is closed, as at a restart."""
    running: list[tuple[Coordinator, Store]] = []

    def end() -> None:
        while running:
            coordinator, store = running.pop()
            world.heal()
            coordinator.close()
            store.close()

    def start() -> Services:
        end()
        store = Store(tmp_path / "store")
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        services = build(store, double_kinds(world), settings=settings)
        running.append((services.coordinator, store))
        services.coordinator.start()
        return services

    yield start
    end()


@pytest.fixture(name="services")
def services_fixture(begin: Callable[[], Services]) -> Services:
    return begin()


@pytest.fixture(name="coordinator")
def coordinator_fixture(services: Services) -> Coordinator:
    return services.coordinator


@pytest.fixture(name="queries")
def queries_fixture(services: Services) -> Queries:
    return services.queries
