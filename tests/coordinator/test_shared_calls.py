"""Calls that are made once for all who ask at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from speck.coordinator.shared_calls import SharedCalls
from speck.testing.waiting import eventually


def test_an_error_is_everybodys_and_the_next_call_is_a_new_one() -> None:
    calls, hold, begun = SharedCalls(), threading.Event(), threading.Event()
    made: list[str] = []

    def fail() -> int:
        made.append("failing")
        begun.set()
        hold.wait(30)
        raise ValueError("no answer")

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(calls.of, "a", fail)
        assert begun.wait(30)
        others = [threads.submit(calls.of, "a", fail) for _ in range(2)]
        assert calls.of("b", lambda: 1) == 1  # another key waits for nothing
        eventually(lambda: [each.running() for each in others], all)
        hold.set()
        for each in (first, *others):
            with pytest.raises(ValueError, match="no answer"):
                each.result(30)
    assert calls.of("a", lambda: 2) == 2
    assert made in (["failing"], ["failing"] * 2)  # a thread may come only after the first call has ended
