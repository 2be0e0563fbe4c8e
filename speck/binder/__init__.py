"""The contract between SpecK and the adapters to engines and brokers; all names that a binder needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from speck.binder.broker import BrokerBinder
from speck.binder.contract import (
    Artifact,
    ArtifactServer,
    Backlog,
    Capability,
    CountFrom,
    Feed,
    OwnedSession,
    StateFiles,
)
from speck.binder.devserver import LocalServer, Networked, Preparable, Scalable, WorkersEngine
from speck.binder.engine import EngineBinder
from speck.binder.former import former_name
from speck.binder.registry import (
    ENGINE_OF_SCHEME,
    ENTRY_POINT_GROUP,
    BrokerKind,
    EngineKind,
    Parameter,
    QueryRunner,
    Registry,
    engine_of,
    installed,
    scheme_of,
)
from speck.core.code import CodePart, ReachedCode
from speck.core.waiting import MOST_COUNTED

__all__ = [
    "ENGINE_OF_SCHEME",
    "ENTRY_POINT_GROUP",
    "MOST_COUNTED",
    "Artifact",
    "ArtifactServer",
    "Backlog",
    "BrokerBinder",
    "BrokerKind",
    "Capability",
    "CodePart",
    "CountFrom",
    "EngineBinder",
    "EngineKind",
    "Feed",
    "LocalServer",
    "Networked",
    "OwnedSession",
    "Parameter",
    "Preparable",
    "QueryRunner",
    "ReachedCode",
    "Registry",
    "Scalable",
    "StateFiles",
    "WorkersEngine",
    "engine_of",
    "installed",
    "scheme_of",
]

if not TYPE_CHECKING:  # a type checker knows no former name

    def __getattr__(name: str) -> type:
        """Return a protocol of the former contract, for binders of other packages."""
        return former_name(__name__, name)
