"""The records, limits and capabilities of the contract between SpecK and its binders.

A binder is a class that inherits :class:`~speck.binder.engine.EngineBinder` or
:class:`~speck.binder.broker.BrokerBinder`.  It is found by its entry point in the group ``speck.binders``,
whose object is an :class:`~speck.binder.registry.EngineKind` or a
:class:`~speck.binder.registry.BrokerKind`.  SpecK imports no binder by name.

All methods may be called from several threads at once.  They raise only errors of :mod:`speck.errors`,
mostly :class:`~speck.errors.BinderError` and its subclasses, with the cause chained.

Each method returns or raises within a bounded time, whatever the other side sends: those that check, build,
start or stop a job or transfer its state within :data:`LONGEST_ACTION`, the others within
:data:`LONGEST_QUERY`.  An answer takes a bounded amount of memory.  :mod:`speck.binder.bounded_http` makes
such requests; :func:`speck.binder.deadline.limited` gives the time that remains for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

LONGEST_QUERY = 300.0  # s: some hundred requests, of which one alone may have the limit of 30 s
LONGEST_ACTION = 900.0  # s: a savepoint may take 300 s, a large file minutes over a slow link


class Capability(Enum):
    """An optional part of a binder, without which SpecK acts otherwise; the value is its methods.

    A binder has a capability when its class overrides these methods, by others than ``None``.  All other
    methods that are not abstract have a default that says what is true of any engine or broker.
    """

    PROFILES = ("profile",)
    """The engine counts the work of its jobs.  Without it, a job has no measured cost."""

    PROBES = ("probe_link", "probe_core")
    """The engine runs short programs that measure a link or a core."""

    WORKERS = ("workers",)
    """The engine consists of workers that come and go.  Without it, the engine is its only worker."""

    OFFLINE_STATE = ("left_state",)
    """A job's state can be found while its engine does not answer.  Without it, a job with state waits."""

    TRANSFER = (
        "state_size",
        "read_state",
        "state_place",
        "check_state_place",
        "write_state",
        "delete_state",
    )
    """A state can be read and written as files, for engines that share no storage."""

    DISPOSE = ("dispose_state",)
    """Each stop of a job leaves a new state, which no job changes afterwards."""

    PROGRESS = ("kept_nothing",)
    """The engine reports if a job that ended had committed anything."""

    RESUMPTION = ("resumption_fault",)
    """The engine cannot continue from every state in every form of a job, and this can be found before."""

    READINESS = ("has_worked",)
    """The engine reports when a job has completed its first work."""

    PLANS = ("engine_plan",)
    """The engine reports the plan by which it executes a job."""

    REPORTS = ("subscribe", "send_control")
    """The broker can be read without a session, and carries control messages."""

    TRACING = ("send_probe", "leave_client", "forget_client")
    """It can be found out if two brokers pass messages on, or are one."""

    BACKLOG = ("behind",)
    """The broker counts the unread messages of each session, even without a reader.  Without it: unknown."""

    REPLAY = ("begin_session", "count_from")
    """A session may begin at messages that others have read.  Without it, one begins at its making."""

    PARTITIONS = ("topic_partitions",)
    """Topics have partitions, each with an order of its own, and ``ensure_topic`` makes a number of them."""


def capabilities_of(binder: type, base: type) -> frozenset[Capability]:
    """The capabilities of a class of binders, by the methods of its base class that it overrides.

    Raises :class:`TypeError` for a class that has some methods of a capability and lacks others.
    """
    found = set()
    for capability in Capability:
        known = [each for each in capability.value if hasattr(base, each)]
        missing = [each for each in known if getattr(binder, each) in (None, getattr(base, each))]
        if known and not missing:
            found.add(capability)
        elif len(missing) < len(known):
            raise TypeError(
                f"{binder.__module__}.{binder.__qualname__} has only some methods of Capability."
                f"{capability.name}: {', '.join(missing)} missing (expected all of "
                f"{', '.join(known)}, or none)"
            )
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that an engine may fetch from the coordinator.

    ``sha256`` is that of its content, in hexadecimal.  ``url`` gives access to this content alone, to anyone
    who has it.
    """

    name: str
    sha256: str
    url: str = field(repr=False)


class ArtifactServer(Protocol):
    """A server of files for engines that cannot get them otherwise."""

    def offer(self, name: str, content: bytes) -> Artifact:
        """Serve this content under this name, also after a restart.

        Raises :class:`~speck.errors.StoreError` if it cannot be stored.
        """

    def token(self, purpose: str) -> str:
        """A secret that only this coordinator can derive, always the same for one purpose."""


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files that a job needs to resume from a state: content by path below the state's place."""

    kind: str
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 over all names and contents, in hexadecimal."""
        total = sha256()
        for name, content in sorted(self.files.items()):
            total.update(f"{len(name)} {name} {len(content)} ".encode())
            total.update(content)
        return total.hexdigest()


@dataclass(frozen=True, slots=True)
class OwnedSession:
    """A session at a broker that has an owner, the identity of a store.

    ``fenced`` is the highest attempt that its fence has named; 0 for none, and where it is not asked for.
    """

    session: str
    owner: str
    topics: tuple[str, ...] = ()
    fenced: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of messages that a session has before it.

    ``deleted`` counts others, which the broker deleted before the session reached them: they are lost.
    ``seconds`` is the age of the oldest of ``messages``; 0 if there are none, ``None`` if it is not known.
    """

    messages: int
    deleted: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CountFrom:
    """The number of messages of a topic from a place on.

    ``skipped`` counts those before that place that a session has not read yet.
    """

    messages: int
    skipped: int = 0


class Feed(Protocol):
    """The messages of a subscription, for one thread."""

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """The messages (topic, content) that have arrived since the last call, a thousand at most.

        Does not wait for any.  Raises a :class:`~speck.errors.BinderError` once the connection has ended.
        """

    def close(self) -> None:
        """End the subscription; raises nothing."""


if not TYPE_CHECKING:  # a type checker knows no former name

    def __getattr__(name: str) -> type:
        """Return what this module had before, for binders of other packages."""
        if name.startswith("__"):  # as the machinery of imports asks while the package is incomplete
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        binder = import_module("speck.binder")
        if name in ("EngineBinder", "BrokerBinder"):
            return getattr(binder, name)
        return import_module("speck.binder.former").former_name(__name__, name)
