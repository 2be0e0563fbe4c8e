"""Locks by name."""

from __future__ import annotations

import gc
import weakref

from binders.common.named_locks import NamedLocks


def test_a_name_has_one_lock_while_it_is_used() -> None:
    locks = NamedLocks()
    with locks.of("a"):
        assert locks.of("a").locked()
        assert not locks.of("b").locked()


def test_a_lock_that_is_not_used_is_forgotten() -> None:
    locks = NamedLocks()
    forgotten = weakref.ref(locks.of("a"))
    gc.collect()
    assert forgotten() is None
