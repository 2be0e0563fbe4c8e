"""The schemas of the REST interface's answers."""

from __future__ import annotations

from speck.server.api.schemas.compositions import (
    CompositionSummarySchema,
    CompositionViewSchema,
    CountsSchema,
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

__all__ = [
    "ActionSchema",
    "BrokerViewSchema",
    "ChangeSchema",
    "CheckupSchema",
    "ComplaintSchema",
    "CompositionSummarySchema",
    "CompositionViewSchema",
    "CountsSchema",
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
    "UndrainedSessionSchema",
    "UplinkViewSchema",
    "WarningSchema",
]
