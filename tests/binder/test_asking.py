"""Asking many places side by side: answers, errors, silent ones, and what the slow cost the others."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from queue import Queue

import pytest

from speck.binder.asking import ask, begin
from speck.errors import OutcomeUnknown, Unreachable

GONE = Unreachable("nobody listens", address="c")


@pytest.fixture(name="gate")
def gate_fixture() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


def test_each_place_answers_fails_or_is_silent(gate: threading.Event) -> None:
    def call(place: str) -> str:
        if place == "b":
            gate.wait(60)
        if place == "c":
            raise GONE
        return place.upper()

    begun = time.monotonic()
    asked = ask(["a", "b", "c", "a"], call, 0.3)
    assert time.monotonic() - begun < 10
    assert (asked.answers, asked.errors, asked.silent) == ({"a": "A"}, {"c": GONE}, {"b"})
    assert {place: str(error) for place, error in asked.failures().items()} == {
        "b": "no answer within 0.3 s",
        "c": "nobody listens",
    }
    assert isinstance(asked.failures()["b"], OutcomeUnknown)


def test_nothing_is_asked_of_no_place() -> None:
    asked = ask([], len, 60.0)
    assert (asked.answers, asked.errors, asked.silent) == ({}, {}, frozenset())


def test_silent_places_hold_up_no_others(gate: threading.Event) -> None:
    """Nor if there are more of them than are asked at a time."""
    silent = [f"silent {number}" for number in range(9)]

    def call(place: str) -> str:
        if place in silent:
            gate.wait(60)
        return place

    asked = ask([*silent, "a"], call, 3.0, at_once=2, grace=0.01)
    assert (asked.answers, asked.silent) == ({"a": "a"}, frozenset(silent))
    without = ask([*silent, "a"], call, 0.2, at_once=2, grace=math.inf)
    assert (without.answers, without.silent) == ({}, frozenset([*silent, "a"]))


def test_no_more_are_asked_at_a_time(gate: threading.Event) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def call(place: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return place

    asked = ask(range(20), call, 60.0, at_once=3, grace=math.inf)
    assert list(asked.answers) == list(range(20))
    assert most == 3


def test_a_defect_is_raised_after_the_others_have_ended() -> None:
    ended: list[str] = []

    def call(place: str) -> None:
        if place == "a":
            raise KeyError(place)
        time.sleep(0.05)
        ended.append(place)

    with pytest.raises(KeyError):
        ask(["a", "b"], call, 60.0)
    assert ended == ["b"]


def test_what_waits_is_a_daemon(gate: threading.Event) -> None:
    """The end of the process does not wait for it."""
    found: Queue[bool] = Queue()

    def call(_: str) -> None:
        found.put(threading.current_thread().daemon)
        gate.wait(60)

    ask(["a"], call, 0.05, name="trial")
    assert found.get(timeout=60)


def test_a_thread_makes_one_call_after_another() -> None:
    """A new thread for each of the thousands of calls of a long operation would cost more than the calls."""
    threads = {begin(threading.current_thread, "trial").result() for _ in range(200)}
    assert len(threads) < 20


def test_calls_in_one_thread_share_no_context() -> None:
    seen: ContextVar[int] = ContextVar("seen", default=0)

    def call() -> int:
        before = seen.get()
        seen.set(before + 1)
        return before

    assert {begin(call, "trial").result() for _ in range(50)} == {0}


def test_a_forked_process_has_threads_of_its_own() -> None:
    begin(int, "trial").result()
    time.sleep(0.01)  # its thread is idle now
    child = os.fork()
    if child == 0:
        try:
            os._exit(begin(lambda: 7, "trial").result(5))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
