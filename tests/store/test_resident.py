"""Records that a store has in memory are those on its disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from speck.core.runtime import Attempt
from speck.errors import StoreError
from speck.store import AttemptRecord, Head, JobRecord, Store, kinds
from speck.store.leveldb.database import Database
from speck.store.leveldb.resident import ResidentRecord, ResidentRecords
from speck.store.transaction import Transaction, Write


def attempt(job: str, number: int) -> Attempt:
    return Attempt(id=f"{number:032x}", job_name=job, number=number, session=f"speck-{job}")


def change(transaction: Transaction, chance: random.Random) -> None:
    """Write or delete a record of a kind that is in memory."""
    job, number = chance.choice(["a", "ab", "b", "b-2"]), chance.randint(1, 3)
    match chance.randint(0, 4):
        case 0:
            transaction.put_head(Head(job, number))
        case 1:
            transaction.put_job(JobRecord(job, "traffic", number))
        case 2:
            transaction.delete_job(job)
        case 3:
            transaction.put_attempt(AttemptRecord(attempt(job, number), number))
        case _:
            transaction.delete_attempt(attempt(job, number))


def in_memory(store: Store) -> list[object]:
    return sorted([*store.heads(), *store.jobs(), *store.attempts()], key=repr)


def on_disk(directory: Path) -> list[object]:
    with closing(Database(directory)) as database:
        found = database.all()
    resident = (b"composition/", b"job/", b"attempt/")
    records = [kinds.kind_of(key).decoded(key, value) for key, value in found if key.startswith(resident)]
    return sorted(records, key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_reads_are_those_of_the_disk(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Store(tmp_path / "store") as store:
        for _ in range(100):
            with store.transaction() as transaction:
                for _ in range(chance.randint(1, 4)):
                    change(transaction, chance)
        found = in_memory(store)
        by_job = [each for job in ("a", "ab", "b", "b-2") for each in store.attempts(job)]
        assert by_job == store.attempts()
        assert [store.job(each.name) for each in store.jobs()] == store.jobs()
    assert found == on_disk(tmp_path / "store") != []
    with Store(tmp_path / "store") as again:
        assert in_memory(again) == found


def test_a_write_whose_end_is_not_known_is_read_again_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(changes: object) -> None:
        raise OSError("the disk did not answer")

    with Store(tmp_path / "store") as store:
        with monkeypatch.context() as broken:
            broken.setattr(store.database.resident, "apply", fails)
            with pytest.raises(StoreError, match="did not answer"), store.transaction() as transaction:
                transaction.put_head(Head("one", 1))
        assert store.heads() == []
        with store.transaction() as transaction:
            transaction.put_head(Head("two", 1))
        assert store.heads() == [Head("one", 1), Head("two", 1)]


def test_a_closed_store_is_not_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.close()
    for read in (store.heads, store.jobs, store.attempts, lambda: store.job("a")):
        with pytest.raises(StoreError, match="is closed"):
            read()


def test_a_read_sees_all_changes_of_a_write() -> None:
    records = ResidentRecords([b"job/"])
    reads = list[Future[list[tuple[bytes, ResidentRecord]]]]()
    with ThreadPoolExecutor(1) as threads:

        def changes() -> Iterator[Write]:
            yield b"job/a", b"1"
            reads.append(threads.submit(records.beginning_with, b"job/"))
            with pytest.raises(TimeoutError):
                reads[0].result(0.2)
            yield b"job/b", b"1"

        records.apply(changes())
        assert [key for key, _ in reads[0].result(30)] == [b"job/a", b"job/b"]
