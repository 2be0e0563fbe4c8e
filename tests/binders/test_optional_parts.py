"""The optional protocols of each shipped engine binder, by name.

The contract's cases for a protocol skip an engine without it, so that a method lost by accident stops no test
but this one.
"""

from __future__ import annotations

import inspect

import pytest
from typing_extensions import get_protocol_members

from binders.flink.engine import FlinkEngine
from binders.spark.connect.engine import ConnectEngine
from binders.spark.standalone.engine import StandaloneEngine
from speck.binder import contract
from testbed.doubles.binders import InMemoryEngine

COMMON = {
    "BatchStatus",
    "HealthCheckable",
    "ListsRunning",
    "LogReader",
    "OfflineState",
    "PlanReader",
    "Profiles",
    "ReachesBrokers",
}
REAL = COMMON | {"Probes", "StateLocator"}
PARTS = {
    FlinkEngine: REAL
    | {
        "AcceptsJobs",
        "BatchMetrics",
        "BuildsJobs",
        "DisposableState",
        "ListsWorkers",
        "ProgressAware",
        "ReadinessProbe",
    },
    ConnectEngine: REAL | {"BuildsJobs", "ChecksResumption", "ReadinessProbe", "StateTransferable"},
    StandaloneEngine: REAL
    | {"AcceptsJobs", "BatchMetrics", "BuildsJobs", "FetchesArtifacts", "ListsWorkers"},
    InMemoryEngine: COMMON | {"BuildsJobs", "ListsWorkers", "ReadinessProbe"},
}


@pytest.mark.parametrize("binder", PARTS, ids=lambda binder: binder.__name__)
def test_a_binder_has_all_its_optional_protocols(binder: type) -> None:
    known = set(dir(binder)) | set(inspect.get_annotations(binder))
    classes = inspect.getmembers(contract, inspect.isclass)
    assert {name for name, each in classes if _optional(each, known)} == PARTS[binder]


def _optional(protocol: type, known: set[str]) -> bool:
    """True if these members make an object of an optional protocol."""
    return getattr(protocol, "_is_runtime_protocol", False) and get_protocol_members(protocol) <= known
