"""Tasks side by side, in the order of their needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from speck.apply.task_graph import Task, run_tasks


class Broken(Exception):
    """The error of a task of these tests."""


@pytest.fixture
def lane() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


class Log:
    """The tasks that ran and those that were skipped, in order."""

    def __init__(self, lane: Executor) -> None:
        self.lane, self.said = lane, list[str]()

    def task(self, name: str, *needs: str, work: Callable[[], None] | None = None) -> Task:
        def run() -> None:
            if work is not None:
                work()
            self.said.append(name)

        def skip(need: object, error: Exception) -> None:
            self.said.append(f"{name} skipped: {need}: {error}")

        return Task(name, self.lane, run, skip, frozenset(needs))


def fail() -> None:
    raise Broken("no")


def test_each_task_runs_after_what_it_needs(lane: Executor) -> None:
    log = Log(lane)
    run_tasks([log.task("d", "b", "c"), log.task("b", "a"), log.task("c", "a"), log.task("a")])
    assert (log.said[0], sorted(log.said[1:3]), log.said[3]) == ("a", ["b", "c"], "d")


def test_failure_skips_what_depends_on_it_and_nothing_else(lane: Executor) -> None:
    log = Log(lane)
    tasks = [
        log.task("a", work=fail),
        log.task("b", "a"),
        log.task("c", "b"),
        log.task("d", "c", "e"),
        log.task("e"),
    ]
    run_tasks(tasks)
    assert sorted(log.said) == ["b skipped: a: no", "c skipped: b: no", "d skipped: c: no", "e"]


def test_need_of_no_task_is_taken_as_done(lane: Executor) -> None:
    log = Log(lane)
    run_tasks([log.task("a", "nowhere")])
    assert log.said == ["a"]


def test_independent_tasks_run_at_the_same_time(lane: Executor) -> None:
    meeting = threading.Barrier(2, timeout=30)
    log = Log(lane)
    run_tasks([log.task("a", work=meeting.wait), log.task("b", work=meeting.wait)])
    assert sorted(log.said) == ["a", "b"]


def test_many_tasks_cost_no_deep_recursion(lane: Executor) -> None:
    log = Log(lane)
    tasks = [log.task("0", work=fail)]
    tasks += [log.task(str(number), str(number - 1)) for number in range(1, 5000)]
    run_tasks(tasks)
    assert len(log.said) == 4999
