"""A coordinator over engines and brokers in memory, which a test may end and begin again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speck.coordinator import Coordinator
from speck.core.settings import Settings
from speck.store import Store
from tests.support.doubles import World, double_kinds
from tests.support.jobs_by_hand import write_code


@pytest.fixture(name="world")
def world_fixture() -> Iterator[World]:
    world = World()
    yield world
    assert world.violations == []


@pytest.fixture(name="begin")
def begin_fixture(tmp_path: Path, world: World) -> Iterator[Callable[[], Coordinator]]:
    """Starts a coordinator on the same store; the one before is closed, as at a restart."""
    running: list[tuple[Coordinator, Store]] = []

    def end() -> None:
        while running:
            coordinator, store = running.pop()
            world.heal()
            coordinator.close()
            store.close()

    def start() -> Coordinator:
        end()
        store = Store(tmp_path / "store")
        coordinator = Coordinator(
            store, double_kinds(world), settings=Settings(roots=(write_code(tmp_path),), period=0)
        )
        running.append((coordinator, store))
        coordinator.start()
        return coordinator

    yield start
    end()


@pytest.fixture(name="coordinator")
def coordinator_fixture(begin: Callable[[], Coordinator]) -> Coordinator:
    return begin()
