"""Binders whose calls have a deadline, and are reported to a listener: method, duration and outcome."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar, cast

from speck.binder.broker import BrokerBinder
from speck.binder.contract import LONGEST_ACTION, LONGEST_QUERY
from speck.binder.deadline import within
from speck.binder.engine import EngineBinder
from speck.core.runtime import JobState, JobStatus
from speck.errors import OutcomeUnknown, Unreachable

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

# Calls that may return without a request to the engine or broker.
_OFFLINE = frozenset(
    (
        "close",
        "has_lost",
        "last_ended",
        "left_state",
        "state_of",
        "state_fault",
        "state_place",
        "stranded",
        "take_artifacts",
        "take_owner",
        "unsaved",
        "warnings",
    )
)

# Calls that start, stop, build or check a job, or transfer a state.
_ACTIONS = frozenset(
    (
        *("check", "submit", "stop", "build_job", "probe_link", "probe_core"),
        *("state_size", "read_state", "check_state_place", "write_state", "delete_state", "dispose_state"),
    )
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a binder; ``kind`` is the binder's, such as ``flink``, ``seconds`` the duration.

    ``error`` is the name of the class that was raised, or returned for jobs whose engine does not answer; it
    is empty for a success.  ``answered``: the call succeeded and involved the engine or broker.
    """

    kind: str
    address: str
    method: str
    seconds: float
    error: str
    answered: bool


Listener = Callable[[Call], None]
Permit = Callable[[str], object]


def always(address: str) -> None:
    """Permit each call."""


def instrumented(binder: _T, kind: str, address: str, listener: Listener, permit: Permit = always) -> _T:
    """The binder with all its public methods; each call from outside is reported to the listener.

    ``permit`` is called with the address before each call of the engine or broker, and raises if it must not
    be made.
    """
    binder_class: Any = type(binder)
    return cast(_T, _class_of(binder_class)(binder, kind, address, listener, permit))


def is_called(binder: object) -> bool:
    """True if a call of an :func:`instrumented` binder is under way."""
    return isinstance(binder, _Instrumented) and binder._under_way > 0


class _Instrumented:
    """A proxy of a binder, with the methods of the binder's class.

    A default of the contract is run on the proxy: the calls that it makes are reported, and it is not.
    """

    def __init__(self, binder: Any, kind: str, address: str, listener: Listener, permit: Permit) -> None:
        self._binder, self._kind, self._address, self._listener = binder, kind, address, listener
        self._permit = permit
        self._under_way, self._counting = 0, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binder, name)

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        started, error, answered = time.monotonic(), "", False
        with self._counting:
            self._under_way += 1
        try:
            if method not in _OFFLINE:
                self._permit(self._address)
            with within(LONGEST_ACTION if method in _ACTIONS else LONGEST_QUERY):
                answer = getattr(self._binder, method)(*arguments, **named)
            error = _returned_error(answer)
            answered = not error and method not in _OFFLINE
            return answer
        except Exception as problem:
            error = type(problem).__name__
            raise
        finally:
            call = Call(self._kind, self._address, method, time.monotonic() - started, error, answered)
            _log_call(call)
            with self._counting:
                self._under_way -= 1
            self._listener(call)


def _log_call(call: Call) -> None:
    fields = {"binder": call.kind, "address": call.address, "call": call.method, "error": call.error}
    _log.debug("%s took %.3f s", call.method, call.seconds, extra=fields)


@cache
def _class_of(binder: type) -> type[_Instrumented]:
    base = EngineBinder if issubclass(binder, EngineBinder) else BrokerBinder
    members: dict[str, Any] = {
        name: _forwarding(name, method)
        for name, method in inspect.getmembers(binder, inspect.isfunction)
        if not name.startswith("_") and method is not getattr(base, name, None)
    }
    members["capabilities"] = _attribute("capabilities")
    if base is EngineBinder:
        members |= {name: _attribute(name) for name in ("log_about", "largest_state")}
    return cast(type[_Instrumented], type(binder.__name__, (_Instrumented, base), members))


def _attribute(name: str) -> property:
    return property(lambda self: getattr(self._binder, name))


def _forwarding(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: _Instrumented, *arguments: Any, **named: Any) -> Any:
        return self._call(name, *arguments, **named)

    return call


def _returned_error(answer: object) -> str:
    """The error in an answer: an engine that does not answer is reported by a value, not by an exception."""
    values: Iterable[object] = answer.values() if isinstance(answer, Mapping) else (answer,)
    errors = [_error_name(each) for each in values]
    return errors[0] if errors and all(errors) else ""


def _error_name(answer: object) -> str:
    if isinstance(answer, JobStatus) and answer.state is JobState.UNKNOWN:
        return OutcomeUnknown.__name__
    return type(answer).__name__ if isinstance(answer, Unreachable | OutcomeUnknown) else ""
