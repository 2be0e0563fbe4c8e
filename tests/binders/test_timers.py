"""Idle connections where the system has no thread for the timer that closes them."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from binders.mqtt.connection import Connection
from binders.mqtt.connection_cache import ConnectionCache
from speck.testing.waiting import eventually


class Opened:
    """A connection that only counts."""

    def __init__(self) -> None:
        self.uses = 0
        self.closed = False

    def __enter__(self) -> Connection:
        return cast(Connection, self)

    def __exit__(self, *error: Any) -> None:
        self.closed = True

    def restart_deadline(self) -> None:
        self.uses += 1


def test_a_call_succeeds_without_a_thread_for_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("binders.mqtt.connection_cache.IDLE_TIMEOUT", 0.02)
    opened = Opened()
    cache = ConnectionCache(lambda: cast(Connection, opened))
    with monkeypatch.context() as out_of_memory:
        out_of_memory.setattr(threading.Timer, "start", no_thread)
        assert cache.run(lambda _: 7) == 7
    assert cache.run(lambda _: 8) == 8  # over the same connection, which is closed after it
    assert opened.uses >= 2
    eventually(lambda: opened.closed, bool)
