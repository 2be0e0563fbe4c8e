"""Runs tasks side by side, each as soon as the tasks that it needs are done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from speck.logs import carried

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One piece of work.  ``needs`` are the keys of tasks that must have succeeded before.

    ``lane`` is the executor that runs it: tasks of one lane share its bound.  ``skip`` is called in its
    place, with the key and the error of the failed task, when one of its needs did not succeed.
    """

    key: Hashable
    lane: Executor
    work: Callable[[], None]
    skip: Callable[[Hashable, Exception], None]
    needs: frozenset[Hashable] = frozenset()


class Skipped(Exception):
    """Stands for a task that was not run; ``cause`` is the error of the task that failed."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(str(cause))


def run_tasks(tasks: Iterable[Task]) -> None:
    """Run all tasks and return when each has ended.  An error of one is handed to those that need it only.

    Needs that name no task are taken as done.  The needs must not form a cycle.
    """
    waiting = {task.key: task for task in tasks}
    missing = {key: {need for need in task.needs if need in waiting} for key, task in waiting.items()}
    dependents: dict[Hashable, list[Hashable]] = {}
    for key, needs in missing.items():
        for need in needs:
            dependents.setdefault(need, []).append(key)
    ended: SimpleQueue[tuple[Hashable, Future[None]]] = SimpleQueue()
    running = 0
    ready = [key for key, needs in missing.items() if not needs]
    while ready or running:
        for key in ready:
            task = waiting.pop(key)
            task.lane.submit(carried(task.work)).add_done_callback(partial(_note_end, ended, key))
        running += len(ready)
        key, future = ended.get()
        running -= 1
        error = future.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        ready = _record_end(key, error, waiting, missing, dependents)


def _note_end(ended: SimpleQueue[tuple[Hashable, Future[None]]], key: Hashable, future: Future[None]) -> None:
    ended.put((key, future))


def _record_end(
    key: Hashable,
    error: Exception | None,
    waiting: dict[Hashable, Task],
    missing: dict[Hashable, set[Hashable]],
    dependents: dict[Hashable, list[Hashable]],
) -> list[Hashable]:
    """Record the end of a task; answers the keys that became ready."""
    ready: list[Hashable] = []
    ended: list[tuple[Hashable, Exception | None]] = [(key, error)]
    while ended:
        done, failure = ended.pop()
        for dependent in dependents.get(done, ()):
            if dependent not in waiting:
                continue
            if failure is not None:
                cause = failure.cause if isinstance(failure, Skipped) else failure
                waiting.pop(dependent).skip(done, cause)
                ended.append((dependent, Skipped(cause)))
                continue
            missing[dependent].discard(done)
            if not missing[dependent]:
                ready.append(dependent)
    return ready
