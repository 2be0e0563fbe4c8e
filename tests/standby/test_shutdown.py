"""The end of the primary's store, and its recovery, while the standby is sent a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from speck.errors import StoreError
from speck.store.leveldb.database import Database
from testbed.benches.pair import InMemoryPair

PATIENCE = 20.0


def recover(database: Database) -> None:
    """Open the database again, as the first write does after one that failed."""
    database._failure = StoreError("a write failed")
    database.retry()
    assert database.failure is None


@pytest.mark.parametrize("ask", [Database.close, recover])
def test_a_slow_copy_holds_up_neither_the_end_nor_a_recovery(
    tmp_path: Path, ask: Callable[[Database], None]
) -> None:
    """A piece takes up to 10 s on a slow link, and the copy of a large store minutes."""
    pair = InMemoryPair(tmp_path)
    database, sending, proceed = pair.store.database, Event(), Event()

    def passed(operation: str) -> None:
        if operation == "before records":
            sending.set()
            assert proceed.wait(PATIENCE)

    pair.to_standby.passed = passed
    with ThreadPoolExecutor(2) as threads:
        copy = threads.submit(pair.primary.keep_in_step, database)
        try:
            assert sending.wait(PATIENCE)
            threads.submit(ask, database).result(2)
        finally:
            proceed.set()
        if ask is recover:
            copy.result(PATIENCE)
            assert database.all() == pair.follower._database.all()
        else:
            assert isinstance(copy.exception(PATIENCE), StoreError)
    pair.close()
