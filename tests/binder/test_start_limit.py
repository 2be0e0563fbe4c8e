"""The limit of tasks that begin at a time: it bounds threads, and holds up nobody behind a silent engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from speck.binder import start_limit
from speck.binder.lane import Lane
from speck.binder.start_limit import LONGEST, LOOK, StartLimit, processor_demand
from speck.testing.waiting import eventually


class Bench:
    """A limit of two tasks, on clocks that a test sets; tasks run until they are released."""

    def __init__(self, most: int = 2, few: int = 2) -> None:
        self.now, self.used = 0.0, 0.0
        self.begun: list[str] = []
        self.looks: list[Callable[[], None]] = []
        self.gates: dict[str, threading.Event] = {}
        self.limit = StartLimit(
            most, lambda: self.now, lambda: self.used, lambda _, look: self.looks.append(look), few
        )

    def begin(self, *names: str) -> None:
        for name in names:
            self.gates[name] = threading.Event()
            self.limit.begin(lambda name=name: self.task(name), name)  # type: ignore[misc]

    def task(self, name: str) -> None:
        self.begun.append(name)
        assert self.gates[name].wait(60)

    def pass_time(self, seconds: float, used: float) -> None:
        """Let time pass, of which this process has ``used`` a part of a core; then the limit looks."""
        self.now, self.used = self.now + seconds, self.used + used
        [look], self.looks = self.looks, []
        look()

    def has_begun(self, *names: str) -> None:
        assert eventually(lambda: sorted(self.begun), lambda found: len(found) >= len(names)) == sorted(names)

    def end(self) -> None:
        for gate in self.gates.values():
            gate.set()


def test_a_few_tasks_run_at_a_time_and_each_end_begins_the_next() -> None:
    bench = Bench()
    bench.begin("a", "b", "c", "d")
    bench.has_begun("a", "b")
    bench.gates["b"].set()
    bench.has_begun("a", "b", "c")
    bench.gates["a"].set()
    bench.has_begun("a", "b", "c", "d")
    bench.end()


def test_tasks_that_wait_for_an_engine_hold_up_no_others() -> None:
    bench = Bench()
    bench.begin("a", "b", "c", "d", "e")
    bench.pass_time(LOOK / 2, used=0.0)
    bench.has_begun("a", "b")
    bench.pass_time(2 * LOOK, used=0.0)
    bench.has_begun("a", "b", "c", "d")
    bench.pass_time(2 * LOOK, used=0.0)
    bench.has_begun("a", "b", "c", "d", "e")
    assert bench.looks == []  # nothing waits
    bench.end()


def test_tasks_that_wait_for_the_interpreter_do() -> None:
    bench = Bench()
    bench.begin("a", "b", "c")
    for _ in range(5):
        bench.pass_time(LOOK, used=0.9 * LOOK)
        bench.has_begun("a", "b")
    bench.pass_time(LONGEST, used=LONGEST)  # but not for long
    bench.has_begun("a", "b", "c")
    bench.end()


def test_tasks_that_wait_for_a_processor_that_others_use_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a busy machine the process used a tenth of a core, and began tasks in thousands of threads."""
    monkeypatch.setattr(start_limit, "_THREADS", tmp_path)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    (tmp_path / "17").mkdir()
    waits = tmp_path / "17" / "schedstat"
    waits.write_text("0 0 0\n")
    bench = Bench()
    bench.limit.processor = StartLimit().processor
    bench.begin("a", "b", "c")
    waits.write_text(f"0 {round(LOOK * 1e9)} 1\n")
    bench.pass_time(LOOK, used=0.0)
    bench.has_begun("a", "b")
    assert [name for _, name in bench.limit._waiting] == ["c"]
    bench.pass_time(2 * LOOK, used=0.0)  # no thread waits any more
    bench.has_begun("a", "b", "c")
    bench.end()


def test_the_demand_is_the_time_used_and_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(start_limit, "_THREADS", tmp_path)
    monkeypatch.setattr(time, "process_time", lambda: 3.0)
    assert processor_demand() == 3.0  # no such files
    for name, line in (("17", "9000000000 1500000000 4\n"), ("18", "0 500000000 1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(line)
    (tmp_path / "19" / "schedstat").mkdir(parents=True)  # one that cannot be read, as of a thread that ends
    assert processor_demand() == 5.0


def test_fewer_tasks_run_at_a_time_while_they_keep_the_processor_busy() -> None:
    bench = Bench(most=4, few=1)
    bench.begin(*"abcdefghijk")
    bench.has_begun("a")
    bench.pass_time(LOOK, used=0.0)  # the first task is slow now, and two others may run beside it
    bench.has_begun(*"abc")
    bench.pass_time(LOOK, used=LOOK)  # one at a time, once these two have ended
    bench.gates["b"].set()
    assert eventually(lambda: len(bench.limit._running), lambda count: count == 1)
    bench.has_begun(*"abc")
    bench.gates["c"].set()
    bench.has_begun(*"abcd")
    bench.pass_time(LOOK, used=0.0)
    bench.has_begun(*"abcdef")
    bench.pass_time(LOOK, used=0.0)
    bench.has_begun(*"abcdefghij")
    bench.end()
    bench.has_begun(*"abcdefghijk")


def test_a_task_that_fails_leaves_its_place() -> None:
    bench = Bench()
    lane = Lane("x", 10, starts=bench.limit)
    failed = [lane.submit("user", lambda: 1 / 0) for _ in range(3)]
    assert [type(each.exception(60)) for each in failed] == [ZeroDivisionError] * 3
    assert lane.submit("user", lambda: 7).result(60) == 7


def test_the_lanes_of_silent_engines_hold_up_no_other_lane() -> None:
    limit, silent = StartLimit(2), threading.Event()
    lanes = [Lane(f"silent-{number}", 4, starts=limit) for number in range(2)]
    for lane in lanes:
        for _ in range(4):
            lane.submit("user", lambda: silent.wait(60))
    assert Lane("quick", 4, starts=limit).submit("user", lambda: 7).result(60) == 7
    silent.set()
    for lane in lanes:
        lane.close()


def test_a_call_has_its_answer_or_its_error() -> None:
    limit = StartLimit(1)
    failed, answered = limit.submit(lambda: 1 / 0, "look"), limit.submit(lambda: 7, "look")
    assert type(failed.exception(60)) is ZeroDivisionError
    assert answered.result(60) == 7


def no_thread(*arguments: object) -> None:
    raise RuntimeError("can't start new thread")


def test_tasks_without_a_thread_are_done_in_that_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.begin("a")
    bench.has_begun("a")
    monkeypatch.setattr(start_limit, "begin", no_thread)
    bench.begin("b", "c")
    bench.gates["a"].set()
    bench.has_begun("a", "b")
    bench.gates["b"].set()
    bench.has_begun("a", "b", "c")
    bench.end()


def test_a_task_for_which_there_is_no_thread_at_all_fails_and_leaves_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = Lane("x", 1, starts=StartLimit())
    monkeypatch.setattr(start_limit, "begin", no_thread)
    assert type(lane.submit("user", lambda: 7).exception(60)) is RuntimeError
    monkeypatch.undo()
    assert lane.submit("user", lambda: 7).result(60) == 7
