"""The workers of a Flink cluster: its TaskManagers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.validation import text
from speck.core.runtime import Worker


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
