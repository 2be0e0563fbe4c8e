"""The isolation of transactions: writers of one record, with changes that take long to reach the disk."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.runtime import Attempt, State
from speck.errors import StoreError
from speck.store import AttemptRecord, JobRecord, Store
from speck.store.isolation import Isolation
from testbed.doubles.delayed_store import DelayedStore
from tests.support.properties import tries

STATE = State("flink-savepoint", "file:///s1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DelayedStore]:
    with DelayedStore(tmp_path / "store") as opened:
        with opened.transaction() as transaction:
            transaction.put_job(JobRecord("a", "traffic", attempts=1))
        yield opened


def count_up(store: Store, name: str = "a") -> None:
    """As an operation notes that an attempt is intended."""
    with store.transaction() as transaction:
        record = store.job(name) or JobRecord(name, "traffic")
        number = record.attempts + 1
        transaction.put_job(replace(record, attempts=number, incarnation=number))
        attempt = Attempt(id=f"{number:032x}", job_name=name, number=number, session="speck-a")
        transaction.put_attempt(AttemptRecord(attempt, 1))


def keep_state(store: Store) -> None:
    """As the reaper notes a state that an abandoned attempt has left."""
    with store.transaction() as transaction:
        record = store.job("a")
        assert record is not None
        transaction.put_job(replace(record, state=STATE))


def test_a_change_from_what_another_one_has_just_changed_undoes_nothing(store: DelayedStore) -> None:
    store.key = b"job/a"
    with ThreadPoolExecutor() as threads:
        first = threads.submit(count_up, store)
        assert store.reached.wait(30)
        second = threads.submit(keep_state, store)
        assert not wait([second], 0.2).done
        store.released.set()
        first.result(30), second.result(30)
    assert store.job("a") == JobRecord("a", "traffic", attempts=2, incarnation=2, state=STATE)


def test_a_list_of_records_contains_those_on_their_way_to_disk(store: DelayedStore) -> None:
    store.key = b"job/a"

    def listed() -> list[int]:
        with store.transaction():
            return [each.attempt.number for each in store.attempts("a")]

    with ThreadPoolExecutor() as threads:
        threads.submit(count_up, store)
        assert store.reached.wait(30)
        found = threads.submit(listed)
        assert not wait([found], 0.2).done
        store.released.set()
        assert found.result(30) == [2]


def test_changes_of_other_records_and_reads_without_a_change_do_not_wait(store: DelayedStore) -> None:
    store.key = b"job/a"
    with ThreadPoolExecutor() as threads:
        first = threads.submit(count_up, store)
        assert store.reached.wait(30)
        threads.submit(count_up, store, "b").result(30)
        record = threads.submit(store.job, "a").result(30)
        assert record is not None
        assert record.attempts == 1  # as on disk
        assert not first.done()
        store.released.set()


def test_after_a_change_that_failed_the_record_is_the_one_on_disk(store: DelayedStore) -> None:
    store.key, store.error = b"job/a", "disk"
    with ThreadPoolExecutor() as threads:
        first = threads.submit(count_up, store)
        assert store.reached.wait(30)
        second = threads.submit(keep_state, store)
        store.released.set()
        with pytest.raises(StoreError, match="disk"):
            first.result(30)
        with pytest.raises(StoreError, match="disk"):  # as its own change does
            second.result(30)
        store.error = ""
        threads.submit(count_up, store).result(30)
    assert store.job("a") == JobRecord("a", "traffic", attempts=2, incarnation=2)


@tries(50)
@given(st.lists(st.text("ab/", min_size=1).map(str.encode), max_size=8), st.data())
def test_a_prefix_is_pending_as_long_as_a_key_under_it_is(keys: list[bytes], data: st.DataObject) -> None:
    isolation = Isolation()
    for key in keys:
        isolation.announce([key])
    for key in data.draw(st.permutations(keys)):
        for prefix in (b"a/", b"b/", b"a/b/", b"/", b"a//"):
            assert (prefix in isolation._pending) == any(each.startswith(prefix) for each in keys)
        isolation.complete([key])
        keys = [*keys[: keys.index(key)], *keys[keys.index(key) + 1 :]]
    assert not isolation._pending


def test_a_read_looks_at_no_change_of_another_record() -> None:
    """An operation on many jobs has hundreds of changes on their way to disk, and reads as often."""

    class Unlisted(Counter[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            raise AssertionError("all changes were looked at")

    isolation = Isolation(_pending=Unlisted())
    isolation.announce([b"job/a", b"attempt/a/0000000001"])
    with isolation.block():
        isolation.await_prefix(b"attempt/b/")
        isolation.await_key(b"job/b")
    isolation.complete([b"job/a", b"attempt/a/0000000001"])


@tries(30)
@given(st.randoms(use_true_random=False))
def test_no_number_is_given_twice_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    """Threads that count up the records of three jobs, each change reaching the disk within 0 to 3 ms."""
    names = [chance.choice("abc") for _ in range(40)]
    directory = tmp_path_factory.mktemp("stores") / "s"
    with DelayedStore(directory, lambda: chance.random() * 0.003) as store:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda name: count_up(store, name), names))
        for name in set(names):
            record = store.job(name)
            assert record is not None
            assert record.attempts == names.count(name)
            assert [each.attempt.number for each in store.attempts(name)] == [
                *range(1, names.count(name) + 1)
            ]
