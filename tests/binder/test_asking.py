"""Asking many places side by side: answers, errors, silent ones, and what the slow cost the others."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator

import pytest

from speck.binder.asking import ask
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
    ask(["a"], lambda _: gate.wait(60), 0.05, name="trial")
    waiting = [each for each in threading.enumerate() if each.name == "trial"]
    assert [each.daemon for each in waiting] == [True]
