"""Binders whose every call is told to a listener: what was asked of whom, how long it took, the outcome."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar, cast

from speck.core.runtime import JobState, JobStatus
from speck.errors import DrainTimeout, OutcomeUnknown, Rejected, SecretUnavailable, Unreachable

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

# The calls that are answered without asking the engine or the broker, or may be.
_UNASKED = frozenset(
    ("close", "left_state", "state_of", "state_fault", "state_place", "take_artifacts", "warnings")
)

# Values of the metrics' label ``error`` and of the log's field, on which alerts of users rest since 0.1.
_LABELS: Mapping[type, str] = {
    OutcomeUnknown: "NoAnswer",
    Rejected: "Refused",
    SecretUnavailable: "NoSecret",
    DrainTimeout: "Unfinished",
}


def label_of(error: object) -> str:
    """The error's class as metrics and logs name it."""
    return _LABELS.get(type(error), type(error).__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a binder: its ``kind`` (``flink``, ``mqtt``), its address, the method, s, what went wrong.

    ``error`` is the class of what was raised (or told, of jobs whose engine does not answer), empty when
    all went well.  ``answered``: it went well, and the engine or broker was asked for it.
    """

    kind: str
    address: str
    method: str
    seconds: float
    error: str
    answered: bool


Listener = Callable[[Call], None]


def instrumented(binder: _T, kind: str, address: str, listener: Listener) -> _T:
    """The binder, every public method of which tells the listener of each call from outside."""
    made: Any = type(binder)
    return cast(_T, _class_of(made)(binder, kind, address, listener))


class _Instrumented:
    """Stands for a binder.  Its class has the binder's methods, by which its abilities are told."""

    def __init__(self, binder: Any, kind: str, address: str, listener: Listener) -> None:
        self._binder, self._kind, self._address, self._listener = binder, kind, address, listener

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binder, name)

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        begun, error, answered = time.monotonic(), "", False
        try:
            answer = getattr(self._binder, method)(*arguments, **named)
            error = _silence(answer)
            answered = not error and method not in _UNASKED
            return answer
        except Exception as problem:
            error = label_of(problem)
            raise
        finally:
            call = Call(self._kind, self._address, method, time.monotonic() - begun, error, answered)
            _log_call(call)
            self._listener(call)


def _log_call(call: Call) -> None:
    fields = {"binder": call.kind, "address": call.address, "call": call.method, "error": call.error}
    _log.debug("%s took %.3f s", call.method, call.seconds, extra=fields)


@cache
def _class_of(binder: type) -> type[_Instrumented]:
    methods = inspect.getmembers(binder, inspect.isfunction)
    public = {name: _forwarding(name, method) for name, method in methods if not name.startswith("_")}
    return type(f"Instrumented{binder.__name__}", (_Instrumented,), public)


def _forwarding(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: _Instrumented, *arguments: Any, **named: Any) -> Any:
        return self._call(name, *arguments, **named)

    return call


def _silence(answer: object) -> str:
    """The error that an answer stands for: to say that an engine is silent is no error of the binder."""
    told: Iterable[object] = answer.values() if isinstance(answer, Mapping) else (answer,)
    errors = [_silence_of(each) for each in told]
    return errors[0] if errors and all(errors) else ""


def _silence_of(answer: object) -> str:
    if isinstance(answer, JobStatus) and answer.state is JobState.UNKNOWN:
        return _LABELS[OutcomeUnknown]
    return label_of(answer) if isinstance(answer, Unreachable | OutcomeUnknown) else ""
