"""Steps side by side, in the order of their needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from speck.apply.step_runner import run_steps
from speck.core.schedule import Step, StepKey, StepKind


class Broken(Exception):
    """The error of a step of these tests."""


@pytest.fixture
def lane() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


class Log:
    """Runs steps, and notes those that ran and those that were skipped, in order."""

    def __init__(self, lane: Executor, **work: Callable[[], object]) -> None:
        self.said = list[str]()
        self._lane, self._work = lane, work

    def lane(self, step: Step) -> Executor | None:
        return None if step.kind is StepKind.CHANGED else self._lane

    def carry_out(self, step: Step) -> None:
        self._work.get(step.subject, str)()
        self.said.append(step.subject)

    def skip(self, step: Step, need: StepKey, error: Exception) -> None:
        self.said.append(f"{step.subject} skipped: {need[1]}: {error}")


def act(name: str, *needs: str) -> Step:
    return Step(StepKind.ACT, name, frozenset((StepKind.ACT, need) for need in needs))


def fail() -> None:
    raise Broken("no")


def test_each_step_runs_after_what_it_needs(lane: Executor) -> None:
    log = Log(lane)
    run_steps([act("d", "b", "c"), act("b", "a"), act("c", "a"), act("a")], log)
    assert (log.said[0], sorted(log.said[1:3]), log.said[3]) == ("a", ["b", "c"], "d")


def test_failure_skips_what_depends_on_it_and_nothing_else(lane: Executor) -> None:
    log = Log(lane, a=fail)
    run_steps([act("a"), act("b", "a"), act("c", "b"), act("d", "c", "e"), act("e")], log)
    assert sorted(log.said) == ["b skipped: a: no", "c skipped: b: no", "d skipped: c: no", "e"]


def test_need_of_no_step_counts_as_done(lane: Executor) -> None:
    log = Log(lane)
    run_steps([act("a", "nowhere")], log)
    assert log.said == ["a"]


def test_independent_steps_run_at_the_same_time(lane: Executor) -> None:
    meeting = threading.Barrier(2, timeout=30)
    log = Log(lane, a=meeting.wait, b=meeting.wait)
    run_steps([act("a"), act("b")], log)
    assert sorted(log.said) == ["a", "b"]


def test_a_step_without_work_is_done_when_its_needs_are(lane: Executor) -> None:
    steps = [act("a"), Step(StepKind.CHANGED, "all", frozenset({(StepKind.ACT, "a")}))]
    steps.append(Step(StepKind.PRUNE, "b", frozenset({(StepKind.CHANGED, "all")})))
    log = Log(lane)
    run_steps(steps, log)
    assert log.said == ["a", "b"]
    log = Log(lane, a=fail)
    run_steps(steps, log)
    assert log.said == ["all skipped: a: no", "b skipped: all: no"]


def test_many_steps_cost_no_deep_recursion(lane: Executor) -> None:
    log = Log(lane, **{"0": fail})
    run_steps([act("0"), *(act(str(number), str(number - 1)) for number in range(1, 5000))], log)
    assert len(log.said) == 4999
