"""The names of ``speck.model`` as binders of other packages import them since version 0.1."""

from __future__ import annotations

from speck.core.job import (
    JOB_FIELDS,
    Composition,
    FieldChange,
    Job,
    Scalar,
    changed_fields,
    client_id,
    fence_topic,
    form_fingerprint,
    session_fingerprint,
)
from speck.core.job import (
    ChangeCost as Change,
)
from speck.core.names import JOB_NAME
from speck.core.runtime import (
    Attempt,
    Capacity,
    Checkup,
    Complaint,
    Drift,
    Found,
    Handle,
    JobMetrics,
    JobState,
    JobStatus,
    State,
)

__all__ = [
    "JOB_FIELDS",
    "JOB_NAME",
    "Attempt",
    "Capacity",
    "Change",
    "Checkup",
    "Complaint",
    "Composition",
    "Drift",
    "FieldChange",
    "Found",
    "Handle",
    "Job",
    "JobMetrics",
    "JobState",
    "JobStatus",
    "Scalar",
    "State",
    "changed_fields",
    "client_id",
    "fence_topic",
    "form_fingerprint",
    "session_fingerprint",
]
