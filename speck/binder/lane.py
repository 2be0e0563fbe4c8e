"""Lanes: bounded numbers of concurrent tasks, shared fairly by those who use them.

A lane protects an engine or a broker from too many actions at a time.  A task may hang for minutes in an
engine that does not answer, so no user may fill a lane: each has places that only its own tasks take.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from speck.binder.start_limit import StartLimit

_Waiting = tuple["Future[Any]", Callable[[], Any]]


@dataclass
class Lane:
    """Runs at most ``bound`` tasks at a time, and for each user at least ``own`` of its tasks.

    So more than ``bound`` run only while several users have work.  The user with the fewest running tasks
    goes first.  ``starts`` is shared by the lanes of a pool.
    """

    name: str
    bound: int
    own: int = 1
    starts: StartLimit = field(default_factory=StartLimit)
    _waiting: dict[str, deque[_Waiting]] = field(default_factory=dict, init=False)
    _running: Counter[str] = field(default_factory=Counter, init=False)
    _pause: threading.Timer | None = field(default=None, init=False)
    _lock: threading.Condition = field(default_factory=threading.Condition, init=False)

    def share(self, user: str) -> Executor:
        """The lane as an executor for the tasks of one user."""
        return _Share(self, user)

    def submit(self, user: str, work: Callable[[], Any]) -> Future[Any]:
        """Run a task of a user as soon as it may."""
        future: Future[Any] = Future()
        with self._lock:
            self._waiting.setdefault(user, deque()).append((future, work))
            self._start_due()
        return future

    def pause(self, seconds: float) -> None:
        """Start no task until :meth:`resume`, or for this time at most; those that run continue."""
        with self._lock:
            self._end_pause()
            timer = threading.Timer(seconds, self.resume)
            timer.daemon = True
            timer.start()  # a pause that nothing ends is none
            self._pause = timer

    def resume(self) -> None:
        """Start the tasks that wait."""
        with self._lock:
            self._end_pause()
            self._start_due()

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    @property
    def is_idle(self) -> bool:
        """True if no task runs or waits, and it is not paused."""
        with self._lock:
            return not self._running and not self._waiting and self._pause is None

    def close(self) -> None:
        """Wait for all tasks."""
        self.resume()
        with self._lock:
            self._lock.wait_for(lambda: not self._running and not self._waiting)

    def _start_due(self) -> None:
        while (user := self._next_user()) is not None:
            future, work = self._waiting[user].popleft()
            if not self._waiting[user]:
                del self._waiting[user]
            self._running[user] += 1
            try:
                self.starts.begin(partial(self._run, user, future, work), f"lane-{self.name}")
            except RuntimeError as error:  # the system has no thread for it
                self._note_end(user)
                future.set_exception(error)

    def _next_user(self) -> str | None:
        if self._pause is not None:
            return None
        user = min(self._waiting, key=lambda each: self._running[each], default=None)
        if user is None:
            return None
        free = self._running.total() < self.bound or self._running[user] < self.own
        return user if free else None

    def _run(self, user: str, future: Future[Any], work: Callable[[], Any]) -> None:
        error, result = None, None
        try:
            result = work()
        # Whatever ended the work is the future's; its place is free again in any case.
        except BaseException as problem:
            error = problem
        with self._lock:
            self._note_end(user)
            self._start_due()
            self._lock.notify_all()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _note_end(self, user: str) -> None:
        self._running[user] -= 1
        if not self._running[user]:
            del self._running[user]


class _Share(Executor):
    def __init__(self, lane: Lane, user: str) -> None:
        self._lane, self._user = lane, user

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._lane.submit(self._user, lambda: fn(*args, **kwargs))
