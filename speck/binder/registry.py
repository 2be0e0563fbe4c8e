"""Kinds of engines and brokers, found by their entry points in the group ``speck.binders``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from urllib.parse import urlsplit

from speck.binder.broker import BrokerBinder
from speck.binder.devserver import LocalServer
from speck.binder.engine import EngineBinder
from speck.binder.former import adapting
from speck.core.code import ReachedCode
from speck.core.inventory import Inventory
from speck.core.job import Scalar
from speck.core.needs import Misfit, Needs
from speck.core.split.advice import SplitSample
from speck.core.trigger import REAL_TIME

ENTRY_POINT_GROUP = "speck.binders"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a job's code; ``needed``: it has no default; ``types`` is empty for any type."""

    name: str
    needed: bool
    types: tuple[type, ...] = ()


@dataclass(frozen=True)
class QueryRunner:
    """The code that runs the queries of SQL jobs: its file, and the class or function in it.

    It takes an argument ``program``, the query in canonical form.  With ``panes`` it runs input jobs with the
    cut ``partials``, and the rest of a join by time.
    """

    path: Path
    entry_class: str
    panes: bool = False


SampleSplit = Callable[[Path, str, Mapping[str, Scalar], Sequence[str], int | None], SplitSample]


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine; ``name`` is its own (``spark-connect``), ``engine`` the one in a job (``spark``).

    ``check_code(path, entry_class)`` returns the fault of a job's file as a sentence, or ``None``, without
    running the code.  ``parameters(path, entry_class)`` returns the parameters of faultless code (``None``:
    unknown, or any).  ``connect(address, inventory)`` makes the binder, and opens no connection yet.
    ``local`` starts an engine on a developer's machine, where that is possible; ``forms`` are further servers
    of this kind, by their names there.  ``on_error`` are the treatments of failing messages that the jobs'
    connector knows.  ``aggregation(path, entry_class)`` returns
    the faults of faultless code as the class of a split by keys (``None``: the engine runs no such splits).
    ``sample_split(path, entry_class, arguments, messages, slide_us)`` runs such a class on messages, here, to
    measure it; ``slide_us`` ``None`` is a day.  It raises :class:`~speck.errors.Rejected` for one that fails.
    ``policy_fault(data)`` returns the fault of the file of a trained policy for such splits, as a predicate.
    ``retains``: its jobs may have retained results (:attr:`speck.core.job.Job.retain`).
    ``output_modes``: its jobs may choose one (:attr:`speck.core.job.Job.output_mode`); ``real_time``: they
    may have the trigger :data:`speck.core.trigger.REAL_TIME`.
    ``reached_code(path, entry_class)`` returns the statements of faultless code that the job reaches, where
    they can be read (``None``: the whole file counts); a change of others restarts no job.
    ``lacks_brokers`` are the kinds of brokers that its jobs cannot reach.
    ``queries`` is the code that runs the queries of SQL jobs (``None``: the engine runs none).
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
    on_error: tuple[str, ...] = ("fail",)
    aggregation: Callable[[Path, str], Sequence[str]] | None = None
    sample_split: SampleSplit | None = None
    policy_fault: Callable[[bytes], str | None] | None = None
    output_modes: bool = False
    retains: bool = False
    real_time: bool = False
    reached_code: Callable[[Path, str], ReachedCode | None] | None = None
    lacks_brokers: tuple[str, ...] = ()
    queries: QueryRunner | None = None
    forms: Mapping[str, LocalServer] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class BrokerKind:
    """A kind of broker; ``connect`` as for :class:`EngineKind`.

    ``topic_fault(topic)`` returns the fault of a topic that a job reads or writes there, as a predicate,
    where the kind has stricter rules than MQTT.  ``retains``: it has retained messages; ``splits``: the parts
    of a split by keys can work over it.  ``replays``: it keeps messages that were read, and its binder has
    ``Capability.REPLAY``.  ``partitions``: it has ``Capability.PARTITIONS``.
    """

    name: str
    schemes: tuple[str, ...]
    connect: Callable[[str, Inventory], BrokerBinder]
    local: LocalServer | None = None
    topic_fault: Callable[[str], str | None] | None = None
    retains: bool = True
    splits: bool = True
    replays: bool = False
    partitions: bool = False


# The engine of a job that names none, by the scheme of its address.
ENGINE_OF_SCHEME: Mapping[str, str] = {"sc": "spark", "spark": "spark", "http": "flink", "https": "flink"}


@lru_cache(maxsize=4096)  # each job of a long composition names three addresses, few of which differ
def scheme_of(address: str) -> str:
    """The scheme of an address in lower case; empty if it has none."""
    return urlsplit(address).scheme.lower()


def engine_of(address: str) -> str:
    """The engine that the scheme of an address stands for; empty if it stands for none."""
    return ENGINE_OF_SCHEME.get(scheme_of(address), "")


@dataclass(frozen=True)
class Registry:
    """The installed kinds of engines and brokers."""

    engines: tuple[EngineKind, ...] = ()
    brokers: tuple[BrokerKind, ...] = field(default=())

    def engine_kind(self, engine: str, address: str) -> EngineKind | None:
        """The kind that serves this engine at this kind of address."""
        scheme = scheme_of(address)
        return next((kind for kind in self.engines if kind.engine == engine and scheme in kind.schemes), None)

    def engine_kind_at(self, address: str) -> EngineKind | None:
        """The kind that serves the engine which the scheme of an address stands for."""
        return self.engine_kind(engine_of(address), address)

    def runs(self, engine: str, address: str) -> bool:
        """True if the engine at an address of the inventory is of this kind."""
        known = ENGINE_OF_SCHEME.get(scheme_of(address), engine) == engine
        return known and self.engine_kind(engine, address) is not None

    def misfit(self, needs: Needs, address: str) -> Misfit | None:
        """The first reason why an engine that :meth:`runs` a job's kind cannot run the job."""
        kind = self.engine_kind(needs.engine, address)
        return None if kind is None else next(self.misfits(needs, kind), None)

    def misfits(self, needs: Needs, kind: EngineKind) -> Iterator[Misfit]:
        """The fields of a job that do not fit a kind of engine."""
        for field_name, address in needs.brokers:
            broker = self.broker_kind(address)
            if broker is not None and broker.name in kind.lacks_brokers:
                which = f"a broker of {broker.name}, which {kind.name} does not reach"
                fault = f"is {address}, {which} (expected another broker or engine)"
                yield Misfit(field_name, "", fault, (broker.name, kind.name))
        unsupported = f"is not supported by the binder of {kind.name!r}"
        if needs.trigger is not None and kind.engine != "spark":
            fault = f"does not fit engine {kind.engine!r} (only Spark has micro-batches)"
            yield Misfit("trigger", repr(needs.trigger), fault)
        elif needs.trigger == REAL_TIME and not kind.real_time:
            right = "expected an interval, or an engine on Spark Connect"
            yield Misfit("trigger", repr(needs.trigger), f"{unsupported} ({right})")
        if needs.output_mode is not None and kind.engine != "spark":
            fault = f"does not fit engine {kind.engine!r} (only Spark has output modes)"
            yield Misfit("output_mode", repr(needs.output_mode), fault)
        elif needs.output_mode is not None and not kind.output_modes:
            yield Misfit("output_mode", repr(needs.output_mode), f"{unsupported} (expected none)")
        if needs.on_error not in kind.on_error:
            right = " or ".join(kind.on_error)
            yield Misfit("on_error", repr(needs.on_error), f"{unsupported} (expected {right})")
        if needs.retain and not kind.retains:
            yield Misfit("retain", "true", f"{unsupported} (expected false)")

    def broker_kind(self, address: str) -> BrokerKind | None:
        """The kind of broker at this address."""
        return self._broker_kinds.get(scheme_of(address))

    @cached_property
    def _broker_kinds(self) -> Mapping[str, BrokerKind]:
        return {scheme: kind for kind in reversed(self.brokers) for scheme in kind.schemes}

    def local_engines(self) -> dict[str, LocalServer]:
        """The servers of engines that can run on this machine, by name."""
        forms = {name: form for kind in self.engines for name, form in kind.forms.items()}
        return _local(self.engines) | forms

    def local_brokers(self) -> dict[str, LocalServer]:
        """The servers of brokers that can run on this machine, by name."""
        return _local(self.brokers)

    @classmethod
    def of(cls, kinds: Iterable[EngineKind | BrokerKind]) -> Registry:
        """A registry of these kinds."""
        found = list(kinds)
        return cls(
            tuple(kind for kind in found if isinstance(kind, EngineKind)),
            tuple(kind for kind in found if isinstance(kind, BrokerKind)),
        )


def _local(kinds: Iterable[EngineKind | BrokerKind]) -> dict[str, LocalServer]:
    return {kind.name: kind.local for kind in kinds if kind.local is not None}


def installed() -> Registry:
    """The binders of all installed packages, by their entry points; those of the former form are adapted."""
    return Registry.of(map(_loaded, entry_points(group=ENTRY_POINT_GROUP)))


def _loaded(entry: EntryPoint) -> EngineKind | BrokerKind:
    kind: EngineKind | BrokerKind = entry.load()
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
    if isinstance(kind, EngineKind):
        return adapting(kind, EngineBinder, package)
    return adapting(kind, BrokerBinder, package)
