"""Runs the steps of a schedule side by side, each in its lane as soon as those that it needs are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Executor as Lane
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from speck.core.schedule import Step, StepKey
from speck.logs import carried


class Runner(Protocol):
    """Carries out single steps."""

    def lane(self, step: Step) -> Lane | None:
        """The executor that runs a step; steps of one lane share its bound.  ``None``: there is no work."""

    def carry_out(self, step: Step) -> None:
        """Do the work of a step."""

    def skip(self, step: Step, need: StepKey, error: Exception) -> None:
        """Called for a step that is not carried out: ``need`` failed, or was skipped, with this error."""


def run_steps(steps: Iterable[Step], runner: Runner) -> None:
    """Carry out all steps, each as soon as its needs are done; returns when each has ended.

    An error of one is handed to those that need it only.  Needs that name none of the steps count as done.
    The needs must not form a cycle.
    """
    _Run(steps, runner).to_the_end()


class _Run:
    """The steps that wait, the needs that each still misses, and the steps that need each of them."""

    def __init__(self, steps: Iterable[Step], runner: Runner) -> None:
        self._runner = runner
        self._waiting = {step.key: step for step in steps}
        self._missing = {
            key: {need for need in step.needs if need in self._waiting} for key, step in self._waiting.items()
        }
        self._dependents: dict[StepKey, list[StepKey]] = defaultdict(list)
        for key, needs in self._missing.items():
            for need in needs:
                self._dependents[need].append(key)
        self._ended: SimpleQueue[tuple[StepKey, Future[None]]] = SimpleQueue()

    def to_the_end(self) -> None:
        running = 0
        ready = [key for key, needs in self._missing.items() if not needs]
        while ready or running:
            for key in ready:
                self._begin(self._waiting.pop(key))
            running += len(ready)
            key, future = self._ended.get()
            running -= 1
            error = future.exception()
            if error is None:
                ready = self._released_by(key)
            elif isinstance(error, Exception):
                ready = []
                self._skip_behind(key, error)
            else:
                raise error

    def _begin(self, step: Step) -> None:
        lane = self._runner.lane(step)
        future: Future[None] = Future()
        if lane is None:
            future.set_result(None)
        else:
            future = lane.submit(carried(partial(self._runner.carry_out, step)))
        future.add_done_callback(partial(self._note_end, step.key))

    def _note_end(self, key: StepKey, future: Future[None]) -> None:
        self._ended.put((key, future))

    def _released_by(self, done: StepKey) -> list[StepKey]:
        """The steps that missed nothing but this one, which is done."""
        ready = []
        for dependent in self._dependents.get(done, ()):
            if dependent in self._waiting:
                self._missing[dependent].discard(done)
                if not self._missing[dependent]:
                    ready.append(dependent)
        return ready

    def _skip_behind(self, failed: StepKey, error: Exception) -> None:
        """Skip the steps that need the failed one, and those that need these."""
        behind = [failed]
        while behind:
            need = behind.pop()
            for dependent in self._dependents.get(need, ()):
                if (step := self._waiting.pop(dependent, None)) is not None:
                    self._runner.skip(step, need, error)
                    behind.append(dependent)
