"""Asking many places side by side: engines, brokers, sites.

A time-out means one thing everywhere: after ``patience`` seconds the caller goes on with what is there, and a
place without an answer is silent.  Its call ends by its own time limits, in a daemon thread, so that it holds
up neither other places nor the end of the process, and what it answers then is dropped.  (Callers that ask
again and again keep their calls instead: :mod:`speck.binder.patience`.)
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from speck.errors import OutcomeUnknown, SpeckError

AT_ONCE = 16  # places that are asked at a time, for the memory and the processor of the coordinator
PATIENCE = 15.0  # s, for the answers of all: the first of an engine that has just started takes seconds
GRACE = 0.5  # s without any answer, after which those who are asked leave their places to others
CLOSING = 2.0  # s, for which the end of a part waits for its calls: their results are not used
IDLE = 32  # threads that wait for a call at most: some 100 KB each
IDLE_SECONDS = 30.0  # longer than the period of the reconciler, which asks all engines in each round

_Place = TypeVar("_Place", bound=Hashable)
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Asked(Generic[_Place, _Answer]):
    """The answers of the places: each is in ``answers`` or in ``errors``, or ``silent``."""

    answers: Mapping[_Place, _Answer]
    errors: Mapping[_Place, SpeckError]
    silent: frozenset[_Place]
    patience: float

    def failures(self) -> dict[_Place, SpeckError]:
        """The errors, those of silent places among them."""
        late = OutcomeUnknown(f"no answer within {self.patience:g} s")
        return {**self.errors, **dict.fromkeys(self.silent, late)}


def ask(
    places: Iterable[_Place],
    call: Callable[[_Place], _Answer],
    patience: float = PATIENCE,
    *,
    at_once: int = AT_ONCE,
    grace: float = GRACE,
    name: str = "ask",
) -> Asked[_Place, _Answer]:
    """Ask each place once, ``at_once`` at a time, and wait ``patience`` seconds for all.

    When ``grace`` seconds pass without an answer, further ones are asked beside those that are slow.  Raises
    the error of a call that is no :class:`~speck.errors.SpeckError`, when all others have ended.
    """
    deadline = time.monotonic() + patience
    waiting, begun = deque(dict.fromkeys(places)), dict[_Place, Future[_Answer]]()
    order = list(waiting)
    prompt = set[Future[_Answer]]()
    while waiting and (remaining := deadline - time.monotonic()) > 0:
        while waiting and len(prompt) < at_once:
            place = waiting.popleft()
            begun[place] = begin(partial(call, place), name)
            prompt.add(begun[place])
        if waiting:
            done, prompt = wait(prompt, min(grace, remaining), FIRST_COMPLETED)
            prompt = prompt if done else set()
    wait(begun.values(), max(0.0, deadline - time.monotonic()))
    ended = {place: begun[place] for place in order if place in begun and begun[place].done()}
    errors = {place: error for place, each in ended.items() if (error := each.exception()) is not None}
    known = {place: error for place, error in errors.items() if isinstance(error, SpeckError)}
    for defect in (errors[place] for place in errors.keys() - known.keys()):
        raise defect
    answers = {place: each.result() for place, each in ended.items() if place not in errors}
    return Asked(answers, known, frozenset(order) - ended.keys(), patience)


def begin(call: Callable[[], _Answer], name: str) -> Future[_Answer]:
    """Make a call in a daemon thread of this name; the future has its result or its error."""
    future: Future[_Answer] = Future()
    _threads.run(partial(settle, future, call), name)
    return future


def settle(future: Future[_Answer], call: Callable[[], _Answer]) -> None:
    """Make a call now; the future gets its result or its error."""
    try:
        future.set_result(call())
    except BaseException as error:  # whatever it is, who waits for the future gets it
        future.set_exception(error)


_Work = Callable[[], None]


class _Threads:
    """Daemon threads, each of which makes one call after another, and ends after a time without any.

    A round asks each engine and broker, and a long operation makes thousands of calls: a new thread for each
    took a tenth of the processor time.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over, as in a forked process, which has none of the threads."""
        self._idle: list[SimpleQueue[tuple[_Work, str]]] = []
        self._guard = threading.Lock()  # only around the list: no call is made under it

    def run(self, work: _Work, name: str) -> None:
        """Do the work in an idle thread, or in a new one."""
        with self._guard:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(target=self._work, args=(queue,), name=name, daemon=True).start()
        queue.put((work, name))

    def _work(self, queue: SimpleQueue[tuple[_Work, str]]) -> None:
        thread = threading.current_thread()
        while (next_work := self._next(queue)) is not None:
            work, thread.name = next_work
            # Nothing of one call is seen by the next, as in a thread of its own.
            Context().run(work)
            del work, next_work  # the call's values live no longer than it
            thread.name = "idle"
            with self._guard:
                if len(self._idle) >= IDLE:
                    return
                self._idle.append(queue)

    def _next(self, queue: SimpleQueue[tuple[_Work, str]]) -> tuple[_Work, str] | None:
        try:
            return queue.get(timeout=IDLE_SECONDS)
        except Empty:
            with self._guard:
                if queue in self._idle:
                    self._idle.remove(queue)
                    return None
        return queue.get()  # it was taken from the list just now


_threads = _Threads()
os.register_at_fork(after_in_child=_threads.forget)
