"""The contract between SpecK and the adapters to engines and brokers; all names that a binder needs."""

from __future__ import annotations

from speck.binder.contract import (
    MOST_COUNTED,
    AdoptsSessions,
    Artifact,
    ArtifactServer,
    BatchMetrics,
    BatchStatus,
    BrokerBinder,
    BuildsJobs,
    CarriesReports,
    ChecksResumption,
    CountsDropped,
    CountsStored,
    DisposableState,
    EngineBinder,
    Feed,
    FetchesArtifacts,
    ForeignSession,
    HealthCheckable,
    ListsRunning,
    ListsWorkers,
    LogReader,
    NamesWriters,
    OfflineState,
    OwnedSession,
    OwnsSessions,
    PlanReader,
    Probes,
    Profiles,
    ProgressAware,
    ReadinessProbe,
    Snapshot,
    StateLocator,
    StateTransferable,
)
from speck.binder.devserver import LocalServer, Networked, Preparable, Scalable, WorkersEngine
from speck.binder.registry import (
    ENGINE_OF_SCHEME,
    ENTRY_POINT_GROUP,
    BrokerKind,
    EngineKind,
    Parameter,
    Registry,
    installed,
    scheme_of,
)
from speck.core.code import CodePart, ReachedCode

__all__ = [
    "ENGINE_OF_SCHEME",
    "ENTRY_POINT_GROUP",
    "MOST_COUNTED",
    "AdoptsSessions",
    "Artifact",
    "ArtifactServer",
    "BatchMetrics",
    "BatchStatus",
    "BrokerBinder",
    "BrokerKind",
    "BuildsJobs",
    "CarriesReports",
    "ChecksResumption",
    "CodePart",
    "CountsDropped",
    "CountsStored",
    "DisposableState",
    "EngineBinder",
    "EngineKind",
    "Feed",
    "FetchesArtifacts",
    "ForeignSession",
    "HealthCheckable",
    "ListsRunning",
    "ListsWorkers",
    "LocalServer",
    "LogReader",
    "NamesWriters",
    "Networked",
    "OfflineState",
    "OwnedSession",
    "OwnsSessions",
    "Parameter",
    "PlanReader",
    "Preparable",
    "Probes",
    "Profiles",
    "ProgressAware",
    "ReachedCode",
    "ReadinessProbe",
    "Registry",
    "Scalable",
    "Snapshot",
    "StateLocator",
    "StateTransferable",
    "WorkersEngine",
    "installed",
    "scheme_of",
]

# Binders of other packages may use the protocols' names of version 0.1.
_NAMES_0_1 = {
    "CarriesState": StateTransferable,
    "DisposesStates": DisposableState,
    "LeavesState": OfflineState,
    "ListsJobs": ListsRunning,
    "MeasuresMany": BatchMetrics,
    "Prepares": Preparable,
    "TakesArtifacts": FetchesArtifacts,
    "TellsBeginnings": ProgressAware,
    "TellsFirstWork": ReadinessProbe,
    "TellsLog": LogReader,
    "TellsMany": BatchStatus,
    "TellsOfItself": HealthCheckable,
    "TellsState": StateLocator,
    "TellsStored": CountsStored,
}


def __getattr__(name: str) -> type:
    """Return a protocol by its name of version 0.1."""
    try:
        return _NAMES_0_1[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
