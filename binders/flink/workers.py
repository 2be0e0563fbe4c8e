"""The workers of a Flink cluster: its TaskManagers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from binders.common.processor import Idle
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.validation import text
from speck.core.runtime import Worker

# Of TaskManagers, and of the one process of a small cluster, which does the JobManager's work too: 0.01 cores
# and 0.004 for each job (benchmarks/placement/README.md, by process).
TASK_MANAGERS, ONE_PROCESS = Idle(0.01, 0.005), Idle(0.02, 0.009)
NO_PORT = -1  # of a TaskManager that exchanges data in memory


def idle_cores(managers: Iterable[Mapping[str, Any]]) -> Idle:
    """The cores without messages of the processes whose time is that of these TaskManagers."""
    alone = [each.get("dataPort") == NO_PORT for each in managers]
    return ONE_PROCESS if alone and all(alone) else TASK_MANAGERS


def workers_of(rest: FlinkRest) -> list[Worker]:
    """The registered TaskManagers; one that was killed is listed until its heartbeats are missed."""
    return [_worker(rest, each) for each in rest.task_managers()]


def _worker(rest: FlinkRest, manager: Mapping[str, Any]) -> Worker:
    identifier, free = text(manager["id"]), manager.get("freeSlots")
    slots = manager.get("slotsNumber") or None  # 0 until a new one has reported them
    return Worker(
        id=identifier,
        free=slots is not None and slots == free,
        cores=(manager.get("hardware") or {}).get("cpuCores"),
        slots=slots,
        slots_free=free if slots is not None else None,
        memory=(manager.get("memoryConfiguration") or {}).get("totalProcessMemory"),
        processor=rest.processor_time(identifier),
    )
