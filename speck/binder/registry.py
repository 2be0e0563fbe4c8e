"""Kinds of engines and brokers, found by their entry points in the group ``speck.binders``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urlsplit

from speck.binder.contract import BrokerBinder, EngineBinder
from speck.binder.devserver import LocalServer
from speck.core.inventory import Inventory

ENTRY_POINT_GROUP = "speck.binders"


@dataclass(frozen=True)
class Parameter:
    """An argument that a job's code takes: whether it must be given, and its types (empty: any)."""

    name: str
    needed: bool
    types: tuple[type, ...] = ()


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine: ``name`` is its own (``spark-connect``), ``engine`` what a job calls it (``spark``).

    ``check_code(path, entry_class)`` says in a sentence what is wrong with a job's file without running
    it, or ``None``; ``parameters``, of code with nothing wrong, which arguments it takes (``None``: not
    known, or any).  ``connect(address, inventory)`` makes the binder and opens no connection yet.
    ``local`` starts one on a developer's machine, where that is possible.
    """

    name: str
    engine: str
    schemes: tuple[str, ...]
    check_code: Callable[[Path, str], str | None]
    connect: Callable[[str, Inventory], EngineBinder]
    bound: int = 4  # actions at a time on one engine
    startup_seconds: float = 0.0  # s that a new copy must run before it counts as started
    local: LocalServer | None = None
    parameters: Callable[[Path, str], Sequence[Parameter] | None] | None = None
    settle: InitVar[float | None] = None  # startup_seconds, as binders of other packages name it since 0.1

    def __post_init__(self, settle: float | None) -> None:
        if settle is not None:
            object.__setattr__(self, "startup_seconds", settle)  # the class is frozen


@dataclass(frozen=True)
class BrokerKind:
    """A kind of broker; ``connect`` as for :class:`EngineKind`."""

    name: str
    schemes: tuple[str, ...]
    connect: Callable[[str, Inventory], BrokerBinder]
    local: LocalServer | None = None


# The engine that an address means when a job names none (see the design's table of fields).
ENGINE_OF_SCHEME: Mapping[str, str] = {"sc": "spark", "spark": "spark", "http": "flink", "https": "flink"}


def scheme_of(address: str) -> str:
    """The scheme of an address, in lower case; empty when it has none."""
    return urlsplit(address).scheme.lower()


@dataclass(frozen=True)
class Registry:
    """The kinds of engines and brokers that are installed."""

    engines: tuple[EngineKind, ...] = ()
    brokers: tuple[BrokerKind, ...] = field(default=())

    def engine_kind(self, engine: str, address: str) -> EngineKind | None:
        """The kind that serves this engine at this kind of address."""
        scheme = scheme_of(address)
        return next((kind for kind in self.engines if kind.engine == engine and scheme in kind.schemes), None)

    def broker_kind(self, address: str) -> BrokerKind | None:
        """The kind of broker at this address."""
        scheme = scheme_of(address)
        return next((kind for kind in self.brokers if scheme in kind.schemes), None)

    @classmethod
    def of(cls, kinds: Iterable[EngineKind | BrokerKind]) -> Registry:
        """A registry of just these kinds."""
        found = list(kinds)
        return cls(
            tuple(kind for kind in found if isinstance(kind, EngineKind)),
            tuple(kind for kind in found if isinstance(kind, BrokerKind)),
        )


def installed() -> Registry:
    """The binders of all installed packages, by their entry points."""
    return Registry.of(entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP))
