"""Asking many places side by side: engines, brokers, sites.

A time-out means one thing everywhere: after ``patience`` seconds the caller goes on with what is there, and a
place without an answer is silent.  Its call ends by its own time limits, in a daemon thread, so that it holds
up neither other places nor the end of the process, and what it answers then is dropped.  (Callers that ask
again and again keep their calls instead: :mod:`speck.binder.patience`.)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from speck.errors import OutcomeUnknown, SpeckError

AT_ONCE = 16  # places that are asked at a time, for the memory and the processor of the coordinator
GRACE = 0.5  # s without any answer, after which those who are asked leave their places to others
CLOSING = 2.0  # s, for which the end of a part waits for its calls: what they answer is used no more

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
    patience: float,
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

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # whatever it is, who waits for the future gets it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
