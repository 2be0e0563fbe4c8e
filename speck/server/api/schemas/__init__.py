"""The schemas of the REST interface's answers."""

from __future__ import annotations

from speck.server.api.schemas.compositions import (
    CompositionSummarySchema,
    CompositionViewSchema,
    CountsSchema,
    DeletedCompositionSchema,
    DifferenceSchema,
    JobDifferenceSchema,
    RevisionSchema,
    RevisionViewSchema,
)
from speck.server.api.schemas.jobs import (
    JobRatesSchema,
    JobViewSchema,
    LeftCopySchema,
    LeftoverSchema,
    LogSchema,
    LossSchema,
    RatesSchema,
    SessionSchema,
)
from speck.server.api.schemas.plans import (
    ActionSchema,
    ChangeSchema,
    DestructionSchema,
    OperationSchema,
    OperationSummarySchema,
    PlanSchema,
    ProgressSchema,
    UndrainedSessionSchema,
    WarningSchema,
)
from speck.server.api.schemas.server import (
    DiagnosisSchema,
    EventSchema,
    FindingSchema,
    HealthSchema,
    OwnerSchema,
    ProblemSchema,
)
from speck.server.api.schemas.sites import (
    BrokerViewSchema,
    CheckupSchema,
    ComplaintSchema,
    EngineViewSchema,
    SiteViewSchema,
    UplinkViewSchema,
)
from speck.server.api.schemas.splits import SplitSchema, WindowSchema

__all__ = [
    "ActionSchema",
    "BrokerViewSchema",
    "ChangeSchema",
    "CheckupSchema",
    "ComplaintSchema",
    "CompositionSummarySchema",
    "CompositionViewSchema",
    "CountsSchema",
    "DeletedCompositionSchema",
    "DestructionSchema",
    "DiagnosisSchema",
    "DifferenceSchema",
    "EngineViewSchema",
    "EventSchema",
    "FindingSchema",
    "HealthSchema",
    "JobDifferenceSchema",
    "JobRatesSchema",
    "JobViewSchema",
    "LeftCopySchema",
    "LeftoverSchema",
    "LogSchema",
    "LossSchema",
    "OperationSchema",
    "OperationSummarySchema",
    "OwnerSchema",
    "PlanSchema",
    "ProblemSchema",
    "ProgressSchema",
    "RatesSchema",
    "RevisionSchema",
    "RevisionViewSchema",
    "SessionSchema",
    "SiteViewSchema",
    "SplitSchema",
    "UndrainedSessionSchema",
    "UplinkViewSchema",
    "WarningSchema",
    "WindowSchema",
]
