"""The code of changes at the coordinator's standby."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from speck.coordinator import Services, build
from speck.core.job import Job
from speck.core.settings import Settings
from testbed.benches import user
from testbed.benches.jobs_by_hand import CODE, composition, make_job, write_code
from testbed.benches.pair import InMemoryPair
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

A = make_job("a", "in", "out")


@pytest.fixture(name="pair")
def pair_fixture(tmp_path: Path) -> Iterator[InMemoryPair]:
    pair = InMemoryPair(tmp_path)
    pair.join()
    yield pair
    pair.close()


@pytest.fixture(name="services")
def services_fixture(pair: InMemoryPair, tmp_path: Path) -> Iterator[Services]:
    settings = Settings(roots=(write_code(tmp_path),), period=0, advertise="http://here")
    services = build(pair.store, double_kinds(World()), settings=settings, primary=pair.primary)
    pair.primary.announce()
    services.coordinator.start()
    yield services
    services.coordinator.close()


def carry_out(services: Services, *jobs: Job) -> None:
    operation, _ = user.apply(services.coordinator, composition(*jobs))
    assert operation.wait(10)
    assert not operation.to_dict()["error"]


def test_new_code_is_sent_while_others_begin_and_write(pair: InMemoryPair, services: Services) -> None:
    free: list[tuple[bool, bool]] = []
    with ThreadPoolExecutor(1) as pool:

        def is_free() -> bool:
            lock = services.coordinator.operations._lock
            if found := lock.acquire(blocking=False):
                lock.release()
            return found

        def passed(operation: str) -> None:
            if operation == "before file":
                writing = pair.store.database._writing.locked()
                free.append((not writing, pool.submit(is_free).result(10)))

        pair.to_standby.passed = passed
        carry_out(services, A)
    assert free == [(True, True)]
    content = (pair.directory / "standby" / "artifacts" / A.code_hash / "jobs.py").read_text()
    assert content == CODE["jobs.py"]
    assert pair.primary.status()["in_sync"]
