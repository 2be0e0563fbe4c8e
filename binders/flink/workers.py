"""The workers of a Flink cluster: its TaskManagers."""

from __future__ import annotations

import re
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
_HOST = re.compile(r"@(.+):\d+/")  # in pekko.tcp://flink@HOST:PORT/user/rpc/taskmanager_0


def idle_cores(managers: Iterable[Mapping[str, Any]]) -> Idle:
    """The cores without messages of the processes whose time is that of these TaskManagers."""
    alone = [each.get("dataPort") == NO_PORT for each in managers]
    return ONE_PROCESS if alone and all(alone) else TASK_MANAGERS


def cores_of(managers: Iterable[Mapping[str, Any]]) -> int | None:
    """The cores of the machines of these TaskManagers; ``None`` if one does not report them, or without any.

    Each reports those of its machine, or of its container, which several at one host share.
    """
    found: dict[str, list[int | None]] = {}
    for each in managers:
        found.setdefault(_machine(each), []).append((each.get("hardware") or {}).get("cpuCores"))
    total = 0
    for there in found.values():
        known = [cores for cores in there if cores is not None]
        if len(known) < len(there):
            return None
        total += max(known)
    return total if found else None


def _machine(manager: Mapping[str, Any]) -> str:
    """The host in the address of a TaskManager; its id where that names none."""
    if manager.get("dataPort") == NO_PORT:
        return ""  # in the one process of a small cluster
    host = _HOST.search(str(manager.get("path", "")))
    return host[1] if host is not None else text(manager["id"])


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
