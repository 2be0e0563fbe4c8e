"""The code of changes at the coordinator's standby, and the copies of it that engines fetch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import time

import pytest

from speck.coordinator import Services, build
from speck.core.job import Job
from speck.core.settings import HistoryBounds, Settings
from speck.errors import InvalidInput
from testbed.benches import user
from testbed.benches.jobs_by_hand import CODE, code_hash, composition, make_job, write_code
from testbed.benches.pair import InMemoryPair
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

DAY = 86_400.0
A = make_job("a", "in", "out")
CHANGED = replace(A, job_path="other.py", code_hash=code_hash("other.py"))


@pytest.fixture(name="pair")
def pair_fixture(tmp_path: Path) -> Iterator[InMemoryPair]:
    pair = InMemoryPair(tmp_path)
    pair.join()
    yield pair
    pair.close()


@pytest.fixture(name="services")
def services_fixture(pair: InMemoryPair, tmp_path: Path) -> Iterator[Services]:
    pair.store.bounds = HistoryBounds(revisions=2)
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


def hashes(directory: Path) -> set[str]:
    return {each.name for each in directory.glob("*") if len(each.name) == 64}


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


def test_code_that_no_revision_names_goes_at_both_servers(pair: InMemoryPair, services: Services) -> None:
    files, named = services.files, services.coordinator.named_code
    assert files is not None
    carry_out(services, A)
    old = pair.directory / "primary" / "served" / files.offer("jobs.py", CODE["jobs.py"].encode()).sha256
    carry_out(services, CHANGED)
    pair.primary.delete_gone(named)
    at_standby = pair.directory / "standby"
    assert hashes(at_standby / "artifacts") == {A.code_hash, CHANGED.code_hash}
    for path in (old, old / "jobs.py"):
        _age(path, 2 * 3600)
    for limit in ("5", "6"):
        carry_out(services, replace(CHANGED, labels={"limit": limit}))
    pair.primary.delete_gone(named)
    assert hashes(at_standby / "artifacts") == {CHANGED.code_hash}
    assert not old.exists()
    assert hashes(at_standby / "served") == set()


def test_a_launcher_stays_while_a_job_may_have_been_started_with_it(
    pair: InMemoryPair, services: Services
) -> None:
    files, retention = services.files, services.coordinator.retention
    assert files is not None
    carry_out(services, A)
    folder = pair.directory / "primary" / "served" / files.offer("launcher.jar", b"launcher").sha256
    for path in (folder / "launcher.jar", folder):
        _age(path, 30 * DAY)
    for _ in range(2):
        retention._unswept = True
        retention.sweep_code()
        assert folder.exists()
    carry_out(services)
    retention._unswept = True
    retention.sweep_code()
    assert not folder.exists()


def test_code_of_a_change_that_is_refused_leaves_the_standby(
    pair: InMemoryPair, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise InvalidInput([], "composition")

    monkeypatch.setattr("speck.coordinator.changes.refuse_claimed", refuse)
    with pytest.raises(InvalidInput):
        carry_out(services, A)
    place = pair.directory / "standby" / "artifacts" / A.code_hash
    assert place.exists()
    pair.primary.delete_gone(services.coordinator.named_code)
    assert not place.exists()


def _age(path: Path, seconds: float) -> None:

    os.utime(path, (time() - seconds,) * 2)
