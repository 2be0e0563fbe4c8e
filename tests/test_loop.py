"""Background loops: their rounds, pauses, errors and ends."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from speck.loop import Loop
from speck.testing.waiting import eventually
from tests.support.threads import without_threads


class Rounds:
    """Rounds that a test lets go on, each with its result."""

    def __init__(self, *results: float | BaseException) -> None:
        self.results = list(results)
        self.begun: list[float] = []

    def __call__(self) -> float:
        self.begun.append(time.monotonic())
        result = self.results.pop(0) if self.results else math.inf
        if isinstance(result, BaseException):
            raise result
        return result


Begin = Callable[[Rounds], Loop]


@pytest.fixture(name="begin")
def begin_fixture() -> Iterator[Begin]:
    loops: list[Loop] = []

    def begin(rounds: Rounds) -> Loop:
        loop = Loop("trial", "a trial round", rounds, first_pause=0.01)
        loops.append(loop)
        loop.start()
        return loop

    yield begin
    for each in loops:
        each.close()


def test_a_loop_that_is_closed_as_a_round_is_about_to_begin_ends_at_once() -> None:
    rounds = Rounds()
    loop = Loop("trial", "a trial round", rounds)

    class Late(threading.Event):
        """A wake that is cleared just after the end of the loop has set it."""

        def clear(self) -> None:
            loop._stop.set()
            self.set()
            super().clear()

    loop._wake = Late()
    loop.start()
    begun = time.monotonic()
    loop.close(10.0)
    assert (time.monotonic() - begun < 5, rounds.begun) == (True, [])


def test_rounds_follow_each_other_by_their_pauses(begin: Begin) -> None:
    rounds = Rounds(0.0, 0.05, math.inf)
    loop = begin(rounds)
    eventually(lambda: len(rounds.begun), lambda count: count == 3)
    assert rounds.begun[2] - rounds.begun[1] >= 0.05
    loop.wake()
    eventually(lambda: len(rounds.begun), lambda count: count == 4)
    assert loop.fault() == ""


def test_a_wake_during_a_round_is_followed_by_another(begin: Begin) -> None:
    rounds = Rounds(math.inf)
    loop = begin(rounds)
    eventually(lambda: len(rounds.begun), lambda count: count == 1)

    def round_once() -> float:
        rounds()
        if len(rounds.begun) == 2:
            loop.wake()
        return math.inf

    loop.round = round_once
    loop.wake()
    eventually(lambda: len(rounds.begun), lambda count: count == 3)


def test_an_error_that_repeats_is_logged_once_and_another_again(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "speck.loop")
    rounds = Rounds(ValueError("one"), ValueError("one"), ValueError("two"), ValueError("two"), math.inf)
    begin(rounds)
    eventually(lambda: [each.levelname for each in caplog.records], lambda found: "INFO" in found)
    assert [each.getMessage() for each in caplog.records] == [
        "a trial round failed, and is tried again",
        "a trial round failed, and is tried again",
        "a trial round ended well after 4 failed ones",
    ]
    assert [str(each.exc_info[1]) for each in caplog.records[:2] if each.exc_info] == ["one", "two"]
    pauses = [after - before for before, after in zip(rounds.begun, rounds.begun[1:], strict=False)]
    for pause, least in zip(pauses, (0.01, 0.02, 0.04, 0.08), strict=True):
        assert pause >= least


def test_a_wake_shortens_no_pause_after_an_error(begin: Begin) -> None:
    rounds = Rounds(*[ValueError("one")] * 1000)
    loop = begin(rounds)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        loop.wake()
    assert len(rounds.begun) < 8  # after 0, 0.01, 0.03, 0.07, 0.15 and 0.31 s


def test_a_dead_thread_is_a_fault_and_is_not_started_again(begin: Begin) -> None:
    rounds = Rounds(KeyboardInterrupt())
    loop = begin(rounds)
    eventually(loop.fault, lambda fault: fault == "the trial thread died: KeyboardInterrupt()")
    loop.start()
    assert len(rounds.begun) == 1
    loop.close()
    assert loop.fault() == ""


def test_a_result_that_is_no_time_is_an_end_that_is_reported(begin: Begin) -> None:
    loop = begin(Rounds("soon"))  # type: ignore[arg-type]
    assert "the trial thread died: TypeError(" in eventually(loop.fault, bool)


def test_a_round_that_takes_long_is_a_fault_until_it_ends(begin: Begin) -> None:
    begun, gate = threading.Event(), threading.Event()
    loop = begin(Rounds(math.inf))
    loop.patience = 0.0

    def hang() -> float:
        begun.set()
        gate.wait(30)
        return math.inf

    loop.round = hang
    loop.wake()
    assert begun.wait(30)
    assert eventually(loop.fault, bool).startswith("a trial round has taken ")
    loop.close(0.01)  # which does not wait for it
    gate.set()


def test_a_loop_without_a_thread_is_started_by_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds()
    loop = Loop("trial", "a trial round", rounds)
    without_threads(monkeypatch, "trial")
    with pytest.raises(RuntimeError):
        loop.start()
    assert (loop.is_started, loop.fault()) == (False, "")
    monkeypatch.undo()
    loop.start()
    eventually(lambda: rounds.begun, bool)
    loop.close()


def test_a_closed_loop_does_not_start() -> None:
    rounds = Rounds()
    loop = Loop("trial", "a trial round", rounds)
    assert loop.fault() == ""
    loop.close()
    loop.start()
    assert not loop.is_started
    assert rounds.begun == []
