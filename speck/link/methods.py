"""The methods that are called over a connection: types of arguments and answers, and deadlines."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from speck.binder import BrokerBinder, EngineBinder
from speck.link.codec import Malformed, decode, encode
from speck.link.repeats import REPEATED

Base = type[EngineBinder] | type[BrokerBinder]

# Methods that have no meaning at another machine, or that each end carries out itself.
LOCAL = frozenset({"close", "reported", "take_artifacts", "take_owner"})

# Methods that may change a job; on one job they are carried out one at a time, in the order of their arrival.
ORDERED = frozenset({"submit", "find", "stop"})

# Methods whose answers are observations: those of a later agent may have more fields.  A handle or a state,
# which is given back to the agent, has to be whole.
OBSERVING = REPEATED | {"status", "metrics", "checkup", "engine_plan"}

# Calls that no binder has.
STORE, RECEIVE, END_FEED, JOURNAL = "$store", "$receive", "$end", "$journal"
UPGRADABLE, UPGRADE = "$upgradable", "$upgrade"

QUERY = 30.0  # s, for an answer
_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("check", "build_job", "resumption_fault", "checkup", "warnings", "measure"), 90.0),
    **dict.fromkeys(("probe_link", "probe_core", "reach"), 120.0),
    **dict.fromkeys(("state_size", "read_state", "write_state", "delete_state", "dispose_state"), 600.0),
    "submit": 180.0,
    "stop": 420.0,  # a savepoint may take 300 s
}


def is_carried(binder: EngineBinder) -> bool:
    """True if an agent can serve an engine with this binder, which fetches no files from the coordinator."""
    return type(binder).take_artifacts is EngineBinder.take_artifacts


def seconds_of(method: str, arguments: Mapping[str, Any]) -> float:
    """The time (s) for an answer; ``drained`` has that among its arguments in addition."""
    more = arguments.get("seconds") if method == "drained" else 0.0
    return _SECONDS.get(method, QUERY) + (more if isinstance(more, int | float) else 0.0)


@cache
def _hints(base: Base, method: str) -> Mapping[str, Any]:
    found = inspect.getattr_static(base, method, None)
    if method.startswith("_") or method in LOCAL or not inspect.isfunction(found):
        raise Malformed(f"method is {method!r} (expected one of {base.__name__})")
    return get_type_hints(found)


def bound(base: Base, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    call = inspect.signature(getattr(base, method)).bind(None, *arguments, **named)
    return {name: value for name, value in call.arguments.items() if name != "self"}


def encode_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as JSON data."""
    return {name: encode(value) for name, value in arguments.items()}


def decode_arguments(base: Base, method: str, data: Any) -> dict[str, Any]:
    """The arguments of a call; raises :class:`~speck.link.codec.Malformed`."""
    hints = _hints(base, method)
    if not isinstance(data, Mapping) or not data.keys() <= hints.keys() - {"return"}:
        raise Malformed(f"{method} has other arguments (expected {', '.join(hints.keys() - {'return'})})")
    return {name: decode(hints[name], value, name) for name, value in data.items()}


def decode_answer(base: Base, method: str, data: Any) -> Any:
    """The answer of a call; raises :class:`~speck.link.codec.Malformed`."""
    return decode(_hints(base, method)["return"], data, method, strict=method not in OBSERVING)
