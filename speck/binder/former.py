"""Binders in the form that the contract had before, adapted to it for this version.

A binder was any class with the methods of a protocol, and it had an optional part of the contract when it had
the methods of a further one.  Such a class still works: :func:`adapting` wraps what its package connects, and
reports the class once.  The names of those protocols can still be imported and inherited.
"""

from __future__ import annotations

import inspect
import logging
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from speck.binder.broker import BrokerBinder
from speck.binder.contract import OwnedSession, StateFiles
from speck.binder.engine import EngineBinder

if TYPE_CHECKING:
    from speck.binder.registry import BrokerKind, EngineKind

_log = logging.getLogger(__name__)

_Kind = TypeVar("_Kind", "EngineKind", "BrokerKind")
_Base = type[EngineBinder] | type[BrokerBinder]

_STATE = ("state_of", "state_fault")
_REPORTS = ("subscribe", "send_control")

# The members of each protocol; a binder had a part when it had all of them.
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "AcceptsJobs": ("check_acceptance",),
    "AdoptsSessions": ("owned_sessions", "adopt_session"),
    "BatchMetrics": ("measure",),
    "BatchStatus": ("statuses",),
    "BuildsJobs": ("build_job",),
    "CarriesReports": _REPORTS,
    "ChecksResumption": ("resumption_fault",),
    "CountsDropped": ("dropped", "stored_bytes"),
    "CountsStored": ("stored",),
    "DisposableState": ("dispose_state",),
    "FetchesArtifacts": ("take_artifacts",),
    "HealthCheckable": ("checkup",),
    "KnowsReaders": ("readers",),
    "ListsRunning": ("running",),
    "ListsWorkers": ("workers",),
    "LogReader": ("log_about", "log_tail"),
    "NamesWriters": ("name_writers",),
    "OfflineState": ("left_state",),
    "OwnsSessions": ("take_owner", "claim_session", "fenced", "foreign_sessions"),
    "PlanReader": ("engine_plan",),
    "Probes": ("probe_link", "probe_core"),
    "Profiles": ("profile",),
    "ProgressAware": ("kept_nothing",),
    "ReachesBrokers": ("reach",),
    "ReadinessProbe": ("has_worked",),
    "RestoresSessions": ("restore_session",),
    "StateLocator": _STATE,
    "StateTransferable": (
        *_STATE,
        *("state_size", "read_state", "state_place", "check_state_place", "write_state", "delete_state"),
    ),
    "TracesMessages": (*_REPORTS, "send_probe", "leave_client", "forget_client"),
}

_RECORDS: Mapping[str, type] = {"ForeignSession": OwnedSession, "Snapshot": StateFiles}  # by former name

_reported: set[str] = set()  # classes that were reported
_lock = threading.Lock()


def former_name(module: str, name: str) -> type:
    """A protocol, or a record, by its former name.  Raises :class:`AttributeError` for any other name."""
    if name in _RECORDS:
        found, new = _RECORDS[name], _RECORDS[name].__name__
    elif name in PROTOCOLS:
        found, new = _protocol(name), "EngineBinder or BrokerBinder, which has its methods"
    else:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    text = f"{module}.{name} is a former name, which the next version does not have (use {new})"
    warnings.warn(text, FutureWarning, stacklevel=3)
    return found


@cache
def _protocol(name: str) -> type:
    return type(name, (), {"__doc__": f"The former protocol of {', '.join(PROTOCOLS[name])}, to inherit."})


def adapting(kind: _Kind, base: _Base, package: str) -> _Kind:
    """The kind, whose binders in the former form are adapted; unchanged if they are known to be in the new.

    A class that is known to be in the former form is reported here, another at its first binder.
    """
    made = _made_by(kind.connect)
    if made is not None and issubclass(made, base) and made is not base:
        return kind
    if made is not None and made is not base:
        _report(made, base, kind.name, package)

    @wraps(kind.connect, updated=())
    def connect(*arguments: Any, **named: Any) -> Any:
        binder = kind.connect(*arguments, **named)
        if isinstance(binder, base):
            return binder
        _report(type(binder), base, kind.name, package)
        return adapted(binder, base)

    return replace(kind, connect=connect)


def _made_by(connect: Callable[..., object]) -> type | None:
    """The class of the binders, as far as it is known before there is one."""
    if isinstance(connect, type):
        return connect
    try:
        made = get_type_hints(connect).get("return")
    except (NameError, TypeError):  # names that only a type checker imports; an object without annotations
        return None
    return made if isinstance(made, type) else None


def _report(made: type, base: _Base, kind: str, package: str) -> None:
    name = f"{made.__module__}.{made.__qualname__}"
    with _lock:
        if name in _reported:
            return
        _reported.add(name)
    _log.warning(
        "binder %r of package %s: class %s is in the former form of the contract, which the next version "
        "does not accept (let it inherit speck.binder.%s; see docs/binders.md)",
        kind,
        package,
        name,
        base.__name__,
    )


def adapted(binder: object, base: _Base) -> Any:
    """The binder as one of the base class: the parts of the contract that it had, and defaults for others."""
    names = frozenset(name for name, _ in inspect.getmembers(base, inspect.isfunction)) | {"log_about"}
    there = frozenset(name for name in names if getattr(binder, name, None) is not None)
    former: Any = type(binder)
    return _adapter(former, base, there)(binder)


class _Adapted:
    """A binder of the new form around one of the former."""

    def __init__(self, binder: object) -> None:
        self._former = binder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._former, name)


@cache
def _adapter(former: type, base: _Base, there: frozenset[str]) -> Callable[[object], Any]:
    """The class of adapters of binders that have these methods of the contract."""
    had = {name for members in PROTOCOLS.values() if there.issuperset(members) for name in members}
    members: dict[str, Any] = {}
    for name in (had & set(dir(base))) | base.__abstractmethods__:
        members[name] = _attribute(name) if name == "log_about" else _forwarding(base, name)
    return type(former.__name__, (_Adapted, base), members)


def _attribute(name: str) -> property:
    return property(lambda self: getattr(self._former, name))


def _forwarding(base: _Base, name: str) -> Callable[..., Any]:
    @wraps(inspect.getattr_static(base, name))
    def call(self: _Adapted, *arguments: Any, **named: Any) -> Any:
        return getattr(self._former, name)(*arguments, **named)

    # A forwarding method is no abstract one, whose mark it has got with the other attributes.
    vars(call).pop("__isabstractmethod__", None)
    return call
